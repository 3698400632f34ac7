// Any bytes give an error or a timeline whose columns agree in length and whose indices are in
// range.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "rooftile/readers/nsys/nsys_reader.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check_gpu(const rooftile::Timeline& timeline) {
  const auto& gpu = timeline.gpu;
  for (std::size_t i = 0; i < gpu.time.size(); ++i) {
    require(gpu.time.duration(i) >= 0 && gpu.stream[i] < timeline.streams.size());
    require(gpu.name[i] < timeline.strings.size());
    const bool is_kernel = gpu.kind[i] == rooftile::GpuKind::kernel;
    require(gpu.details[i] < (is_kernel ? timeline.launches.size() : timeline.copies.size()));
  }
}

void check_host(const rooftile::Timeline& timeline) {
  for (std::size_t i = 0; i < timeline.ops.time.size(); ++i) {
    require(timeline.ops.time.duration(i) >= 0 && timeline.ops.thread[i] < timeline.threads.size());
    require(timeline.ops.arguments[i] < timeline.arguments.size());
    require(timeline.ops.name[i] < timeline.strings.size());
  }
  for (std::size_t i = 0; i < timeline.calls.time.size(); ++i) {
    require(timeline.calls.thread[i] < timeline.threads.size());
    require(timeline.calls.name[i] < timeline.strings.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const auto timelines = rooftile::read_nsys_bytes(bytes, "fuzz.sqlite");
  if (!timelines) return 0;
  require(!timelines->empty());
  for (const rooftile::Timeline& timeline : *timelines) {
    check_gpu(timeline);
    check_host(timeline);
  }
  return 0;
}
