// Layers that keep a state: their operations on a prompt of 3 x 5 tokens, and in a decode step of 3
// sequences. A width of 64, two bytes an element.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rooftile/readers/hf_config/hf_config.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

using Lines = std::vector<std::string>;

// The operations of the block that mixes tokens, without the path in front.
Lines mixer_of(const std::string& type, const std::string& members, Mode mode) {
  ReadOptions options;
  options.batch = 3;
  options.mode = mode;
  (mode == Mode::decode ? options.past : options.seq) = mode == Mode::decode ? 8 : 5;
  const auto workload = parse_hf_config(
      fmt::format(R"({{"model_type": "{}", "torch_dtype": "bfloat16", "hidden_size": 64,
          "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 100{}}})",
                  type, members),
      "config.json", options);
  if (!workload) return {to_string(workload.error())};
  Lines lines;
  for (const Op& op : workload->ops) {
    for (const std::string path : {".mixer.", ".linear_attn.", ".self_attn.", ".conv."}) {
      const std::size_t at = op.name.find(path);
      if (at == std::string::npos) continue;
      lines.push_back(op.name.substr(at + path.size()) + ": " + dims_text(op.body));
      break;
    }
  }
  return lines;
}

// An inner width of 128, states of 16 for each channel, steps of rank 4. The scan reads its input,
// the steps and both projections of 16, and writes 128; a step reads and writes the state in fp32.
TEST(RecurrentLayers, OfMamba) {
  EXPECT_EQ(mixer_of("mamba", "", Mode::inference),
            (Lines{"in_proj: m=15 n=256 k=64",
                   "conv1d: n=3 c=128 k=128 in=5 kernel=4 pad=3 pad_end=0 groups=128 bias=1",
                   "conv1d_activation: fn=silu elements=1920", "x_proj: m=15 n=36 k=128",
                   "dt_proj: m=15 n=128 k=4 bias=1",
                   fmt::format("ssm_scan: fn=ssm_scan bytes={}", 15 * (3 * 128 + 2 * 16) * 2),
                   "gate: fn=silu_mul elements=1920 inputs=2", "out_proj: m=15 n=64 k=128"}));
  EXPECT_EQ(mixer_of("mamba", "", Mode::decode),
            (Lines{"in_proj: m=3 n=256 k=64",
                   fmt::format("conv1d: fn=conv1d_update bytes={}", 3 * 128 * 2 * 4 * 2),
                   "x_proj: m=3 n=36 k=128", "dt_proj: m=3 n=128 k=4 bias=1",
                   fmt::format("ssm_scan: fn=ssm_scan bytes={}",
                               3 * (3 * 128 + 2 * 16) * 2 + 2 * 3 * 128 * 16 * 4),
                   "gate: fn=silu_mul elements=384 inputs=2", "out_proj: m=3 n=64 k=128"}));
}

TEST(RecurrentLayers, OfFalconMambaNormaliseStepsAndStates) {
  const Lines usual = mixer_of("mamba", "", Mode::inference);
  Lines expected(usual.begin(), usual.begin() + 4);
  expected.insert(expected.end(),
                  {"dt_layernorm: fn=rms rows=15 cols=4", "b_layernorm: fn=rms rows=15 cols=16",
                   "c_layernorm: fn=rms rows=15 cols=16"});
  expected.insert(expected.end(), usual.begin() + 4, usual.end());
  EXPECT_EQ(mixer_of("falcon_mamba", "", Mode::inference), expected);
}

// Four heads of 32 channels, one group of states of 16.
TEST(RecurrentLayers, OfMamba2) {
  const std::string sizes = R"(, "num_heads": 4, "head_dim": 32, "n_groups": 1, "state_size": 16)";
  EXPECT_EQ(mixer_of("mamba2", sizes, Mode::inference),
            (Lines{"in_proj: m=15 n=292 k=64",
                   "conv1d: n=3 c=160 k=160 in=5 kernel=4 pad=3 pad_end=0 groups=160 bias=1",
                   "conv1d_activation: fn=silu elements=2400",
                   fmt::format("ssm_scan: fn=ssm_scan bytes={}", 15 * (160 + 4 + 128) * 2),
                   "gate: fn=silu_mul elements=1920 inputs=2", "norm: fn=rms rows=15 cols=128",
                   "out_proj: m=15 n=64 k=128"}));
  EXPECT_EQ(mixer_of("mamba2", sizes, Mode::decode),
            (Lines{"in_proj: m=3 n=292 k=64",
                   fmt::format("conv1d: fn=conv1d_update bytes={}", 3 * 160 * 2 * 4 * 2),
                   fmt::format("ssm_scan: fn=ssm_scan bytes={}",
                               3 * (160 + 4 + 128) * 2 + 2 * 3 * 128 * 16 * 4),
                   "gate: fn=silu_mul elements=384 inputs=2", "norm: fn=rms rows=3 cols=128",
                   "out_proj: m=3 n=64 k=128"}));
}

