// Collectives: NCCL's kernels and the all-reduces that inference engines bring themselves.
#include "rooftile/analysis/kernel_families.h"

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

}  // namespace

std::optional<KernelFacts> parse_communication_name(const KernelName& name) {
  for (const auto& [text, library] : kCommunicationMarks) {
    if (!contains(name.function, text)) continue;
    KernelFacts facts{.kernel_class = KernelClass::communication, .library = std::string(library)};
    facts.dtype = only_float_type(library == "nccl" ? name.function : name.arguments);
    return facts;
  }
  return std::nullopt;
}

}  // namespace rooftile::kernel_name_detail
