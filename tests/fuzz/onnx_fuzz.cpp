// Any bytes give an error or a workload whose text form reads back to itself. The reader's own path
// without the child process, so that a crash of the ONNX library shows.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "rooftile/readers/onnx/onnx_reader.h"
#include "rooftile/workload/workload_text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  rooftile::ReadOptions options;
  options.batch = 2;
  const auto workload = rooftile::read_onnx_bytes(bytes, "fuzz.onnx", options);
  if (!workload) return 0;
  const auto again = rooftile::parse_workload(rooftile::to_text(*workload), "fuzz.onnx");
  if (!again || *again != *workload) std::abort();
  return 0;
}
