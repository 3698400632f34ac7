// Chrome trace JSON as PyTorch's profiler (Kineto) writes it, event by event: the trace is never
// held whole.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/byte_stream.h"

namespace rooftile {

struct JsonMember {
  std::string_view key;    // between its quotes
  std::string_view value;  // as written
};

// One element of traceEvents. Everything is as written, strings with their quotes; empty where the
// event has no such member.
struct KinetoEvent {
  std::string_view phase, category, name, process, thread, time, duration;
  std::vector<JsonMember> args;

  void clear();
};

// Called in the file's order; views are valid during the call only.
class KinetoVisitor {
 public:
  virtual ~KinetoVisitor() = default;
  virtual void on_event(const KinetoEvent& event) = 0;
  // A member of the top-level object other than traceEvents: before or after the events.
  virtual void on_member(std::string_view key, std::string_view value) = 0;
};

// What was left out: name -> count.
using SkippedRecords = std::map<std::string, std::int64_t>;

inline constexpr std::size_t kMostEventBytes = std::size_t{16} << 20U;

// Reads to the end. An error when this is not a trace, which says what it is instead. Events that
// cannot be read cost only themselves.
Result<SkippedRecords> read_kineto_stream(ByteStream& bytes, KinetoVisitor& visitor);

}  // namespace rooftile
