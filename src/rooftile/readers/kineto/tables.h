// Values that repeat in many events, found by their text so that each is read once. All are
// bounded: what a file has beyond the bound becomes "not recorded" and is counted.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rooftile/formats/kineto/kineto_stream.h"
#include "rooftile/workload/timeline.h"

namespace rooftile {

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>()(text);
  }
};

// Text as written -> an index.
class TextCache {
 public:
  explicit TextCache(std::size_t most_bytes) : bytes_left_(most_bytes) {}

  // Null where the text is new.
  const std::uint32_t* find(std::string_view text) const;
  // Whether another text stays within the bound.
  bool has_room(std::string_view text) const { return cost_of(text) <= bytes_left_; }
  // The text must be new and have room.
  void insert(std::string_view text, std::uint32_t index);

 private:
  static std::size_t cost_of(std::string_view text);

  std::unordered_map<std::string, std::uint32_t, TextHash, std::equal_to<>> indices_;
  std::size_t bytes_left_;
};

// Ids of any size as 32 bit: what does not fit gets a number of its own from 2^31 on.
class IdTable {
 public:
  // 0 for 0, for no number and beyond the bound.
  std::uint32_t index_of(std::string_view value, SkippedRecords& skipped);

 private:
  std::unordered_map<std::int64_t, std::uint32_t> large_;
};

// Names, decoded, in the timeline's string table.
class NameTable {
 public:
  explicit NameTable(StringTable& strings) : strings_(strings) {}
  // `text` without quotes.
  std::uint32_t index_of(std::string_view text, SkippedRecords& skipped);

 private:
  StringTable& strings_;
  TextCache cache_{std::size_t{64} << 20U};
};

// Threads of the host by the process and thread of an event, as numbers or as text.
class ThreadTable {
 public:
  explicit ThreadTable(std::vector<HostThread>& threads) : threads_(threads) {}
  std::uint16_t index_of(std::string_view process, std::string_view thread,
                         SkippedRecords& skipped);

 private:
  std::int64_t number_of(std::string_view value);

  std::vector<HostThread>& threads_;
  std::map<HostThread, std::uint16_t> indices_;
  std::map<std::string, std::int64_t, std::less<>> named_;
  std::string last_process_, last_thread_;
  std::uint16_t last_ = 0;
  bool has_last_ = false;
};

class StreamTable {
 public:
  explicit StreamTable(std::vector<GpuStream>& streams) : streams_(streams) {}
  std::uint16_t index_of(const GpuStream& stream, SkippedRecords& skipped);

 private:
  std::vector<GpuStream>& streams_;
  std::map<GpuStream, std::uint16_t> indices_;
};

}  // namespace rooftile
