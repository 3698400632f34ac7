// Collectives: NCCL's kernels, those that inference engines bring themselves, and kernels that are
// named after one.
#include "rooftile/analysis/kernel_families.h"
#include "rooftile/base/text.h"

namespace rooftile::kernel_name_detail {
namespace {

struct CommunicationMark {
  std::string_view text, library;
};

constexpr CommunicationMark kCommunicationMarks[] = {
    {"ncclKernel", "nccl"},
    {"ncclDevKernel", "nccl"},
    {"ncclSymDevKernel", "nccl"},
    {"ncclSymkDevKernel", "nccl"},
    {"ncclAllReduce", "nccl"},
    {"rcclGenericKernel", "nccl"},
    {"ncclBroadcast", "nccl"},
    {"ncclReduceScatter", "nccl"},
    {"ncclAllGather", "nccl"},
    {"nvshmem", "nvshmem"},
    {"deep_ep::", "deep_ep"},
    {"dpsk::ep", "deep_ep"},
    {"cross_device_reduce", "vllm"},
    {"allreduce_fusion_kernel", "flashinfer"},
    {"AllReduceKernel", "tensorrt"},
    {"one_shot_all_reduce", "pytorch"},
    {"two_shot_all_reduce", "pytorch"},
    {"multimem_all_", "pytorch"},
    {"multimem_one_shot", "pytorch"},
    {"mscclpp", "mscclpp"},
    {"userbuffers_", "transformer_engine"},
};

// A kernel of the program's own that is named after what it does between GPUs. A compiler names a
// fused kernel after each operator in it, and blocks and warps have all-reduces too.
bool is_named_after_collective(std::string_view function) {
  const std::string text = lower(function);
  if (text.starts_with("triton_")) return false;
  if (contains_any(text, {"block", "warp", "offset", "precompute"})) return false;
  return contains_any(
      text, {"all_to_all", "alltoall", "all_reduce", "allreduce", "all_gather", "allgather",
             "reduce_scatter", "reducescatter", "symm_mem", "multimem"});
}

}  // namespace

std::optional<KernelFacts> parse_communication_name(const KernelName& name) {
  if (contains(name.function, "get_dispatch_layout")) return std::nullopt;  // counts on this GPU
  for (const auto& [text, library] : kCommunicationMarks) {
    if (!contains(name.function, text)) continue;
    KernelFacts facts{.kernel_class = KernelClass::communication, .library = std::string(library)};
    facts.dtype = only_float_type(library == "nccl" ? name.function : name.arguments);
    return facts;
  }
  if (!is_named_after_collective(name.function)) return std::nullopt;
  return KernelFacts{.kernel_class = KernelClass::communication};
}

}  // namespace rooftile::kernel_name_detail
