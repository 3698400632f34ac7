#include "rooftile/readers/kineto/tables.h"

#include <limits>

#include "rooftile/base/text.h"
#include "rooftile/formats/kineto/json_values.h"

namespace rooftile {
namespace {

constexpr std::size_t kMostRows16 = std::numeric_limits<std::uint16_t>::max();
constexpr std::size_t kMostLargeIds = std::size_t{1} << 22U;
constexpr std::size_t kMostNamedThreads = 1024;
constexpr std::uint32_t kFirstLargeId = std::uint32_t{1} << 31U;

}  // namespace

const std::uint32_t* TextCache::find(std::string_view text) const {
  const auto found = indices_.find(text);
  return found == indices_.end() ? nullptr : &found->second;
}

std::size_t TextCache::cost_of(std::string_view text) {
  constexpr std::size_t kNodeBytes = 80;
  return text.size() + kNodeBytes;
}

void TextCache::insert(std::string_view text, std::uint32_t index) {
  bytes_left_ -= cost_of(text);
  indices_.emplace(text, index);
}

std::uint32_t IdTable::index_of(std::string_view value, SkippedRecords& skipped) {
  if (value.empty()) return 0;
  const auto id = integer_in(value);
  if (!id) {
    ++skipped["ids that are no 64-bit number"];
    return 0;
  }
  if (*id >= 0 && *id < std::int64_t{kFirstLargeId}) return static_cast<std::uint32_t>(*id);
  if (const auto found = large_.find(*id); found != large_.end()) return found->second;
  if (large_.size() == kMostLargeIds) {
    ++skipped["ids beyond 2^31 and too many"];
    return 0;
  }
  const auto index = static_cast<std::uint32_t>(kFirstLargeId + large_.size());
  large_.emplace(*id, index);
  return index;
}

std::uint32_t NameTable::index_of(std::string_view text, SkippedRecords& skipped) {
  if (text.empty()) return 0;
  if (const std::uint32_t* const known = cache_.find(text)) return *known;
  if (!cache_.has_room(text)) {
    ++skipped["names beyond 64 MiB"];
    return 0;
  }
  const std::uint32_t index = strings_.id_of(decoded(text));
  cache_.insert(text, index);
  return index;
}

// "25738" and "stream 7" are numbers; other text gets negative ones, in the order of appearance.
std::int64_t ThreadTable::number_of(std::string_view value) {
  if (const auto number = integer_in(value)) return *number;
  const std::string_view text = unquoted(value);
  if (const auto found = named_.find(text); found != named_.end()) return found->second;
  if (named_.size() == kMostNamedThreads) return std::numeric_limits<std::int64_t>::min();
  const std::int64_t number = -1 - static_cast<std::int64_t>(named_.size());
  named_.emplace(text, number);
  return number;
}

std::uint16_t ThreadTable::index_of(std::string_view process, std::string_view thread,
                                    SkippedRecords& skipped) {
  if (has_last_ && process == last_process_ && thread == last_thread_) return last_;
  const HostThread id{number_of(process), number_of(thread)};
  auto found = indices_.find(id);
  if (found == indices_.end()) {
    if (threads_.size() == kMostRows16) {
      ++skipped["events of threads beyond 65535"];
      return 0;
    }
    found = indices_.emplace(id, static_cast<std::uint16_t>(threads_.size())).first;
    threads_.push_back(id);
  }
  last_process_ = process;
  last_thread_ = thread;
  has_last_ = true;
  last_ = found->second;
  return last_;
}

std::uint16_t StreamTable::index_of(const GpuStream& stream, SkippedRecords& skipped) {
  const auto found = indices_.find(stream);
  if (found != indices_.end()) return found->second;
  if (streams_.size() == kMostRows16) {
    ++skipped["events of streams beyond 65535"];
    return 0;
  }
  const auto index = static_cast<std::uint16_t>(streams_.size());
  indices_.emplace(stream, index);
  streams_.push_back(stream);
  return index;
}

}  // namespace rooftile
