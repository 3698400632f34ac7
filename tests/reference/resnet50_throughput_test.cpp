// Whole ResNet-50 v1.5 against published throughputs, with batch normalisation on its own.
//
// NVIDIA DeepLearningExamples, PyTorch, ResNet50 v1.5, "Training performance results" and
// "Inference performance results" (container 21.03): images a second of one GPU. No convolution of
// the A100 was fitted, and none of these networks.
#include "networks.h"
#include "reference.h"
#include "rooftile/analysis/time/time_model.h"
#include "rooftile/workload/training.h"

namespace rooftile {
namespace {

struct Case {
  const char* gpu;
  bool training;
  Dtype dtype;
  TensorLayout layout;
  std::int64_t batch;
  double images_per_second;
  double tolerance = 0.3;
};

constexpr Case kCases[] = {
    {"a100_sxm_80gb", true, Dtype::fp16, TensorLayout::nhwc, 256, 2470},
    {"a100_sxm_80gb", true, Dtype::fp32, TensorLayout::nchw, 256, 938, 0.4},
    {"v100_sxm2", true, Dtype::fp16, TensorLayout::nhwc, 256, 1200},
    {"v100_sxm2", true, Dtype::fp32, TensorLayout::nchw, 112, 367},
    {"v100_sxm2", false, Dtype::fp16, TensorLayout::nhwc, 128, 3249},
    {"v100_sxm2", false, Dtype::fp32, TensorLayout::nchw, 128, 1229},
    {"v100_sxm2", false, Dtype::fp32, TensorLayout::nchw, 16, 1023},
    {"t4", false, Dtype::fp16, TensorLayout::nhwc, 128, 1190},
    {"t4", false, Dtype::fp32, TensorLayout::nchw, 128, 426},
    {"t4", false, Dtype::fp32, TensorLayout::nchw, 8, 363},
};

Op batch_norm_after(const Op& op, const Convolution& conv) {
  Op norm = op;
  norm.phase = op.phase == Phase::forward ? Phase::forward : Phase::dgrad;
  const auto positions = static_cast<std::int64_t>(element_count(output_extents(conv)));
  norm.body = Normalization{NormKind::batch, conv.n * positions, conv.k};
  return norm;
}

// The data gradient of a layer comes with its weight gradient; one of them brings the norm's.
Workload as_published(Workload workload, Dtype dtype, TensorLayout layout) {
  std::vector<Op> ops;
  for (Op& op : workload.ops) {
    if (op.phase != Phase::optimizer) op.dtypes = Dtypes(dtype);
    auto* conv = std::get_if<Convolution>(&op.body);
    if (conv != nullptr) conv->layout = layout;
    if (conv != nullptr && op.phase != Phase::dgrad) ops.push_back(batch_norm_after(op, *conv));
    ops.push_back(std::move(op));
  }
  workload.ops = std::move(ops);
  return workload;
}

double seconds_of(const Case& c) {
  ReadOptions options;
  options.batch = c.batch;
  const auto forward = read_model(resnet50(), options);
  EXPECT_TRUE(forward) << to_string(forward.error());
  const Workload workload =
      as_published(c.training ? derive_training(*forward, OptimizerKind::momentum) : *forward,
                   c.dtype, c.layout);
  const TimeModel model(built_in(c.gpu));
  double seconds = 0;
  for (const Op& op : workload.ops) {
    const auto estimate = model.estimate(op);
    if (estimate) seconds += static_cast<double>(op.count) * estimate->time.expected.value();
  }
  return seconds;
}

TEST(Resnet50Throughput, IsNearWhatIsPublished) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(std::string(c.gpu) + " " + std::string(to_string(c.dtype)));
    EXPECT_NEAR(static_cast<double>(c.batch) / seconds_of(c) / c.images_per_second, 1, c.tolerance);
  }
}

}  // namespace
}  // namespace rooftile
