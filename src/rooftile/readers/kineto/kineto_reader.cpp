#include "rooftile/readers/kineto/kineto_reader.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "rooftile/base/inflater.h"
#include "rooftile/base/text.h"
#include "rooftile/readers/kineto/timeline_builder.h"
#include "rooftile/readers/reader.h"

namespace rooftile {
namespace {

constexpr std::size_t kHeadToSearch = std::size_t{1} << 20U;

// Keys that stand near the start of traces, and of execution traces.
bool looks_like_trace(std::string_view text) {
  text = trim(text);
  if (text.starts_with('[')) {
    const std::string_view inside = trim(text.substr(1));
    return inside.starts_with('[') ||
           (inside.starts_with('{') && contains_any(inside.substr(0, kTextHeadBytes), {"\"ph\""}));
  }
  if (!text.starts_with('{')) return false;
  return contains_any(text, {"\"traceEvents\"", "\"deviceProperties\"", "\"distributedInfo\"",
                             "\"rocprofiler-sdk-tool\""}) ||
         (contains_any(text, {"\"schema\""}) && contains_any(text, {"\"nodes\""}));
}

}  // namespace

bool is_kineto(std::string_view path, std::string_view head) {
  const std::string_view text = trim(head);
  // No other reader reads gzip; what is inside decides between a trace and its refusal.
  if (is_gzip(head)) {
    const auto inside = read_text_head(std::string(path), kTextHeadBytes);
    return inside && (trim(*inside).starts_with('{') || trim(*inside).starts_with('['));
  }
  if (!text.starts_with('{') && !text.starts_with('[')) return false;
  if (looks_like_trace(text)) return true;
  // Long metadata may come first.
  const auto more = read_text_head(std::string(path), kHeadToSearch);
  return more && more->find("\"traceEvents\"") != std::string::npos;
}

Result<Timeline> read_kineto_bytes(ByteStream& bytes, const std::string& file) {
  Timeline timeline;
  timeline.file = file;
  timeline.format = "Kineto";
  TimelineBuilder builder(timeline);
  const Result<SkippedRecords> skipped = read_kineto_stream(bytes, builder);
  if (!skipped) return fail(skipped.error().message, file);
  builder.finish();
  if (!builder.knows_events() && !timeline.skipped.empty()) {
    return fail("a Chrome trace without events of PyTorch's profiler: found " +
                    timeline.skipped.begin()->first + ", expected categories such as kernel",
                file);
  }
  for (const auto& [name, count] : *skipped) timeline.skipped[name] += count;
  return timeline;
}

Result<Timeline> read_kineto(const std::string& path, const ReadProgress& progress) {
  const auto bytes = ByteStream::open(path, progress);
  if (!bytes) return tl::unexpected(bytes.error());
  return read_kineto_bytes(**bytes, path);
}

namespace {

Result<std::vector<Timeline>> record_kineto(const std::string& path, const ReadOptions& options) {
  return read_kineto(path, options.progress).map([](Timeline timeline) {
    std::vector<Timeline> timelines;
    timelines.push_back(std::move(timeline));
    return timelines;
  });
}

}  // namespace

extern const Reader kineto_reader{.name = "kineto",
                                  .recognises = is_kineto,
                                  .record = record_kineto,
                                  .reads_beside_others = true,
                                  .instead_of_decode = {}};

}  // namespace rooftile
