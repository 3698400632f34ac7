// Any bytes give an error or a workload whose text form reads back to itself. The reader's own path
// without the child process, so that a crash of the ONNX library shows.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "rooftile/readers/onnx/onnx_reader.h"
#include "rooftile/workload/workload_text.h"
#include "tests/fuzz/onnx_mutator.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

// 0 where the bytes are no model with operations, or too many came out.
std::size_t write_mutant(std::string_view bytes, std::string_view donor_bytes, std::uint8_t* out,
                         std::size_t max_size, unsigned int seed) {
  onnx::ModelProto model, donor;
  if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) ||
      !donor.ParseFromArray(donor_bytes.data(), static_cast<int>(donor_bytes.size())) ||
      model.graph().node_size() == 0) {
    return 0;
  }
  fuzzing::ModelMutator(model, donor, seed).mutate();
  const std::string made = model.SerializeAsString();
  if (made.size() > max_size) return 0;
  std::memcpy(out, made.data(), made.size());
  return made.size();
}

std::string_view view(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned int seed) {
  if (seed % 4 != 0) {  // bytes else
    const std::string bytes(view(data, size));
    if (const std::size_t made = write_mutant(bytes, bytes, data, max_size, seed)) return made;
  }
  return LLVMFuzzerMutate(data, size, max_size);
}

extern "C" std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* first, std::size_t first_size,
                                                 const std::uint8_t* second,
                                                 std::size_t second_size, std::uint8_t* out,
                                                 std::size_t max_size, unsigned int seed) {
  return write_mutant(view(first, first_size), view(second, second_size), out, max_size, seed);
}

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
