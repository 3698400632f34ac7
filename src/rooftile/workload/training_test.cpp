#include "rooftile/workload/training.h"

#include <gtest/gtest.h>

#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

std::vector<std::string> phases(std::string_view text) {
  const auto forward = parse_workload(text);
  EXPECT_TRUE(forward) << (forward ? "" : to_string(forward.error()));
  std::vector<std::string> result;
  for (const Op& op : derive_training(*forward).ops) {
    if (op.phase == Phase::forward) continue;
    result.push_back(op.name + (op.phase == Phase::dgrad   ? " dgrad"
                                : op.phase == Phase::wgrad ? " wgrad"
                                                           : " step"));
  }
  return result;
}

using Names = std::vector<std::string>;

TEST(Training, FirstLayerHasNoDgrad) {
  EXPECT_EQ(phases("gemm a fp16 m=8 n=8 k=8\ngemm b fp16 m=8 n=8 k=8"),
            (Names{"b dgrad", "b wgrad", "a wgrad", "optimizer step"}));
}

TEST(Training, FollowsNamedValues) {
  // Two layers read the network's input, so neither needs its gradient.
  EXPECT_EQ(phases("gemm a fp16 m=8 n=8 k=8 from=x\ngemm b fp16 m=8 n=8 k=8 from=x\n"
                   "elementwise c fp16 fn=add elements=64 inputs=2 from=a,b"),
            (Names{"c dgrad", "b wgrad", "a wgrad", "optimizer step"}));
}

TEST(Training, EmbeddingMakesTheNextLayerNeedADgrad) {
  EXPECT_EQ(phases("embedding e fp16 vocab=10 width=8 lookups=4\ngemm a fp16 m=4 n=8 k=8"),
            (Names{"a dgrad", "a wgrad", "e wgrad", "optimizer step"}));
}

// PyTorch's _cudnn_rnn_backward computes the data gradient in any case: the weights' needs its
// gates.
TEST(Training, ARecurrentLayerGoesBackThroughItsSteps) {
  EXPECT_EQ(phases("recurrent r fp16 batch=4 seq=5 input=8 hidden=8\ngemm a fp16 m=20 n=8 k=8"),
            (Names{"a dgrad", "a wgrad", "r dgrad", "r wgrad", "optimizer step"}));
}

TEST(Training, ProductOfActivationsHasNoWeightGradient) {
  EXPECT_EQ(phases("gemm a fp16 m=8 n=8 k=8\ngemm s fp16 m=8 n=8 k=8 weight=activation"),
            (Names{"s dgrad", "a wgrad", "optimizer step"}));
}

// Inference applies what was learned, in one pass; a training step reads its input for the
// statistics first, also where a model exported for inference is trained.
TEST(Training, BatchNormTakesStatisticsInTrainingOnly) {
  const auto forward = parse_workload(
      "conv c fp16 n=8 c=64 k=64 in=8x8 kernel=1x1\n"
      "norm b fp16 fn=batch rows=512 cols=64\n"
      "norm l fp16 fn=layer rows=512 cols=64");
  const Workload inference = derive_inference(*forward);
  EXPECT_EQ(inference.ops[1].streams.walk, Walk::contiguous);
  EXPECT_EQ(inference.ops[2].streams.walk, Walk::usual);
  for (const Op& op : derive_training(inference).ops) EXPECT_EQ(op.streams.walk, Walk::usual);
  EXPECT_EQ(derive_inference(derive_training(*forward)), derive_training(*forward));
}

TEST(Training, OptimizerStepsOverAllParameters) {
  const auto forward = parse_workload("gemm a fp16 m=8 n=10 k=20 bias=1 count=3");
  const Workload step = derive_training(*forward);
  EXPECT_EQ(std::get<OptimizerStep>(step.ops.back().body).parameters, 3 * (10 * 20 + 10));
  EXPECT_EQ(step.mode, Mode::training);
}

TEST(Training, AStepStaysAsItIs) {
  const auto workload = parse_workload("gemm a fp16 m=8 n=8 k=8 phase=wgrad");
  EXPECT_EQ(derive_training(*workload), *workload);
}

}  // namespace
}  // namespace rooftile
