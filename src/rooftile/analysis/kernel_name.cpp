#include "rooftile/analysis/kernel_name.h"

#include "rooftile/analysis/kernel_families.h"

namespace rooftile {
namespace {

// Names are at most a few thousand bytes; what comes after only repeats the arguments.
constexpr std::size_t kMostBytes = 16384;

}  // namespace

KernelFacts parse_kernel_name(std::string_view name) {
  using namespace kernel_name_detail;
  const KernelName parts = take_apart(name.substr(0, kMostBytes));
  for (const auto& parse :
       {parse_communication_name, parse_nvjet_name, parse_xmma_name, parse_cutlass_name,
        parse_name_by_architecture, parse_attention_name, parse_matrix_template, parse_triton_name,
        parse_pytorch_name, parse_named_task}) {
    if (auto facts = parse(parts)) return *std::move(facts);
  }
  return {};
}

}  // namespace rooftile
