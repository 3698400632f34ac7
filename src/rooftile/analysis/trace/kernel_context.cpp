#include "rooftile/analysis/trace/kernel_context.h"

#include <string>
#include <string_view>

#include "rooftile/base/text.h"

namespace rooftile::trace {
namespace {

// What an operator outside PyTorch says of its kernels by its own name: dpsk::grouped_gemm.
KernelClass class_of_operator(std::string_view name) {
  if (!contains(name, "::") || name.starts_with("aten::")) return KernelClass::unknown;
  const std::string text = lower(name.substr(name.rfind("::") + 2));
  if (contains_any(text, {"attention", "attn"})) return KernelClass::attention;
  if (contains_any(text, {"quantize", "_quant", "mxfp8", "nvfp4"})) return KernelClass::quantize;
  if (contains_any(text, {"gemm", "matmul", "linear"}) || text.ends_with("_mm")) {
    return KernelClass::gemm;
  }
  return contains(text, "norm") ? KernelClass::normalization : KernelClass::unknown;
}

}  // namespace

bool works_on_list(const Timeline& timeline, std::uint32_t row) {
  return contains(timeline.strings[timeline.gpu.name[row]], "multi_tensor_apply");
}

KernelClass class_in_context(const Timeline& timeline, const Links& links, const KernelNames& names,
                             std::uint32_t row) {
  const KernelClass named = names.facts(row).kernel_class;
  const bool is_list = named == KernelClass::elementwise && works_on_list(timeline, row);
  if (named != KernelClass::unknown && named != KernelClass::indexing && !is_list) return named;
  for (std::uint32_t op = links.gpu_op[row]; op != kNone; op = links.op_parent[op]) {
    const std::string_view name = timeline.strings[timeline.ops.name[op]];
    if (is_list && contains(lower(name), "optimizer")) return KernelClass::optimizer;
    if (links.kind_of_op(timeline, op) != RangeKind::operation) continue;
    if (named == KernelClass::indexing && contains(lower(name), "embedding")) {
      return KernelClass::embedding;
    }
    const KernelClass told =
        named == KernelClass::unknown ? class_of_operator(name) : KernelClass::unknown;
    if (told != KernelClass::unknown) return told;
  }
  return named;
}

}  // namespace rooftile::trace
