// Kernels whose function is named after its task.
#include "rooftile/analysis/kernel_families.h"

namespace rooftile::kernel_name_detail {
namespace {

using enum KernelClass;

// The telling words first: a fused kernel is named by its heaviest task.
constexpr TaskWords kTasks[] = {
    {optimizer,
     "multi_tensor_apply fused_adam adam applyadam applymomentum "
     "applygradientdescent koptimizer optimizer32bit optimizer8bit kpreconditionoptimizer lamb_ "
     "sgd_kernel adafactor"},
    {loss_scaling, "amp_update_scale amp_non_finite"},
    {recurrent,
     "elemwisernncell rnn_block rnn_persist lstm_elementwise gru_elementwise persistentrnn "
     "lstm_cell gru_cell persistrnn rnncell selective_scan lstm gru_ chunk_gated_delta chunk_kda "
     "chunk_fwd_kernel_o chunk_scan chunk_state state_passing bmm_chunk fused_recurrent wkv"},
    {gemm,
     "moe_gemm fused_moe_kernel marlin gptq awq_gemm gemm_half_q_half kgemm gemm gemv "
     "matmul_kernel grouped_gemm scaled_mm bmm matmul"},
    {elementwise, "rotary rope element_mul gpu_dt"},
    {sort, "moetopk gathertopk"},
    {embedding,
     "split_embedding embedding permute_pooled_embs bounds_check_indices linearize_index "
     "linearize_cache compute_grad_weight dense_to_jagged jagged krn_partial krn_partials"},
    {indexing,
     "indexselect indexfunc indexadd indexcopy index_select indexing_backward vectorized_gather "
     "scatter gather index_put index_add index_copy"},
    {normalization,
     "bn_fw bn_bw batch_norm batchnorm layer_norm layernorm gammabeta rowwisemoments groupnorm "
     "group_norm rms_norm rmsnorm ln_fwd ln_bwd ln_parallel_residual cucomputegradgamma "
     "cucomputepartgrad cucomputegradinput computeinternalgradients computefusedparams "
     "computebackwardfusedparams compute1dbackward instance_norm instancenorm lrn_ lrnkernel "
     "norm_fwd norm_bwd weight_norm qknorm qk_norm l2norm renorm"},
    {softmax, "softmax cross_entropy crossentropy"},
    {reduction, "nll_loss classnllcriterion ctc_loss"},
    {pooling,
     "max_pool avg_pool maxpool avgpool pooling average_pool adaptive_ adaptiveaverage "
     "adaptiveavg upsample roi_align roialign roi_pool resizenearest resizebilinear "
     "grid_sampler pool2d pool_"},
    {sort,
     "radixsort radix_sort bitonicsort mergesort merge_sort sort "
     "devicescan deviceselect devicecompact devicepartition deviceunique devicerunlength "
     "devicereducebykey devicesegmentedsort devicehistogram kernelhistogram scan_dim "
     "tensor_kernel_scan cumsum nonzero nms_ searchsorted unique argsort"},
    {random,
     "dropout distribution_ curand philox bernoulli multinomial randperm generate_seed "
     "gen_sequenced random"},
    // Between channels first and channels last, and transposes in memory.
    {layout_conversion,
     "nchwtonhwc nhwctonchw nchwaddpadding nhwcaddpadding nhwctofoldednhwc foldednhwctonhwc "
     "tensortransform transpose permutationkernel region_transform swapdimension "
     "shuffleintensor3 pixel_shuffle"},
    {copy, "split_with_sizes chunk_cat"},
    {quantize,
     "quantize quant_ dequantize dequant scaled_fp8_quant per_token_group_quant per_token_quant "
     "kquantize kdequantize fp8rowwise_to_float compute_fp8 get_fp8_qparam to_mxfp8 to_nvfp4 "
     "to_fp8 amax block_rearrange"},
    {cast, "converttensor cast_ cast"},
    {copy,
     "catarray copy_kernel copybuffer copy_device memcpy reflection_pad replication_pad "
     "constant_pad copy reshape_and_cache concat permute "
     "unpermute compute_cuda_kernel flip_ roll_ expand_to_fused"},
    {fill, "fillbuffer memset fill offsets_range arange zero_"},
    {sparse, "cusparse spmm csrmv csrmm sddmm coo_"},
    {elementwise,
     "act_and_mul silu swiglu geglu gelu relu activation_ op_tensor "
     "op_generic_tensor scalepackedtensor scaletensor scal_kernel axpy_kernel add_tensor bias_ "
     "biasadd biasnchw biasnhwc kernelpointwiseapply generatednativepointwise pointwise "
     "elementwise elemwise "
     "where_ glu_ triu_tril"},
    {reduction,
     "reduce_kernel devicereduce reduce_1block dot_kernel asum_kernel nrm2_kernel kernelreduce "
     "cleanup_kernel norm_kernel reducekernel columnreduce rowreduce cunn_ sum_ cdist reduce"},
    {other,
     "fft vector_fft regular_fft fbgemm_gpu cub:: thrust:: getrf potrf geqr syevj trsm gesvd "
     "cusolver magma_ nvfuser cudacodegen spin_kernel moe_align routing router eigenmetakernel"},
};

struct LibraryMark {
  std::string_view text, library;
};

constexpr LibraryMark kLibraries[] = {
    {"at::native", "pytorch"},
    {"at::", "pytorch"},
    {"c10::", "pytorch"},
    {"fbgemm", "fbgemm"},
    {"split_embedding", "fbgemm"},
    {"transformer_engine", "transformer_engine"},
    {"vllm::", "vllm"},
    {"flashinfer", "flashinfer"},
    {"tensorrt_llm", "tensorrt"},
    {"deep_gemm", "deep_gemm"},
    {"cudnn", "cudnn"},
    {"nchwToNhwc", "cudnn"},
    {"nhwcToNchw", "cudnn"},
    {"RNN", "cudnn"},
    {"cublas", "cublas"},
    {"cusparse", "cusparse"},
    {"cub::", "cub"},
    {"thrust::", "thrust"},
    {"rocprim", "rocprim"},
    {"nvfuser", "nvfuser"},
    {"tensorflow::", "tensorflow"},
    {"CatArray", "pytorch"},
    {"cunn_", "pytorch"},
    {"softmax_warp", "pytorch"},
    {"softMax", "pytorch"},
    {"SoftMax", "pytorch"},
    {"kQuantize", "bitsandbytes"},
    {"kDequantize", "bitsandbytes"},
    {"kOptimizer", "bitsandbytes"},
    {"kgemm", "bitsandbytes"},
};

std::string_view library_of(std::string_view function) {
  for (const auto& [text, library] : kLibraries) {
    if (contains(function, text)) return library;
  }
  return {};
}

// deep_gemm::sm100_fp8_gemm_1d1d_impl
int architecture_in(std::string_view function) {
  for (const std::string_view word : words_of(function)) {
    if (const int capability = parse_architecture(word)) return capability;
  }
  return 0;
}

// Of the function itself: what a router or a gate does with its top k is more.
bool names_top_k(std::string_view function) {
  if (const auto scope = function.rfind("::"); scope != std::string_view::npos) {
    function.remove_prefix(scope + 2);
  }
  const std::string text = lower(function);
  return text.starts_with("topk") || text.starts_with("top_k") || contains(text, "radix_topk") ||
         contains(text, "radixtopk");
}

// cuDNN's convertTensor_kernel<float, float, …>: the type stays, so the order changes.
bool keeps_type(std::string_view arguments) {
  const std::vector<std::string_view> words = words_of(arguments);
  return words.size() >= 2 && words[0] == words[1];
}

struct ForeignMark {
  std::string_view text;
  KernelClass task;
  std::string_view library;
};

// Libraries of another maker's accelerators.
constexpr ForeignMark kForeign[] = {
    {"Cijk_", gemm, "rocblas"},
    {"rocblas_", gemm, "rocblas"},
    {"miopenSp3AsmConv", convolution, "miopen"},
    {"MIOpenConv", convolution, "miopen"},
    {"MIOpenBatchNorm", normalization, "miopen"},
    {"mloPooling", pooling, "miopen"},
    {"miopenGcnAsmConv", convolution, "miopen"},
    {"miopen", other, "miopen"},
    {"MIOpen", other, "miopen"},
    {"igemm_", convolution, "miopen"},
    {"naive_conv_", convolution, "miopen"},
    {"gridwise_convolution", convolution, "miopen"},
    {"kernel_grouped_conv", convolution, "composable_kernel"},
    {"batched_transpose_", layout_conversion, "miopen"},
    {"SubTensorOp", elementwise, "miopen"},
    {"__amd_rocclr_copyBuffer", copy, "hip"},
    {"__amd_rocclr_fillBuffer", fill, "hip"},
    {"ck::kernel_gemm", gemm, "composable_kernel"},
};

}  // namespace

std::optional<KernelFacts> parse_named_task(const KernelName& name) {
  for (const auto& [text, task, library] : kForeign) {
    if (!contains(name.function, text)) continue;
    return KernelFacts{.kernel_class = task, .library = std::string(library)};
  }
  auto task = find_task(name.function, kTasks);
  if (names_top_k(name.function)) task = sort;
  if (!task) return std::nullopt;
  const bool converts = contains(name.function, "convertTensor_kernel");
  if (converts && keeps_type(name.arguments)) task = layout_conversion;
  KernelFacts facts{.kernel_class = *task, .library = std::string(library_of(name.function))};
  if (*task == gemm) {
    facts.dtype = only_float_type(name.function);
    facts.compute_capability = architecture_in(name.function);
  }
  return facts;
}

}  // namespace rooftile::kernel_name_detail
