// What decoders keep of each sequence, for each kind of layer.
#include "rooftile/readers/hf_config/cache.h"

#include <gtest/gtest.h>

namespace rooftile::hf {
namespace {

// 10 positions before one new one, two sequences, two bytes an element.
DecoderCache cache_of_layers(const std::vector<Layer>& layers) {
  Tower tower;
  tower.generates = true;
  tower.past = 10;
  tower.length = 1;
  tower.memory_length = 6;
  tower.parts.push_back(Parameters{5});
  tower.parts.push_back(Stack{"layers", 100, layers});
  return cache_of(tower, 2, Dtype::bf16);
}

DecoderCache cache_of_mixer(const Mixer& mixer) {
  Layer layer;
  layer.mixer = mixer;
  return cache_of_layers({layer});
}

SelfAttention attention_of(std::int64_t window) {
  SelfAttention attention;
  attention.heads = 6;
  attention.kv_heads = 2;
  attention.head_dim = 5;
  attention.window = window;
  return attention;
}

TEST(DecoderCache, HoldsKeysAndValues) {
  const auto bytes = [](const Mixer& mixer) { return cache_of_mixer(mixer).keys_and_values; };
  EXPECT_EQ(bytes(attention_of(0)), 2 * 11 * 2 * (5 + 5) * 2);
  EXPECT_EQ(bytes(attention_of(4)), 2 * 4 * 2 * (5 + 5) * 2);
  EXPECT_EQ(bytes(attention_of(12)), bytes(attention_of(0)));
  SelfAttention narrow = attention_of(0);
  narrow.value_dim = 3;
  EXPECT_EQ(bytes(narrow), 2 * 11 * 2 * (5 + 3) * 2);
  SelfAttention shared = attention_of(0);
  shared.shares_kv = true;
  EXPECT_EQ(bytes(shared), 0);
  EXPECT_EQ(cache_of_mixer(attention_of(0)).states, 0);
  EXPECT_EQ(bytes(LinearBlock{}), 0);
  EXPECT_EQ(bytes(std::monostate{}), 0);
}

// Of the indexer's keys a byte an element, and 4 bytes for 128 of them.
TEST(DecoderCache, HoldsLatents) {
  LatentAttention latent{.heads = 3, .kv_rank = 7, .rope_dim = 13};
  EXPECT_EQ(cache_of_mixer(latent).keys_and_values, 2 * 11 * (7 + 13) * 2);
  latent.indexer = Indexer{2, 128, 4, true};
  EXPECT_EQ(cache_of_mixer(latent).keys_and_values, 2 * 11 * ((7 + 13) * 2 + 128 + 4));
  latent.indexer->scores = false;
  EXPECT_EQ(cache_of_mixer(latent).keys_and_values, 2 * 11 * (7 + 13) * 2);
}

// A window of 4 tokens, and an entry of each 3 of 11.
TEST(DecoderCache, HoldsAWindowAndEntries) {
  CompressedAttention compressed{.heads = 3, .head_dim = 5, .window = 4, .tokens_of_entry = 3};
  EXPECT_EQ(cache_of_mixer(compressed).keys_and_values, 2 * (4 + 3) * 5 * 2);
  compressed.indexer = Indexer{2, 128, 1};
  EXPECT_EQ(cache_of_mixer(compressed).keys_and_values, 2 * ((4 + 3) * 5 * 2 + 3 * (128 + 4)));
  compressed = {.heads = 3, .head_dim = 5, .window = 12};
  EXPECT_EQ(cache_of_mixer(compressed).keys_and_values, 2 * 11 * 5 * 2);
}

// Inputs of short convolutions but the newest in the precision of the cache, states in fp32.
TEST(DecoderCache, HoldsStates) {
  const auto bytes = [](const Mixer& mixer) {
    EXPECT_EQ(cache_of_mixer(mixer).keys_and_values, 0);
    return cache_of_mixer(mixer).states;
  };
  EXPECT_EQ(bytes(DeltaNet{
                .key_heads = 2, .value_heads = 3, .key_dim = 5, .value_dim = 7, .conv_kernel = 4}),
            2 * ((2 * 2 * 5 + 3 * 7) * 3 * 2 + 3 * 7 * 5 * 4));
  const Mamba2 mamba{.heads = 3, .head_dim = 5, .groups = 2, .state = 7, .conv_kernel = 4};
  const double of_mamba = 2 * ((3 * 5 + 2 * 2 * 7) * 3 * 2 + 3 * 5 * 7 * 4);
  EXPECT_EQ(bytes(mamba), of_mamba);
  EXPECT_EQ(bytes(Mamba1{.inner = 5, .state = 7, .rank = 3, .conv_kernel = 4}),
            2 * (5 * 3 * 2 + 5 * 7 * 4));
  EXPECT_EQ(bytes(LightningAttention{.heads = 3, .head_dim = 5}), 2 * 3 * 5 * 5 * 4);
  EXPECT_EQ(bytes(ShortConvolution{.kernel = 3}), 2 * 100 * 2 * 2);
  const DecoderCache both = cache_of_mixer(AttentionBesideMamba{attention_of(0), mamba});
  EXPECT_EQ(both.states, of_mamba);
  EXPECT_EQ(both.keys_and_values, 2 * 11 * 2 * (5 + 5) * 2);
}

TEST(DecoderCache, IsTheSumOfLayers) {
  const double all = cache_of_mixer(attention_of(0)).keys_and_values;
  Layer layer;
  layer.mixer = attention_of(0);
  EXPECT_EQ(cache_of_layers({layer, layer}).keys_and_values, 2 * all);
  Layer crossing = layer;
  crossing.cross = attention_of(0);  // six positions of the memory
  EXPECT_EQ(cache_of_layers({crossing}).keys_and_values, all + 2 * 6 * 2 * (5 + 5) * 2);
  Layer shared = layer;
  shared.shared = SharedBlock{attention_of(0), Mlp{}};
  EXPECT_EQ(cache_of_layers({shared}).keys_and_values, 2 * all);
  Tower encoder;
  encoder.length = 11;
  encoder.parts.push_back(Stack{"layers", 100, {layer}});
  EXPECT_EQ(cache_of(encoder, 2, Dtype::bf16).keys_and_values, 0);
}

}  // namespace
}  // namespace rooftile::hf
