// The families of kernel names. Each parser answers for the names of its family and with nothing
// for all others. For kernel_name.cpp only.
#pragma once

#include <optional>

#include "rooftile/analysis/kernel_words.h"

namespace rooftile::kernel_name_detail {

// ncclDevKernel_AllReduce_Sum_bf16_RING_LL, cross_device_reduce_1stage …
std::optional<KernelFacts> parse_communication_name(const KernelName& name);

// Products and convolutions whose name lists tile, types and layout:
// nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT
std::optional<KernelFacts> parse_nvjet_name(const KernelName& name);
// sm80_xmma_fprop_implicit_gemm_tf32f32_…_tilesize128x128x16_stage4_…
std::optional<KernelFacts> parse_xmma_name(const KernelName& name);
// cutlass_80_tensorop_f16_s16816gemm_relu_f16_256x128_32x3_tn_align8
std::optional<KernelFacts> parse_cutlass_name(const KernelName& name);
// ampere_sgemm_128x64_nn, volta_scudnn_128x64_relu_interior_nn_v1
std::optional<KernelFacts> parse_name_by_architecture(const KernelName& name);

// Flash, memory-efficient and cuDNN attention.
std::optional<KernelFacts> parse_attention_name(const KernelName& name);

// Products written as C++ templates: gemv2T_kernel, cutlass::device_kernel<…CollectiveMma…>.
std::optional<KernelFacts> parse_matrix_template(const KernelName& name);

// triton_poi_fused_add_relu_0.
std::optional<KernelFacts> parse_triton_name(const KernelName& name);

// PyTorch's generic kernels, whose task is a template argument.
std::optional<KernelFacts> parse_pytorch_name(const KernelName& name);

// Everything that a word of the function's name tells.
std::optional<KernelFacts> parse_named_task(const KernelName& name);

}  // namespace rooftile::kernel_name_detail
