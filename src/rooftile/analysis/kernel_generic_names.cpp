// Kernels that serve many tasks: PyTorch's, whose task is a template argument, and Triton's, which
// Inductor names after the fused operators.
#include "rooftile/analysis/kernel_families.h"

namespace rooftile::kernel_name_detail {
namespace {

using enum KernelClass;

// Template arguments of element-wise kernels that do something else than arithmetic. With
// OpaqueType a copy moves bytes of any type.
constexpr TaskWords kFunctors[] = {
    {elementwise, "masked_fill triu_tril where_kernel"},
    {fill, "fillfunctor fill_kernel arange linspace eye_"},
    {random,
     "bernoulli fused_dropout uniform_and_transform normal_and_transform random_kernel "
     "uniform_kernel normal_kernel exponential_kernel multinomial"},
    {loss_scaling, "_amp_non_finite amp_non_finite amp_update_scale"},
    {indexing,
     "gpu_index_kernel index_kernel_impl index_put_kernel index_fill take_put put_kernel"},
    {pooling, "upsample max_pool avg_pool pool"},
    {normalization, "batch_norm batchnorm layer_norm group_norm groupnorm rms_norm"},
    {cast, "_float_to_hfp8 bfloat16_copy_kernel float16_copy_kernel float8_copy_kernel"},
    {copy,
     "flip_kernel roll_cuda direct_copy_kernel copy_device_to_device copyfunctor conj_kernel "
     "identity"},
};

// Functors of multi_tensor_apply in torch.optim and Apex.
constexpr TaskWords kListFunctors[] = {
    {loss_scaling, "amp_non_finite nonfinitecheck non_finite scalefunctor unscale"},
    {reduction, "l2norm lpnorm normfunctor maxnorm lpmax"},
    {optimizer,
     "adam fusedadam adamfunctor fusedsgd sgd adagrad fusedadagrad lamb novograd lion "
     "rmsprop"},
    {copy, "copyfunctor copy identity"},
    {fill, "zerofunctor zero"},
};

KernelClass elementwise_task(const KernelName& name) {
  if (contains_any(name.function, {"index_elementwise", "scatter_gather"})) return indexing;
  if (contains(name.function, "distribution_")) return random;
  const KernelClass task = find_task(name.arguments, kFunctors).value_or(elementwise);
  const bool casts = contains_any(name.arguments, {"LoadWithCast", "StoreWithCast"});
  return task == copy && casts ? cast : task;
}

bool is_multi_tensor(std::string_view function) { return contains(function, "multi_tensor_apply"); }

std::optional<KernelClass> pytorch_task(const KernelName& name) {
  if (is_multi_tensor(name.function)) {
    return find_task(name.arguments, kListFunctors).value_or(elementwise);
  }
  if (contains_any(name.function, {"elementwise_kernel", "elementwise_grid_stride"})) {
    return elementwise_task(name);
  }
  return std::nullopt;
}

// What an Inductor template computes.
constexpr TaskWords kTemplates[] = {{attention, "flex_attention flex_decoding"},
                                    {convolution, "convolution conv"},
                                    {gemm, "mm addmm bmm baddbmm dot linear scaled_mm"}};

// What a fused reduction belongs to, by the operators in its name.
constexpr TaskWords kReductions[] = {
    {normalization,
     "native_layer_norm layer_norm rms_norm fused_rms_norm native_batch_norm batch_norm "
     "native_group_norm group_norm instance_norm mean_mul_pow_rsqrt mean_pow_rsqrt"},
    {softmax, "softmax log_softmax logsumexp"},
};

struct LoneOperator {
  std::string_view prefix;  // a number follows where no other operator is fused
  KernelClass task;
};

constexpr LoneOperator kLoneOperators[] = {
    {"triton_poi_fused_clone_", copy},          {"triton_poi_fused_cat_", copy},
    {"triton_poi_fused_copy_", copy},           {"triton_poi_fused__to_copy_", cast},
    {"triton_poi_fused_zeros_", fill},          {"triton_poi_fused_full_", fill},
    {"triton_poi_fused_zeros_like_", fill},     {"triton_poi_fused_native_dropout_", random},
    {"triton_poi_fused_embedding_", embedding}, {"triton_poi_fused_index_", indexing},
};

KernelClass pointwise_task(std::string_view function) {
  for (const auto& [prefix, task] : kLoneOperators) {
    if (!starts_with(function, prefix)) continue;
    std::string_view rest = function.substr(prefix.size());
    if (take_number(rest) && rest.empty()) return task;
  }
  return elementwise;
}

KernelClass triton_task(std::string_view function) {
  const std::string_view kind = function.substr(0, 11);
  if (kind == "triton_poi_") return pointwise_task(function);
  if (kind == "triton_for_") return elementwise;
  if (kind == "triton_tem_") return find_task(function, kTemplates).value_or(other);
  if (kind == "triton_red_" || kind == "triton_per_") {
    return find_task(function, kReductions).value_or(reduction);
  }
  if (kind == "triton_spl_") return sort;  // a scan whose rows several blocks share
  return find_task(function, kTemplates).value_or(other);
}

}  // namespace

std::optional<KernelFacts> parse_pytorch_name(const KernelName& name) {
  const auto task = pytorch_task(name);
  if (!task) return std::nullopt;
  KernelFacts facts{.kernel_class = *task, .library = "pytorch"};
  if (is_multi_tensor(name.function) && !contains(name.function, "at::")) facts.library = "apex";
  if (*task != cast) facts.dtype = only_float_type(name.arguments);
  return facts;
}

std::optional<KernelFacts> parse_triton_name(const KernelName& name) {
  if (!starts_with(name.function, "triton_")) return std::nullopt;
  return KernelFacts{.kernel_class = triton_task(name.function), .library = "triton"};
}

}  // namespace rooftile::kernel_name_detail