// Two heads of keys of 8, four of values of 16: 16, 16 and 64 channels, and a gate of 64.
TEST(RecurrentLayers, OfGatedDeltaNets) {
  const std::string sizes = R"(, "intermediate_size": 96, "linear_num_key_heads": 2,
      "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 16)";
  EXPECT_EQ(mixer_of("qwen3_next", sizes, Mode::inference),
            (Lines{"in_proj_qkvz: m=15 n=160 k=64", "in_proj_ba: m=15 n=8 k=64",
                   "conv1d: n=3 c=96 k=96 in=5 kernel=4 pad=3 pad_end=0 groups=96",
                   "conv1d_activation: fn=silu elements=1440",
                   fmt::format("gated_delta_rule: fn=gated_delta_rule bytes={}",
                               15 * (96 + 2 * 4 + 64) * 2),
                   "norm: fn=rms rows=60 cols=16", "gate: fn=silu_mul elements=960 inputs=2",
                   "out_proj: m=15 n=64 k=64"}));
  EXPECT_EQ(mixer_of("qwen3_next", sizes, Mode::decode),
            (Lines{"in_proj_qkvz: m=3 n=160 k=64", "in_proj_ba: m=3 n=8 k=64",
                   fmt::format("conv1d: fn=conv1d_update bytes={}", 3 * 96 * 2 * 4 * 2),
                   fmt::format("gated_delta_rule: fn=gated_delta_rule bytes={}",
                               3 * (96 + 2 * 4 + 64) * 2 + 2 * 3 * 64 * 8 * 4),
                   "norm: fn=rms rows=12 cols=16", "gate: fn=silu_mul elements=192 inputs=2",
                   "out_proj: m=3 n=64 k=64"}));
  // Qwen3.5 has four products in the place of two.
  const Lines split = mixer_of("qwen3_5_text", sizes, Mode::inference);
  EXPECT_EQ(Lines(split.begin(), split.begin() + 4),
            (Lines{"in_proj_qkv: m=15 n=96 k=64", "in_proj_z: m=15 n=64 k=64",
                   "in_proj_b: m=15 n=4 k=64", "in_proj_a: m=15 n=4 k=64"}));
}

// Four heads of 16: states of 16 x 16.
TEST(RecurrentLayers, OfLightningAttention) {
  const std::string sizes = R"(, "intermediate_size": 96, "attn_type_list": [0],
      "num_local_experts": 6, "num_experts_per_tok": 2)";
  EXPECT_EQ(
      mixer_of("minimax", sizes, Mode::inference),
      (Lines{"qkv_proj: m=15 n=192 k=64", "activation: fn=silu elements=2880",
             fmt::format("lightning_attention: fn=lightning_attention bytes={}", 15 * 4 * 64 * 2),
             "norm: fn=rms rows=15 cols=64", "output_gate: m=15 n=64 k=64",
             "gate: fn=sigmoid_mul elements=960 inputs=2", "out_proj: m=15 n=64 k=64"}));
  EXPECT_EQ(mixer_of("minimax", sizes, Mode::decode),
            (Lines{"qkv_proj+output_gate: m=3 n=256 k=64", "activation: fn=silu elements=576",
                   fmt::format("lightning_attention: fn=lightning_attention bytes={}",
                               3 * 4 * 64 * 2 + 2 * 3 * 4 * 16 * 16 * 4),
                   "norm: fn=rms rows=3 cols=64", "gate: fn=sigmoid_mul elements=192 inputs=2",
                   "out_proj: m=3 n=64 k=64"}));
}

TEST(RecurrentLayers, OfShortConvolutions) {
  const std::string sizes = R"(, "intermediate_size": 96)";
  EXPECT_EQ(mixer_of("lfm2", sizes, Mode::inference),
            (Lines{"in_proj: m=15 n=192 k=64", "input_gate: fn=mul elements=960 inputs=2",
                   "conv: n=3 c=64 k=64 in=5 kernel=3 pad=2 pad_end=0 groups=64",
                   "output_gate: fn=mul elements=960 inputs=2", "out_proj: m=15 n=64 k=64"}));
  EXPECT_EQ(mixer_of("lfm2", sizes, Mode::decode),
            (Lines{"in_proj: m=3 n=192 k=64", "input_gate: fn=mul elements=192 inputs=2",
                   fmt::format("conv: fn=conv1d_update bytes={}", 3 * 64 * 2 * 3 * 2),
                   "output_gate: fn=mul elements=192 inputs=2", "out_proj: m=3 n=64 k=64"}));
}

}  // namespace
}  // namespace rooftile
