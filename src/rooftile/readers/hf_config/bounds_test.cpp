// Bounds that keep sizes within 64 bits: of each kind of block, all that it makes of one token.
#include "rooftile/readers/hf_config/bounds.h"

#include <gtest/gtest.h>

#include <limits>

namespace rooftile::hf {
namespace {

double row_of(const Mixer& mixer) {
  Layer layer;
  layer.mixer = mixer;
  return widest_row(layer);
}

double row_of_feed(const Feed& feed) {
  Layer layer;
  layer.feed = feed;
  return widest_row(layer);
}

SelfAttention attention_of(std::int64_t head_dim, std::int64_t value_dim) {
  SelfAttention attention;
  attention.heads = 3;
  attention.kv_heads = 2;
  attention.head_dim = head_dim;
  attention.value_dim = value_dim;
  return attention;
}

Mlp mlp_of(std::int64_t inner) {
  Mlp mlp;
  mlp.inner = inner;
  return mlp;
}

// Queries and a gate, keys and values of the wider heads; inputs, positions, a gate for each head.
TEST(WidestRow, OfAttention) {
  SelfAttention attention = attention_of(7, 5);
  EXPECT_EQ(row_of(attention), 2 * 3 * 7 + 2 * 2 * 7 + 3);
  EXPECT_EQ(row_of(attention_of(5, 7)), row_of(attention));
  attention.input_width = 11;
  attention.relative_positions = 13;
  EXPECT_EQ(row_of(attention), 2 * 3 * 7 + 2 * 2 * 7 + 11 + 13 + 3);
}

TEST(WidestRow, OfAttentionThroughLowRanks) {
  LatentAttention latent{
      .heads = 3, .q_rank = 5, .kv_rank = 7, .nope_dim = 11, .rope_dim = 13, .value_dim = 17};
  const double expected = 3 * (11 + 13 + 17 + 2 * (7 + 13)) + 5 + 7 + 13;
  EXPECT_EQ(row_of(latent), expected);
  latent.indexer = Indexer{2, 19, 4};
  EXPECT_EQ(row_of(latent), expected + 2 * 19);
  CompressedAttention compressed{
      .heads = 3, .head_dim = 5, .q_rank = 11, .groups = 2, .out_rank = 7};
  EXPECT_EQ(row_of(compressed), 2 * 3 * 5 + 2 * 7 + 11 + 5);
  compressed.indexer = Indexer{2, 19, 4};
  EXPECT_EQ(row_of(compressed), 2 * 19 + 2 * 3 * 5 + 2 * 7 + 11 + 5);
}

TEST(WidestRow, OfRecurrentBlocks) {
  EXPECT_EQ(row_of(DeltaNet{.key_heads = 2, .value_heads = 5, .key_dim = 3, .value_dim = 7}),
            2 * 2 * 3 + 3 * 5 * 7 + 2 * 5);
  const Mamba2 mamba{.heads = 3, .head_dim = 5, .groups = 2, .state = 7};
  EXPECT_EQ(row_of(mamba), 3 * 3 * 5 + 2 * 2 * 7 + 3);
  EXPECT_EQ(row_of(Mamba1{.inner = 5, .state = 7, .rank = 3}), 3 * 5 + 3 + 2 * 7);
  EXPECT_EQ(row_of(LightningAttention{.heads = 3, .head_dim = 5}), 5 * 3 * 5);
  EXPECT_EQ(row_of(AttentionBesideMamba{attention_of(9, 9), mamba}), 2 * 3 * 9 + 2 * 2 * 9 + 3);
  EXPECT_EQ(row_of(AttentionBesideMamba{attention_of(1, 1), mamba}), row_of(mamba));
  EXPECT_EQ(row_of(ShortConvolution{.kernel = 3}), 0);
  EXPECT_EQ(row_of(LinearBlock{}), 0);
  EXPECT_EQ(row_of(std::monostate{}), 0);
}

TEST(WidestRow, OfFeedForwardBlocks) {
  EXPECT_EQ(row_of_feed(mlp_of(9)), 2 * 9);
  MixtureOfExperts moe;
  moe.experts = 6;
  moe.top_k = 2;
  moe.expert.inner = 9;
  EXPECT_EQ(row_of_feed(moe), 2 * (2 + 6) * (9 + 1));
  moe.latent = 4;
  EXPECT_EQ(row_of_feed(moe), 2 * (2 + 6) * (9 + 4 + 1));
  moe.shared = mlp_of(5);
  moe.parallel = mlp_of(7);
  EXPECT_EQ(row_of_feed(moe), 2 * (2 + 6) * (9 + 4 + 1) + 2 * 5 + 2 * 7);
}

TEST(WidestRow, IsThatOfTheWidestBlock) {
  Layer layer;
  layer.mixer = attention_of(1, 1);
  layer.feed = mlp_of(100);
  EXPECT_EQ(widest_row(layer), 200);
  layer.per_layer_input = 300;
  EXPECT_EQ(widest_row(layer), 300);
  layer.cross = attention_of(50, 50);
  EXPECT_EQ(widest_row(layer), 2 * 3 * 50 + 2 * 2 * 50 + 3);
  layer.shared = SharedBlock{attention_of(60, 60), mlp_of(1)};
  EXPECT_EQ(widest_row(layer), 2 * 3 * 60 + 2 * 2 * 60 + 3);
  layer.shared->mlp.inner = 1000;
  EXPECT_EQ(widest_row(layer), 2000);
}

TEST(OutputElements, OfAConvolution) {
  Convolution conv;
  conv.n = 2;
  conv.c = 1;
  conv.k = 3;
  conv.input = {8, 7};
  conv.kernel = {3, 7};
  EXPECT_EQ(output_elements(conv), 2 * 3 * 6 * 1);
  conv.kernel = {3, 8};
  EXPECT_EQ(output_elements(conv), std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace rooftile::hf
