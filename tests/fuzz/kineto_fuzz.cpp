// Any bytes are an error or a timeline whose rows all lie within their tables; the size of the
// blocks in which they arrive changes nothing.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "rooftile/readers/kineto/kineto_reader.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check_rows(const rooftile::Timeline& t) {
  for (std::size_t i = 0; i < t.ops.time.size(); ++i) {
    require(t.ops.time.duration(i) >= 0 && t.ops.time.end(i) >= t.ops.time.start(i));
    require(t.ops.thread[i] < t.threads.size() && t.ops.name[i] < t.strings.size());
    require(t.ops.arguments[i] < t.arguments.size());
    require(t.ops.collective[i] < t.collectives.size());
    require(t.ops.stack[i] < t.strings.size() && t.ops.module[i] < t.strings.size());
  }
  for (std::size_t i = 0; i < t.python.time.size(); ++i) {
    require(t.python.thread[i] < t.threads.size() && t.python.name[i] < t.strings.size());
  }
  for (std::size_t i = 0; i < t.calls.time.size(); ++i) {
    require(t.calls.thread[i] < t.threads.size() && t.calls.name[i] < t.strings.size());
  }
  for (std::size_t i = 0; i < t.gpu.time.size(); ++i) {
    const bool is_kernel = t.gpu.kind[i] == rooftile::GpuKind::kernel;
    require(t.gpu.details[i] < (is_kernel ? t.launches.size() : t.copies.size()));
    require(t.gpu.stream[i] < t.streams.size() && t.gpu.name[i] < t.strings.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto whole = rooftile::read_kineto_bytes(*rooftile::stream_of(bytes, 1U << 20U), "-");
  const auto pieces = rooftile::read_kineto_bytes(*rooftile::stream_of(bytes, 13), "-");
  require(whole.has_value() == pieces.has_value());
  if (!whole) return 0;
  check_rows(*whole);
  require(whole->ops.time.size() == pieces->ops.time.size());
  require(whole->gpu.time.size() == pieces->gpu.time.size());
  require(whole->skipped == pieces->skipped);
  return 0;
}
