#include "rooftile/analysis/time/attention_schedule.h"

#include <gtest/gtest.h>

namespace rooftile {
namespace {

constexpr double kA100Sms = 108, kH100Sms = 132;

AttentionShape shape_of(double batch, double heads, double kv_heads, double query_len,
                        double kv_len) {
  AttentionShape shape;
  shape.batch = batch, shape.heads = heads, shape.kv_heads = kv_heads;
  shape.query_len = query_len, shape.kv_len = kv_len;
  shape.head_dim = shape.value_dim = 128;
  shape.causal = query_len > 1;
  return shape;
}

const AttentionConstants& constants(const char* name) {
  static const Calibration a100 = *read_calibration("sm80"), h100 = *read_calibration("sm90");
  return (std::string_view(name) == "sm80" ? a100 : h100).attention.constants;
}

AttentionSchedule on_a100(const AttentionShape& shape) {
  return schedule_attention(constants("sm80"), shape, kA100Sms);
}

AttentionSchedule on_h100(const AttentionShape& shape) {
  return schedule_attention(constants("sm90"), shape, kH100Sms);
}

// The example in FlashAttention's own comment: 48 units on 108 SMs take 2 shares (89 %), not 3
// (67 %); units that nearly fill the SMs take none.
TEST(ChooseSplits, AsTheLibrarySays) {
  EXPECT_EQ(choose_splits(48, 108, 64, true), 2);
  EXPECT_EQ(choose_splits(87, 108, 64, true), 1);
  EXPECT_EQ(choose_splits(1, 132, 1, false), 1);
}

// 8 units, 216 slots, 32 blocks: 16 and 32 shares both fill 59 % (one and two waves); shares of
// equal size do not count twice.
TEST(ChooseSplits, SkipsEqualShares) { EXPECT_EQ(choose_splits(8, 216, 32, true), 16); }

TEST(FlashAttention2, DecodeTakesHeadsAsRowsAndSplits) {
  const AttentionSchedule s = on_a100(shape_of(1, 32, 8, 1, 4096));
  EXPECT_TRUE(s.swapped);
  EXPECT_EQ(s.groups, 8);
  EXPECT_EQ(s.tiles, 1);
  EXPECT_EQ(s.splits, 16);
  EXPECT_EQ(s.longest, 2);
}

TEST(FlashAttention2, WithoutGroupsDecodeDoesNotSplit) {
  const AttentionSchedule s = on_a100(shape_of(1, 8, 8, 1, 4096));
  EXPECT_FALSE(s.swapped);
  EXPECT_EQ(s.splits, 1);
  EXPECT_EQ(s.longest, 32);
}

// 64 rows against blocks of 128 keys: tiles see 1 1 2 2 3 3 4 4 blocks.
TEST(FlashAttention2, CausalTilesGrow) {
  const AttentionSchedule s = on_a100(shape_of(2, 16, 4, 512, 512));
  EXPECT_EQ(s.groups, 32);
  EXPECT_EQ(s.tiles, 8);
  EXPECT_EQ(s.blocks, 20);
  EXPECT_EQ(s.longest, 4);
  EXPECT_EQ(s.last, 4);
}

// The 129th key lies in a second block, which the last query alone sees.
TEST(FlashAttention2, TheLastQuerySeesTheLastKey) {
  const AttentionSchedule s = on_a100(shape_of(1, 16, 16, 129, 129));
  EXPECT_EQ(s.tiles, 3);
  EXPECT_EQ(s.blocks, 1 + 1 + 2);
  EXPECT_EQ(s.longest, 2);
}

// Four heads of a group share tiles of 128 rows, 32 queries each: four tiles see one block of 128
// keys, four see two, … four see eight.
TEST(FlashAttention3, HeadsOfAGroupShareTiles) {
  const AttentionSchedule s = on_h100(shape_of(1, 32, 8, 1024, 1024));
  EXPECT_EQ(s.groups, 8);
  EXPECT_EQ(s.tiles, 32);
  EXPECT_EQ(s.splits, 1);
  EXPECT_EQ(s.blocks, 4 * 36);
  EXPECT_EQ(s.longest, 8);
  EXPECT_EQ(s.last, 1);
}

// A window of 128 keys: the first tile of 128 queries sees one block, all others two.
TEST(FlashAttention3, WindowsHideBlocks) {
  AttentionShape shape = shape_of(64, 4, 4, 1024, 1024);
  shape.window = 128;
  const AttentionSchedule s = on_h100(shape);
  EXPECT_TRUE(s.local);
  EXPECT_EQ(s.blocks, 15);
  shape.window = 1;  // each query sees one key
  EXPECT_TRUE(on_h100(shape).local);
  shape.window = 1024;
  EXPECT_FALSE(on_h100(shape).local);
}

// 16 blocks of 8 key heads over 132 SMs with a margin of a tenth: two blocks each.
TEST(FlashAttention3, DecodeSharesBlocksEvenly) {
  const AttentionSchedule s = on_h100(shape_of(1, 32, 8, 1, 2048));
  EXPECT_TRUE(s.few_queries);
  EXPECT_EQ(s.rows, 64);
  EXPECT_EQ(s.splits, 8);
  EXPECT_EQ(s.longest, 2);
  EXPECT_EQ(on_h100(shape_of(64, 32, 8, 1, 2048)).splits, 1);
  EXPECT_EQ(on_h100(shape_of(1024, 8, 1, 1, 65536)).splits, 1) << "too large to schedule ahead";
}

TEST(FlashAttention3, EightBitKeysHaveTilesOfTheirOwn) {
  AttentionShape shape = shape_of(1, 32, 8, 1024, 1024);
  EXPECT_EQ(on_h100(shape).keys, 128);
  shape.narrow = true;
  EXPECT_EQ(on_h100(shape).keys, 192);
}

TEST(AttentionSchedule, HeadSizesTakeTheNextCompiledKernel) {
  AttentionShape shape = shape_of(1, 32, 8, 1024, 1024);
  for (const auto& [size, compiled] : {std::pair{40, 64}, {80, 96}, {128, 128}, {576, 512}}) {
    shape.head_dim = shape.value_dim = size;
    EXPECT_EQ(on_h100(shape).kernel.head_dim, compiled) << size;
  }
}

// Many tiles are sampled; their sum stays that of all: sum of ceil(64 (i+1) / 128).
TEST(AttentionSchedule, SampledTilesSumUp) {
  const AttentionSchedule s = on_a100(shape_of(1, 1, 1, 131072, 131072));
  EXPECT_EQ(s.tiles, 2048);
  EXPECT_NEAR(s.blocks / (1024.0 * 1025), 1.0, 0.005);
}

}  // namespace
}  // namespace rooftile
