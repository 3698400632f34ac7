// What ATen operators move, operator by operator. Bytes are counted by hand from the documented
// meaning of each operator: tensors read and written, times their sizes, times their elements'.
#include <gtest/gtest.h>

#include "rooftile/analysis/cost.h"
#include "rooftile/aten/operator_cases.h"

namespace rooftile {
namespace {

using aten_test::arguments_of;

double bytes_of(std::string_view name, std::string_view arguments) {
  const auto op = aten_op(std::string("aten::") + std::string(name), arguments_of(arguments));
  return op ? count_cost(*op).bytes.value() : -1;
}

struct Group {
  std::string_view names, arguments;
  double bytes;
};

void expect_bytes(const std::vector<Group>& groups) {
  for (const Group& group : groups) {
    for (const std::string_view name : split(group.names, ' ')) {
      EXPECT_EQ(bytes_of(name, group.arguments), group.bytes) << name << " " << group.arguments;
    }
  }
}

// Tensors of 1,000 elements: 4,000 bytes in fp32, 2,000 in bf16, 1,000 as bool, 8,000 as int64.
TEST(AtenBytes, OneTensorInAndOneOut) {
  expect_bytes({
      {"relu relu_ silu silu_ mish hardswish hardswish_ hardsigmoid hardtanh hardtanh_ leaky_relu "
       "leaky_relu_ elu celu selu relu6 threshold neg neg_ abs abs_ sign floor floor_ ceil round "
       "trunc frac square exp exp_ exp2 expm1 log log_ log2 log10 log1p sqrt sqrt_ rsqrt rsqrt_ "
       "sin sin_ cos cos_ tan asin acos atan sinh cosh tanh tanh_ sigmoid sigmoid_ erf erfc "
       "reciprocal reciprocal_ gelu softplus logit nan_to_num clone tril triu bitwise_not lgamma "
       "digamma dropout clamp clamp_ hardshrink softshrink acosh asinh atanh erfinv bernoulli "
       "poisson "
       "conj_physical deg2rad rad2deg rrelu sgn sinc log_sigmoid special_entr special_erfcx "
       "special_ndtri fake_quantize_per_tensor_affine batch_norm_elemt",
       "10,100||float; ||Scalar|1", 8000},
      {"relu gelu silu sigmoid_ exp", "1000||c10::BFloat16", 4000},
      // An integer becomes floating point where the function asks for it.
      {"exp sqrt sigmoid", "1000||long int", 12000},
      {"abs neg sign", "1000||long int", 16000},
      {"logical_not isnan isinf isfinite signbit isposinf isneginf isin", "1000||float", 5000},
      // Scalars, also those that are tensors of no axes, are no streams.
      {"add add_ sub mul mul_ div div_ pow fmod remainder maximum clamp_min clamp_min_ clamp_max",
       "1000||float; ||double", 8000},
      {"mul", "||double; 1000||float", 8000},
      {"eq ne lt le gt ge", "1000||float; ||Scalar|0", 5000},
      {"gt", "1000||c10::BFloat16; ||double", 3000},
      {"masked_fill masked_fill_", "1000||float; 1000||bool; ||Scalar|0", 9000},
      // out= is written, not read.
      {"clamp_min clamp_max", "1000||float; ||Int; 1000||float", 8000},
      {"threshold_backward", "1000||float; 1000||float; ||Scalar|0", 12000},
      {"log_sigmoid_forward", "1000||c10::Half", 4000},
      {"masked_scatter", "1000||float; 1000||bool; 400||float", 4000 + 1000 + 1600 + 4000},
      {"_adaptive_avg_pool2d_backward", "2,8,1,1||float; 2,8,7,7||float", (16 + 784) * 4},
  });
}

TEST(AtenBytes, SeveralTensorsIn) {
  const std::string_view two = "1000||float; 1000||float; ||Scalar|1";
  expect_bytes({
      {"add add_ sub sub_ rsub mul mul_ div div_ maximum minimum fmod remainder pow pow_ atan2 "
       "hypot logaddexp logaddexp2 fmax fmin copysign prelu _prelu_kernel floor_divide gcd lcm "
       "heaviside nextafter xlogy special_xlog1py",
       two, 12000},
      {"threshold_backward gelu_backward silu_backward mish_backward sigmoid_backward "
       "tanh_backward hardtanh_backward leaky_relu_backward hardswish_backward "
       "hardsigmoid_backward softplus_backward softshrink_backward hardshrink_backward "
       "logit_backward _masked_scale batch_norm_backward_elemt",
       two, 12000},
      {"eq ne lt le gt ge isclose", "1000||float; 1000||float", 9000},
      {"logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor bitwise_and_ "
       "__and__ __or__ __xor__",
       "1000||bool; 1000||bool", 3000},
      {"addcmul addcmul_ addcdiv addcdiv_ lerp", "1000||float; 1000||float; 1000||float", 16000},
      {"where", "1000||bool; 1000||float; 1000||float", 13000},
      {"where", "1000||bool; 1000||float; ||float", 9000},
      // bf16 and fp32 meet in fp32: 2 + 4 + 4; in place in bf16: 2 + 4 + 2.
      {"add mul", "1000||c10::BFloat16; 1000||float; ||Scalar|1", 10000},
      {"add_ mul_", "1000||c10::BFloat16; 1000||float; ||Scalar|1", 8000},
      {"bitwise_left_shift bitwise_right_shift __lshift__ __rshift__", "1000||int; 1000||int",
       12000},
      {"log_sigmoid_backward rrelu_with_noise_backward", "1000||float; 1000||float; 1000||float",
       16000},
      // Gradients of the input and of the weights' part of each element.
      {"_prelu_kernel_backward", "1000||float; 1000||float; 1000||float", 20000},
      {"_fused_dropout fake_quantize_per_tensor_affine_cachemask", "1000||float", 9000},
      {"native_dropout", "1000||float; ||Scalar|0.1; ||Scalar|True", 9000},
      {"native_dropout_backward", "1000||float; 1000||bool; ||Scalar|1.1", 9000},
      {"elu_backward",
       "1000||float; ||Scalar|1; ||Scalar|1; ||Scalar|1; ||Scalar|False; 1000||float", 12000},
      {"mse_loss_backward l1_loss_backward smooth_l1_loss_backward huber_loss_backward "
       "soft_margin_loss_backward kl_div_backward binary_cross_entropy_backward",
       "||float; 1000||float; 1000||float; ||Scalar|1", 12000},
      {"glu", "10,100||float; ||Scalar|-1", 6000},
      {"glu_backward", "10,50||float; 10,100||float; ||Scalar|-1", 10000},
  });
}

TEST(AtenBytes, BroadcastOperandsAreReadAtTheirOwnSize) {
  expect_bytes({
      {"add mul sub div", "10,100||float; 100||float; ||Scalar|1", 8400},
      {"mul", "8,1||float; 1,16||float", (8 + 16 + 128) * 4},
      {"add_", "64,32,16||c10::Half; 1,32,1||c10::Half; ||Scalar|1", 32768 * 4 + 64},
      // Expanded: one row of 100 elements lies in memory.
      {"add", "10,100|100,1|float; 10,100|0,1|float; ||Scalar|1", 8400},
      {"copy_", "10,100|100,1|float; 10,100|0,1|float; ||Scalar|False", 4400},
      {"copy_", "10,100||float; 100||float; ||Scalar|False", 4400},
  });
}

TEST(AtenBytes, CastsCopiesAndFills) {
  expect_bytes({
      {"copy_", "1000||c10::Half; 1000||float; ||Scalar|False", 6000},
      {"copy_", "1000||float; 1000||double; ||Scalar|False", 12000},
      {"copy_", "1000||long int; 1000||bool; ||Scalar|False", 9000},
      {"copy_", "1000||float; 1000||float; ||Scalar|False", 8000},
      {"_to_copy", "1000||float; ||Scalar|15", 6000},
      {"_to_copy", "1000||c10::BFloat16; ||Scalar|6", 6000},
      {"fill_ zero_ normal_ uniform_ random_ exponential_ log_normal_ geometric_ cauchy_",
       "1000||float; ||Scalar|0", 4000},
      {"bernoulli_", "1000||float; 1000||float", 8000},
      {"linspace logspace randperm eye", "||Scalar|8; 1000||float", 4000},
      {"arange", "||Scalar|0; ||Scalar|1000; ||Scalar|1; 1000||long int", 8000},
  });
}

TEST(AtenBytes, Reductions) {
  const std::string_view rows = "10,100||float; ||ScalarList|[1]; ||Scalar|False; |||";
  expect_bytes({
      {"sum mean prod amax amin nansum nanmean logsumexp std var median nanmedian mode", rows,
       4040},
      {"sum mean max min prod std var", "10,100||float", 4004},
      {"any all", "10,100||bool", 1001},
      {"sum", "10,100||bool", 1008},  // counted in int64
      {"sum", "10,100||bool; ||ScalarList|[1]; ||Scalar|False; ||Scalar|2", 1020},  // in int16
      {"argmax argmin count_nonzero", "10,100||float; ||Scalar|1; ||Scalar|False", 4080},
      {"var_mean std_mean aminmax", rows, 4080},
      {"dot vdot dist batch_norm_backward_reduce", "1000||float; 1000||float", 8004},
      {"batch_norm_stats", "1000||float", 4004},
      {"norm linalg_vector_norm",
       "10,100||float; ||Scalar|2; ||ScalarList|[1]; ||Scalar|False; |||", 4040},
      {"norm", "10,100||float; ||Scalar|2", 4004},
      {"max min", "1000||float; 1000||float", 12000},
      {"mse_loss l1_loss smooth_l1_loss huber_loss soft_margin_loss kl_div",
       "1000||float; 1000||float; ||Scalar|1", 8004},
      {"mse_loss", "1000||float; 1000||float; ||Scalar|0", 12000},
      {"binary_cross_entropy", "1000||float; 1000||float; |||; ||Scalar|1", 8004},
      {"cumsum cumprod logcumsumexp", "10,100||float; ||Scalar|1; |||", 8000},
      {"cummax cummin", "10,100||float; ||Scalar|1", 16000},
      {"nonzero", "10,100||bool", 1000},
      {"masked_select", "10,100||float; 10,100||bool", 5000},
      {"unique_dim _unique2 _unique unique_consecutive", "1000||float", 8000},
      {"multinomial histc bincount kthvalue", "1000||float; ||Scalar|2", 4000},
      {"msort", "10,100||float", 16000},
      {"sort", "10,100||float; ||Scalar|-1; ||Scalar|False", 16000},
      {"argsort", "10,100||float; ||Scalar|-1; ||Scalar|False", 12000},
      {"topk", "10,100||float; ||Scalar|2; ||Scalar|-1", 4000},
  });
}

TEST(AtenBytes, Indexing) {
  expect_bytes({
      // 7 of 50 rows of 100: 700 elements read and written.
      {"index_select", "50,100||float; ||Scalar|0; 7||long int", 5600},
      {"gather", "50,100||float; ||Scalar|1; 50,3||long int", 150 * (8 + 4 + 4)},
      {"scatter_ scatter scatter_reduce", "50,100||float; ||Scalar|1; 50,3||long int; 50,3||float",
       150 * (8 + 4 + 4)},
      {"scatter_", "50,100||float; ||Scalar|1; 50,3||long int; ||Scalar|1", 150 * (8 + 4)},
      {"scatter_add_", "50,100||float; ||Scalar|1; 50,3||long int; 50,3||float",
       150 * (8 + 4 + 4 + 4)},
      {"take", "5000||float; 150||long int", 150 * (8 + 4 + 4)},
      {"put_", "5000||float; 150||long int; 150||float", 150 * (8 + 4 + 4)},
      {"index_fill_", "50,100||float; ||Scalar|0; 7||long int; ||Scalar|1", 700 * 4},
      {"index_reduce_", "50,100||float; ||Scalar|0; 7||long int; 7,100||float", 700 * 12},
      {"index_add_", "50,100||float; ||Scalar|0; 7||long int; 7,100||float; ||Scalar|1", 700 * 12},
      {"index_copy_", "50,100||float; ||Scalar|0; 7||long int; 7,100||float", 700 * 8},
      // Lists of index tensors for the first axes.
      {"index _unsafe_index", "50,100||float; ||TensorList|[[7]]", 700 * 8},
      {"index", "50,100||float; ||TensorList|[[7], [7]]", 7 * 8},
      {"index_put_ _index_put_impl_ _unsafe_index_put",
       "50,100||float; ||TensorList|[[7]]; 7,100||float", 700 * 8},
      {"index", "50,100||float; ||TensorList|", -1},
      {"nll_loss_backward nll_loss2d_backward", "32||float; 32,10||float; 32||long int",
       32 * (8 + 4 + 4)},
      {"nll_loss_forward nll_loss2d_forward",
       "32,10||float; 32||long int; |||; ||Scalar|1; ||Scalar|-100", 32 * (8 + 4)},
      {"embedding", "50,100||float; 7||long int; ||Scalar|-1", 1400 * 4 + 56},
      {"embedding_dense_backward", "7,100||float; 7||long int; ||Scalar|50; ||Scalar|-1",
       (5000 + 2100) * 4 + 56},
  });
}

// Lists do not name their types: fp32 stands for them.
TEST(AtenBytes, ListsOfTensors) {
  const std::string_view adam =
      "||TensorList|[[10, 10], [100]]; ||TensorList|[[10, 10], [100]]; "
      "||TensorList|[[10, 10], [100]]; ||TensorList|[[10, 10], [100]]; ||TensorList|[]";
  expect_bytes({
      {"cat _cat", "||TensorList|[[6, 100], [4, 100]]; ||Scalar|0", 8000},
      {"_foreach_add_ _foreach_mul_ _foreach_sub_ _foreach_div_ _foreach_pow_ _foreach_clamp_min_ "
       "_foreach_clamp_max_ _foreach_exp_ _foreach_sqrt_ _foreach_neg_ _foreach_abs_ "
       "_foreach_reciprocal_ _foreach_log_ _foreach_sign_ _foreach_add _foreach_sub _foreach_mul "
       "_foreach_div _foreach_pow _foreach_sqrt _foreach_neg _foreach_exp _foreach_abs "
       "_foreach_reciprocal _amp_foreach_non_finite_check_and_unscale_",
       "||TensorList|[[600], [400]]; ||Scalar|1", 8000},
      {"_foreach_add_ _foreach_mul_ _foreach_maximum_ _foreach_minimum_ _foreach_maximum "
       "_foreach_minimum _foreach_lerp_ _foreach_lerp",
       "||TensorList|[[600], [400]]; ||TensorList|[[600], [400]]; ||Scalar|1", 12000},
      {"_foreach_addcdiv_ _foreach_addcmul_ _foreach_addcdiv _foreach_addcmul",
       "||TensorList|[[1000]]; ||TensorList|[[1000]]; ||TensorList|[[1000]]; ||Scalar|1", 16000},
      {"_foreach_zero_", "||TensorList|[[600], [400]]", 4000},
      {"_foreach_copy_", "||TensorList|[[1000]]; ||TensorList|[[1000]]", 8000},
      {"_foreach_norm", "||TensorList|[[1000]]; ||Scalar|2", 4000},
      // Weights, gradients and two moments read, weights and moments written.
      {"_fused_adam_ _fused_adamw_", adam, 7 * 200 * 4},
      // With momentum, or the sum of squares: three lists read, two written.
      {"_fused_sgd_ _fused_adagrad_", adam, 5 * 200 * 4},
      {"cat", "||TensorList|; ||Scalar|0", -1},
  });
}

// Four columns side by side: each of the four copies reads and writes every sector of the result.
TEST(AtenBytes, ShortRunsOfConcatenationsShareSectors) {
  expect_bytes({{"cat", "||TensorList|[[1000, 1], [1000, 1], [1000, 1], [1000, 1]]; ||Scalar|-1",
                 16000 + 2 * 4 * 16000}});
}

TEST(AtenBytes, NormsSoftmaxPoolsAndResizing) {
  expect_bytes({
      {"native_layer_norm", "10,100||float; ||ScalarList|[100]; 100||float; 100||float", 8000},
      {"native_layer_norm_backward",
       "10,100||float; 10,100||float; ||ScalarList|[100]; 10||float; 10||float; 100||float", 12000},
      {"native_batch_norm cudnn_batch_norm", "2,5,10,10||float; 5||float", 8000},
      {"native_batch_norm_backward cudnn_batch_norm_backward",
       "2,5,10,10||float; 2,5,10,10||float; 5||float", 12000},
      {"_softmax _log_softmax", "10,100||float; ||Scalar|1; ||Scalar|False", 8000},
      {"_softmax_backward_data _log_softmax_backward_data",
       "10,100||float; 10,100||float; ||Scalar|1; ||Scalar|6", 12000},
      {"upsample_nearest2d _upsample_nearest_exact2d",
       "2,5,10,10||float; ||ScalarList|[20, 20]; |||; |||", 20000},
      {"upsample_nearest1d upsample_linear1d _upsample_nearest_exact1d",
       "2,5,10||float; ||ScalarList|[40]", 2000},
      {"upsample_nearest3d upsample_trilinear3d _upsample_nearest_exact3d",
       "1,1,10,10,10||float; ||ScalarList|[10, 10, 20]", 12000},
      {"upsample_nearest1d_backward upsample_linear1d_backward",
       "2,5,40||float; ||ScalarList|[40]; ||ScalarList|[2, 5, 10]", 2000},
      {"upsample_nearest3d_backward upsample_trilinear3d_backward",
       "1,1,10,10,20||float; ||ScalarList|[10, 10, 20]; ||ScalarList|[1, 1, 10, 10, 10]", 12000},
      {"upsample_bilinear2d upsample_bicubic2d _upsample_bilinear2d_aa _upsample_bicubic2d_aa",
       "2,5,10,10||float; ||ScalarList|[20, 20]; ||Scalar|False; |||; |||", 20000},
      {"upsample_nearest2d_backward _upsample_nearest_exact2d_backward "
       "upsample_bilinear2d_backward upsample_bicubic2d_backward _upsample_bilinear2d_aa_backward",
       "2,5,20,20||float; ||ScalarList|[20, 20]; ||ScalarList|[2, 5, 10, 10]; |||; |||", 20000},
      {"avg_pool2d",
       "1,10,10,10||float; ||ScalarList|[2, 2]; ||ScalarList|[2, 2]; ||ScalarList|[0, 0]; "
       "||Scalar|False; ||Scalar|True; |||",
       5000},
  });
}

}  // namespace
}  // namespace rooftile
