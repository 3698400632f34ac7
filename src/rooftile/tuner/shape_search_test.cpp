#include "rooftile/tuner/shape_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "rooftile/hardware/device_file.h"

namespace rooftile {
namespace {

Op gemm(const std::string& name, std::int64_t n, std::int64_t k, std::int64_t count) {
  Op op;
  op.name = name;
  Gemm body;
  body.m = 8192;
  body.n = n;
  body.k = k;
  op.body = body;
  op.dtypes = Dtypes(Dtype::bf16);
  op.count = count;
  return op;
}

// Layers of two products, and an output layer.
std::optional<Workload> build(const ModelShape& shape) {
  const std::int64_t hidden = shape.at(ShapeSize::hidden), ffn = shape.at(ShapeSize::ffn);
  const std::int64_t layers = shape.at(ShapeSize::layers);
  if (shape.at(ShapeSize::heads) > hidden) return std::nullopt;
  Workload workload;
  workload.ops = {gemm("up", ffn, hidden, layers), gemm("down", hidden, ffn, layers),
                  gemm("head", shape.at(ShapeSize::vocabulary), hidden, 1)};
  return workload;
}

ShapeSearch search_of(std::int64_t vocabulary) {
  ShapeSearch search;
  search.present = {{ShapeSize::hidden, 768},
                    {ShapeSize::layers, 12},
                    {ShapeSize::heads, 12},
                    {ShapeSize::ffn, 3072},
                    {ShapeSize::vocabulary, vocabulary}};
  search.build = build;
  return search;
}

TimeModel a100() { return TimeModel(*find_device("a100_sxm_80gb")); }

// As the definition above counts them.
double parameters_of(const ModelShape& shape) {
  return to_double(shape.at(ShapeSize::hidden)) *
         (2 * to_double(shape.at(ShapeSize::ffn) * shape.at(ShapeSize::layers)) +
          to_double(shape.at(ShapeSize::vocabulary)));
}

TEST(ShapeSearch, NeighboursKeepTheParameters) {
  const ShapeSearch search = search_of(50257);
  const std::vector<ModelShape> shapes = nearby_shapes(search);
  EXPECT_GT(shapes.size(), 10U);
  EXPECT_EQ(shapes.front(), search.present) << "the nearest first";
  for (ModelShape shape : shapes) {
    EXPECT_GE(shape.at(ShapeSize::vocabulary), 50257);
    EXPECT_TRUE(shape.at(ShapeSize::ffn) % 64 == 0);
    EXPECT_TRUE(shape.at(ShapeSize::hidden) % 64 == 0);
    EXPECT_EQ(shape.at(ShapeSize::hidden) % shape.at(ShapeSize::heads), 0);
    shape[ShapeSize::vocabulary] = 50257;  // padding is not paid for elsewhere
    EXPECT_NEAR(parameters_of(shape) / parameters_of(search.present), 1, 0.02 + 1e-9);
  }
}

TEST(ShapeSearch, FixedSizesStay) {
  ShapeSearch search = search_of(50257);
  search.fixed = {{ShapeSize::hidden, 768}, {ShapeSize::layers, 12}, {ShapeSize::heads, 12}};
  for (const ModelShape& shape : nearby_shapes(search)) {
    EXPECT_EQ(shape.at(ShapeSize::hidden), 768);
    EXPECT_EQ(shape.at(ShapeSize::layers), 12);
    EXPECT_EQ(shape.at(ShapeSize::heads), 12);
  }
}

TEST(ShapeSearch, HeadsShareTheHiddenSizeOrKeepTheirProportion) {
  ShapeSearch search = search_of(50304);
  for (const ModelShape& shape : nearby_shapes(search)) {
    EXPECT_EQ(shape.at(ShapeSize::hidden) % shape.at(ShapeSize::heads), 0);
  }
  // 16 heads of 128 over a hidden size of 1024 are twice as wide, with 4 queries to each key.
  search.present[ShapeSize::hidden] = 1024;
  search.present[ShapeSize::heads] = 16;
  search.present[ShapeSize::kv_heads] = 4;
  search.present[ShapeSize::head_size] = 128;
  for (const ModelShape& shape : nearby_shapes(search)) {
    EXPECT_EQ(shape.at(ShapeSize::heads) * shape.at(ShapeSize::head_size),
              2 * shape.at(ShapeSize::hidden));
    EXPECT_EQ(shape.at(ShapeSize::heads) % shape.at(ShapeSize::kv_heads), 0);
  }
}

TEST(ShapeSearch, PaddingTheVocabularyIsASureGain) {
  const auto found = search_shapes(search_of(50257), a100());
  ASSERT_TRUE(found);
  const auto padded = std::ranges::find_if(found->by_change, [&](const ShapeCandidate& one) {
    return changed_sizes(found->present.shape, one.shape) ==
           std::vector<ShapeSize>{ShapeSize::vocabulary};
  });
  ASSERT_NE(padded, found->by_change.end());
  EXPECT_EQ(padded->shape.at(ShapeSize::vocabulary) % 64, 0);
  EXPECT_GT(padded->saving.low, Seconds());
}

TEST(ShapeSearch, NothingOnTheFrontIsWorseThanItsNeighbour) {
  const auto found = search_shapes(search_of(50304), a100());
  ASSERT_TRUE(found);
  ASSERT_FALSE(found->front.empty());
  for (std::size_t i = 1; i < found->front.size(); ++i) {
    const ShapeCandidate &faster = found->front[i - 1], &slower = found->front[i];
    EXPECT_LE(faster.time, slower.time);
    EXPECT_TRUE(slower.parameters > faster.parameters ||
                slower.memory.total().expected < faster.memory.total().expected);
  }
  ASSERT_TRUE(found->better) << "the present shape is as good as itself";
  EXPECT_LE(found->better->time, found->present.time);
}

TEST(ShapeSearch, EveryShapeIsTriedAtEveryBatch) {
  ShapeSearch search = search_of(50304);
  const std::size_t shapes = nearby_shapes(search).size();
  search.present[ShapeSize::batch] = 4;
  search.batches = {8, 16};
  EXPECT_EQ(nearby_shapes(search).size(), 3 * shapes);
  search.fixed = {{ShapeSize::batch, 16}};
  for (const ModelShape& shape : nearby_shapes(search)) {
    EXPECT_EQ(shape.at(ShapeSize::batch), 16);
  }
}

// Twice the samples in the same time save half; an optimizer step does not come less often.
TEST(ShapeSearch, SavingsAreOfTheSameSamples) {
  Workload once;
  once.ops = {gemm("up", 768, 768, 1)};
  Workload with_step = once;
  Op step;
  step.name = "optimizer";
  step.body = OptimizerStep{OptimizerKind::adamw, 768 * 768};
  step.phase = Phase::optimizer;
  step.dtypes = Dtypes(Dtype::fp32);
  with_step.ops.push_back(step);
  const Seconds time = a100().estimate(once.ops[0])->time.expected;
  for (const Workload& workload : {once, with_step}) {
    EXPECT_NEAR(saving_between(workload, workload, a100(), 0.5).expected / time, 0.5, 1e-9);
  }
}

TEST(ShapeSearch, TheSameSavesNothing) {
  const auto workload = build(search_of(50257).present);
  EXPECT_EQ(saving_between(*workload, *workload, a100()), Range<Seconds>{});
}

}  // namespace
}  // namespace rooftile
