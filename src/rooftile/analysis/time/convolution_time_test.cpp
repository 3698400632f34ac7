// Times of convolutions: what every GPU keeps to, and what the algorithms are known for.
#include <gtest/gtest.h>

#include <algorithm>

#include "rooftile/analysis/cost.h"
#include "rooftile/analysis/time/section_reader.h"
#include "rooftile/analysis/time/time_model.h"
#include "rooftile/hardware/device_file.h"

namespace rooftile {
namespace {

constexpr Phase kPhases[] = {Phase::forward, Phase::dgrad, Phase::wgrad};

Convolution conv2d(std::int64_t channels, std::int64_t kernel, std::int64_t stride = 1,
                   std::int64_t size = 28) {
  Convolution conv;
  conv.n = 16, conv.c = conv.k = channels;
  conv.input = {size, size}, conv.kernel = {kernel, kernel}, conv.stride = {stride, stride};
  conv.pad_begin = conv.pad_end = {kernel / 2, kernel / 2};
  conv.layout = TensorLayout::nhwc;
  return conv;
}

Op op_of(Convolution conv, Dtype dtype, Phase phase = Phase::forward) {
  Op op;
  op.body = std::move(conv);
  op.dtypes = Dtypes(dtype);
  op.phase = phase;
  return op;
}

TimeModel model_of(const char* gpu) { return TimeModel(*find_device(gpu)); }

double time_of(const TimeModel& model, const Op& op) {
  return model.estimate(op)->time.expected.value();
}

// Times that never fall as `dimension` of the convolution grows; those of products by a choice
// among tiles that other tests bound.
void expect_growth(const char* gpu, const Op& op, std::int64_t Convolution::*dimension,
                   std::int64_t step) {
  const TimeModel model = model_of(gpu);
  double longest = 0;
  for (std::int64_t size = step; size <= 40 * step; size += step) {
    Op larger = op;
    std::get<Convolution>(larger.body).*dimension = size;
    const double time = time_of(model, larger);
    EXPECT_GE(time, longest * (1 - 1e-9)) << gpu << " at " << size;
    longest = std::max(longest, time);
  }
}

TEST(ConvolutionTime, MoreChannelsAndImagesAreNeverFaster) {
  for (const char* gpu : {"v100", "t4", "p100"}) {
    for (const Dtype dtype : {Dtype::fp16, Dtype::fp32}) {
      for (const Phase phase : kPhases) {
        for (const Convolution& conv : {conv2d(64, 1), conv2d(64, 3), conv2d(64, 3, 2)}) {
          const Op op = op_of(conv, dtype, phase);
          expect_growth(gpu, op, &Convolution::c, 8);
          expect_growth(gpu, op, &Convolution::k, 8);
          expect_growth(gpu, op, &Convolution::n, 1);
        }
      }
    }
  }
}

TEST(ConvolutionTime, MoreOfAGpuIsNeverSlower) {
  for (const char* gpu : {"v100", "t4", "p100", "a100", "h100"}) {
    const Device slow = *find_device(gpu);
    Device bandwidth = slow, compute = slow;
    bandwidth.dram_bandwidth = slow.dram_bandwidth * 1.5;
    compute.sms *= 2;
    for (auto& [dtype, peak] : compute.tensor_core_peak) peak = peak * 2;
    for (auto& [dtype, peak] : compute.cuda_core_peak) peak = peak * 2;
    if (compute.power_limit) compute.power_limit = *compute.power_limit * 2;
    for (const Dtype dtype : {Dtype::fp16, Dtype::fp32}) {
      for (const Phase phase : kPhases) {
        for (const std::int64_t kernel : {1, 3, 5}) {
          const Op op = op_of(conv2d(96, kernel), dtype, phase);
          const double time = time_of(TimeModel(slow), op);
          EXPECT_LE(time_of(TimeModel(bandwidth), op), time * 1.02) << gpu;
          EXPECT_LE(time_of(TimeModel(compute), op), time * 1.02) << gpu;
        }
      }
    }
  }
}

// Lavin and Gray, Fast Algorithms for Convolutional Neural Networks: F(m x m, r x r) multiplies
// (m + r - 1)^2 times for m^2 r^2: a quarter for F(4x4, 3x3), 1/2.8 for F(2x2, 5x5). Large layers
// pass the peak by it; cuDNN has no such kernels for strides.
TEST(ConvolutionTime, WinogradPassesThePeak) {
  const Device v100 = *find_device("v100");
  const TimeModel model(v100);
  const auto share_of_peak = [&](const Convolution& conv, Phase phase) {
    const Op op = op_of(conv, Dtype::fp32, phase);
    return count_cost(op).flop.value() / time_of(model, op) /
           v100.cuda_core_peak.at(Dtype::fp32).value();
  };
  for (const Phase phase : kPhases) {
    const double share = share_of_peak(conv2d(256, 3, 1, 56), phase);
    EXPECT_GT(share, 1.2);
    EXPECT_LT(share, 4.0);
    EXPECT_LT(share_of_peak(conv2d(256, 5, 1, 56), phase), 2.8);
    EXPECT_LE(share_of_peak(conv2d(256, 7, 1, 56), phase), 1.1);
    EXPECT_LE(share_of_peak(conv2d(256, 3, 2, 56), phase), 1.1);
  }
}

// Its output tiles have 4 rows: the 13th row starts new ones, the 14th does not.
TEST(ConvolutionTime, WinogradRoundsTheOutputUpToItsTiles) {
  const TimeModel v100 = model_of("v100");
  const auto time = [&](std::int64_t size) {
    return time_of(v100, op_of(conv2d(512, 3, 1, size), Dtype::fp32));
  };
  EXPECT_GT(time(13), 1.25 * time(12));
  EXPECT_LT(time(14), 1.08 * time(13));
}

// NVIDIA Convolutional Layers User's Guide: the weight gradient's sum runs over N·P·Q, and few
// weights make few tiles, so the sum is split.
TEST(ConvolutionTime, WeightGradientsOfFewChannelsSplitTheirSum) {
  const TimeModel v100 = model_of("v100");
  const Convolution conv = conv2d(64, 3, 1, 56);
  EXPECT_GT(v100.estimate(op_of(conv, Dtype::fp16, Phase::wgrad))->split_k, 4);
  EXPECT_EQ(v100.estimate(op_of(conv, Dtype::fp16, Phase::forward))->split_k, 1);
}

// The same guide: a stride of 2 leaves a quarter of the work, in the data gradient too.
TEST(ConvolutionTime, AStrideSavesWork) {
  for (const char* gpu : {"v100", "a100"}) {
    for (const Phase phase : kPhases) {
      const TimeModel model = model_of(gpu);
      const double strided = time_of(model, op_of(conv2d(256, 3, 2, 56), Dtype::fp16, phase));
      const double dense = time_of(model, op_of(conv2d(256, 3, 1, 56), Dtype::fp16, phase));
      EXPECT_LT(strided, 0.7 * dense) << gpu;
      EXPECT_GT(strided, 0.2 * dense) << gpu;
    }
  }
}

// A transposed convolution is the data gradient of the plain one from its output to its input.
TEST(ConvolutionTime, TransposedIsTheDataGradient) {
  Convolution plain = conv2d(64, 4, 2, 56);
  plain.c = 32;
  plain.pad_begin = plain.pad_end = {1, 1};
  Convolution transposed = plain;
  transposed.transposed = true;
  transposed.c = 64, transposed.k = 32;
  transposed.input = output_extents(plain);
  ASSERT_EQ(output_extents(transposed), plain.input);
  for (const char* gpu : {"v100", "p100", "a100"}) {
    EXPECT_DOUBLE_EQ(time_of(model_of(gpu), op_of(transposed, Dtype::fp16)),
                     time_of(model_of(gpu), op_of(plain, Dtype::fp16, Phase::dgrad)))
        << gpu;
  }
}

TEST(ConvolutionTime, OneDimensionIsARowOfTwo) {
  Convolution line = conv2d(64, 3), row = line;
  line.input = {4096}, line.kernel = {5}, line.stride = {1}, line.pad_begin = line.pad_end = {2};
  row.input = {1, 4096}, row.kernel = {1, 5}, row.stride = {1, 1};
  row.pad_begin = row.pad_end = {0, 2};
  for (const Dtype dtype : {Dtype::fp16, Dtype::fp32}) {
    for (const char* gpu : {"v100", "a100"}) {
      EXPECT_DOUBLE_EQ(time_of(model_of(gpu), op_of(line, dtype)),
                       time_of(model_of(gpu), op_of(row, dtype)));
    }
  }
}

TEST(ConvolutionTime, GroupsSaveWork) {
  const TimeModel v100 = model_of("v100");
  Convolution dense = conv2d(512, 3), grouped = dense;
  grouped.groups = 4;
  for (const Dtype dtype : {Dtype::fp16, Dtype::fp32}) {
    const double time = time_of(v100, op_of(grouped, dtype));
    EXPECT_LT(time, time_of(v100, op_of(dense, dtype)));
    EXPECT_GT(time, 0.2 * time_of(v100, op_of(dense, dtype)));
  }
}

// A 1x1 convolution of NCHW tensors is a product per image: hardly a conversion.
TEST(ConvolutionTime, PointwiseLayersConvertLess) {
  const TimeModel v100 = model_of("v100");
  const auto converted = [&](std::int64_t kernel) {
    Convolution conv = conv2d(64, kernel, 1, 112);
    conv.layout = TensorLayout::nchw;
    return v100.estimate(op_of(conv, Dtype::fp16))->conversions.expected;
  };
  EXPECT_GT(converted(1), Seconds());
  EXPECT_LT(converted(1), converted(3) * 0.5);
}

// 16-byte groups: three channels take the steps of eight, in a slower kernel.
TEST(ConvolutionTime, ImageChannelsTakeTheStepsOfEight) {
  const TimeModel v100 = model_of("v100");
  Convolution image = conv2d(64, 7, 2, 224);
  image.c = 3;
  const TimeEstimate three = *v100.estimate(op_of(image, Dtype::fp16));
  image.c = 8;
  const TimeEstimate eight = *v100.estimate(op_of(image, Dtype::fp16));
  EXPECT_GT(three.time.expected, eight.time.expected);
  EXPECT_GT(three.own_effects.high, 1.0);
  EXPECT_EQ(eight.own_effects.high, 1.0);
}

// Effects of its own and the model's error together never widen a saving beyond the two ranges.
TEST(ConvolutionTime, SavingsAreNoWiderThanTheTimes) {
  const TimeModel t4 = model_of("t4");
  Convolution image = conv2d(64, 7, 2, 224);
  image.c = 3;
  const TimeEstimate plain = *t4.estimate(op_of(image, Dtype::fp32));
  const TimeEstimate half = *t4.estimate(op_of(image, Dtype::fp16));
  EXPECT_GE(estimate_saving(plain, half).low, plain.time.low - half.time.high);
}

// The tables of T4 hold 3x3 kernels of stride 1, forward; all else was measured on V100 alone.
TEST(ConvolutionTime, RangesAreWiderForWhatWasNotMeasured) {
  const TimeModel t4 = model_of("t4");
  const auto width = [&](const Op& op) {
    const Range<Seconds> time = t4.estimate(op)->time;
    return time.high / time.low;
  };
  const double measured = width(op_of(conv2d(256, 3), Dtype::fp32));
  EXPECT_LT(measured, 1.6);
  EXPECT_GT(width(op_of(conv2d(256, 3), Dtype::fp32, Phase::wgrad)), 1.3 * measured);
  EXPECT_GT(width(op_of(conv2d(256, 3, 2), Dtype::fp32)), 1.3 * measured);
  EXPECT_GT(width(op_of(conv2d(256, 1), Dtype::fp32)), 1.3 * measured);
}

TEST(ConvolutionSection, ReadingIsStrict) {
  const auto error_of = [](const char* text) {
    const nlohmann::json json = nlohmann::json::parse(text);
    SectionReader reader(json, "test");
    ConvolutionConstants constants;
    read_constants(reader, constants);
    const auto error = reader.finish();
    return error ? error->message : "";
  };
  EXPECT_EQ(error_of("{}"), "found no \"math_efficiency\", expected it");
  EXPECT_EQ(error_of(R"({"math_efficiency": 0.7, "tensor_kernel": {}})"),
            "found no \"launch_s\", expected it");
  EXPECT_EQ(error_of(R"({"math_efficiency": 0.7, "tensor_kernel": []})"),
            "found no object, expected one");
}

}  // namespace
}  // namespace rooftile
