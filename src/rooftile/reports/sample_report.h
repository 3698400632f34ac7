// Reports made by hand, for the tests of the renderers: no number in them comes from an analysis.
#pragma once

#include "rooftile/findings/fingerprint.h"
#include "rooftile/findings/report.h"

namespace rooftile {

inline Range<Seconds> sample_range(double low_ms, double expected_ms, double high_ms) {
  return {milliseconds(low_ms), milliseconds(expected_ms), milliseconds(high_ms)};
}

inline Finding sample_stride_finding() {
  Finding finding;
  finding.rule = "gemm/unaligned-row-stride";
  finding.level = Level::warning;
  finding.message =
      "Rows of the 50257 logits take 100514 bytes, which 16 does not divide, so the fastest Tensor "
      "Core kernels are out.";
  finding.location = {"gpt.txt", 3, "lm_head", "model.lm_head"};
  finding.saving = sample_range(0.81, 1.2, 1.49);
  finding.fix = {
      "Pad the vocabulary from 50257 to 50304: +47 rows, +0.09 % parameters; slice the "
      "logits.",
      Exactness::exact_arithmetic};
  finding.evidence = {
      Evidence::published("aligned to 2 of 16 bytes", "cuBLAS documentation, Tensor Core Usage"),
      Evidence::estimated("math-bound: 627 flop per byte, the GPU's ridge is 295")};
  finding.ops = {2};
  return finding;
}

inline Finding sample_layer_finding() {
  Finding finding;
  finding.rule = "memory-bound/unfused-activation";
  finding.level = Level::advice;
  finding.message = "Each GELU reads and writes its whole tensor.";
  finding.location = {"gpt.txt", 0, "", "model.layers.0.mlp.act"};
  finding.count = 12;
  finding.saving = sample_range(0.2, 0.4, 0.5);
  finding.fix = {"Fuse it into the Linear before it: torch.compile does", Exactness::bit_exact};
  finding.ops = {1};
  return finding;
}

inline Finding sample_info_finding() {
  Finding finding;
  finding.rule = "sizing/last-wave";
  finding.level = Level::info;
  finding.message = "The last wave is 3 % full.";
  finding.location = {"gpt.txt", 1, "qkv", ""};
  finding.fix = {"", Exactness::not_applicable};
  finding.ops = {0};
  return finding;
}

inline std::vector<OpRow> sample_rows() {
  return {{"qkv",
           "gemm",
           "bf16",
           "forward",
           "m=4096 n=2304 k=768",
           "math",
           12,
           Flop(14495514624.0),
           Bytes(28704768.0),
           sample_range(0.02, 0.025, 0.03),
           {Seconds(2e-6), Seconds(20e-6), Seconds(10e-6), Seconds(21e-6)},
           std::nullopt,
           FlopPerByte(295.29)},
          {"act, \"gelu\"",
           "elementwise",
           "bf16",
           "forward",
           "fn=gelu elements=12582912",
           "memory",
           12,
           Flop(12582912.0),
           Bytes(50331648.0),
           sample_range(0.016, 0.017, 0.02),
           {Seconds(2e-6), Seconds(), Seconds(15e-6), Seconds()}},
          {"lm_head", "gemm", "bf16", "forward", "m=4096 n=50257 k=768", "math", 1,
           Flop(316193636352.0), Bytes(495190016.0), sample_range(1.5, 2.0, 2.5)},
          {"mystery", "other", "fp32", "forward", "fn=MyOp", "unknown", 1, Flop(0), Bytes(0),
           std::nullopt}};
}

// A training step with findings of three levels, skipped records and a budget that is exceeded.
inline Report sample_report() {
  Report report;
  report.inputs = {"gpt.txt"};
  report.device = {"h100_sxm", "H100 SXM5 80 GB", true, FlopPerSecond(989.4e12), "bf16"};
  report.mode = Mode::training;
  report.options = {{"batch", "4"}, {"seq", "1024"}};
  report.budget = milliseconds(9);
  report.coverage = {26, 25, 3};
  report.skipped = {{"Loop", 1}, {"NonZero", 2}};
  report.notes = {"dimension past_length assumed to be 0"};
  report.total = sample_range(8.1, 10, 12.4);
  report.flop = Flop(3.5e12);
  report.bytes = Bytes(2.1e10);
  report.parameters = 124439808;
  report.launches = 37;
  report.host = {Seconds(148e-6), Seconds(296e-6), Seconds(740e-6)};
  report.memory.weights = Bytes(0.25e9);
  report.memory.gradients = {Bytes(0.25e9), Bytes(0.5e9), Bytes(0.5e9)};
  report.memory.optimizer = {Bytes(0.5e9), Bytes(1.5e9), Bytes(1.5e9)};
  report.memory.activations = {Bytes(2e9), Bytes(3e9), Bytes(5e9)};
  report.memory.workspace = {Bytes(0.1e9), Bytes(0.2e9), Bytes(0.5e9)};
  report.memory.total = {Bytes(3.1e9), Bytes(5.45e9), Bytes(7.75e9)};
  report.memory.capacity = Bytes(85.9e9);
  report.memory.usable = Bytes(84.4e9);
  report.memory.verdict = "fits";
  report.memory.largest_batch = 102;
  report.bound_share = {0.7, 0.24, 0.06, 0};
  report.memory.largest_tight_batch = 114;
  report.tensor_core_share = 0.72;
  report.tensor_cores_wait_for = {0.2, 0.004};
  report.kinds = {{"gemm", 13, milliseconds(7.5), 0.75},
                  {"elementwise", 12, milliseconds(2.46), 0.246},
                  {"softmax", 2, milliseconds(0.03), 0.003},
                  {"other", 1, Seconds(0), 0}};
  report.findings = {sample_stride_finding(), sample_layer_finding(), sample_info_finding()};
  add_fingerprints(report.findings);
  report.rules = {
      {"gemm/unaligned-row-stride", "16-bit matrix rows are not 16-byte aligned",
       "\n## What it finds\nRows whose length is no multiple of **16 bytes**.\n", Level::warning},
      {"memory-bound/unfused-activation", "An activation runs as a kernel of its own",
       "\n## What it finds\nAn activation alone.\n", Level::advice},
      {"sizing/last-wave", "The last wave is nearly empty",
       "\n## What it finds\nA nearly empty wave.\n", Level::info}};
  report.ops = sample_rows();
  return report;
}

// A single operation with nothing to change, on a GPU the time model was not fitted on.
inline Report sample_clean_report() {
  Report report;
  report.inputs = {"-"};
  report.device = {"t4", "T4 16 GB", false, std::nullopt, ""};
  report.coverage = {1, 1, 0};
  report.total = sample_range(0.5, 1, 2);
  report.flop = Flop(2e9);
  report.kinds = {{"gemm", 1, milliseconds(1), 1}};
  return report;
}

// Names as a hostile file has them: terminal escapes, markup, quotes, bytes that are not UTF-8.
inline Report sample_hostile_report() {
  Report report = sample_clean_report();
  report.inputs = {"a b#\x1b[2J`|.onnx"};
  Finding finding = sample_stride_finding();
  finding.location = {"a b#\x1b[2J`|.onnx", 0, "\xff\xfe<script>|`\n## x", ""};
  finding.message =
      "<b>\x1b]0;title\x07 [x](y) \xc2\x9b"
      "31m";
  report.findings = {finding};
  add_fingerprints(report.findings);
  report.skipped = {{"Evil|\n- Op", 1}};
  return report;
}

// Nothing in it could be estimated.
inline Report sample_unknown_report() {
  Report report = sample_clean_report();
  report.coverage = {1, 0, 0};
  report.not_judged_because = "only 0 of 1 operations could be timed, at least 90 % are needed";
  report.total = {};
  report.flop = Flop(0);
  report.kinds = {{"other", 1, Seconds(0), 0}};
  report.ops = {sample_rows().back()};
  return report;
}

}  // namespace rooftile
