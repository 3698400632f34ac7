// The first layer: three image channels leave most of each 16-byte load empty.
#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/convolution.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/replacement.h"

namespace rooftile {

// channels_in_source.cpp
std::vector<Finding> few_input_channels_in_source(const source::SourceFacts& facts);

namespace conv_few_input_channels_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A 2-D or 3-D convolution on Tensor Cores that reads two or three channels, such as the RGB image of a
first layer.

In training scripts: the first 2-D convolution of a class with 2 or 3 input channels; information, hidden
unless asked for.

## Why it costs time
Tensor Core kernels load 16 bytes of channels at a time: 8 in fp16 and bf16, 4 in TF32. Three channels
fill no such group, so cuDNN takes a slower kernel or pads the image itself in every step.

## How to fix
Pad the image with zero channels: to 4 when the layer has stride 2, which has special kernels, else
to a whole 16-byte group. Do it where the image is made, so that the data pipeline emits RGBX; a pad
operation in every step costs a copy. Pad the weights with zeros.

A layer whose stride is its kernel, as the patch embedding of a vision transformer, needs no padding: it
is a Linear layer over patches. Reshape the image into rows of channels x height x width of a patch (3 x
16 x 16 = 768) and multiply them with the same weights. Where that product is no multiple of 16 bytes, as
3 x 14 x 14, pad it.

## How the saving is estimated
The time model runs on the layer with the padded channel count, in every phase the workload has. The
added multiplications are part of it: 4 channels for 3 are a third more. The gradient of the network's
input is not computed, so it does not count. With no gain expected nothing is reported. Of patches, the
Linear layer and a copy of the image.

## When not to
- The gain is limited to this one layer. Below one per cent of the time it is not reported.
- One channel, such as a raw waveform, a spectrogram or a grey image: padding multiplies the work by 4
  or 8, and 1-D convolutions have no kernels for 4 channels. Not reported.
- With stride 1 nobody promises a fast kernel for 4 channels, and 8 channels multiply the work.
- Recent cuDNN versions may pad inside the kernel. Measure before you change a data pipeline.
- Depthwise layers and Tensor Cores do not meet; fp32 without TF32 has nothing to gain either.

## Evidence
- NVIDIA, Convolutional Layers User's Guide, "Channels In and Out": for a first layer with three
  channels, pad to 4; 4 channels with stride 2 have special kernels.
- PyTorch issue 54404: the fp16 backward pass of a 3-channel, stride-1 first layer on A100 is far
  slower than fp32.
)md";

constexpr std::int64_t kFewest = 2, kMost = 3;

// 4 where the specialised stride-2 kernels take it, else whole 16-byte groups.
std::int64_t padded_channels(const Convolution& conv, Dtype math) {
  const bool has_special_kernel =
      !conv.stride.empty() && std::all_of(conv.stride.begin(), conv.stride.end(),
                                          [](std::int64_t size) { return size == 2; });
  return has_special_kernel ? 4 : alignment_elements(math);
}

// No pixel is in two patches, and none is left out between them.
bool cuts_patches(const Convolution& conv) {
  const auto is = [](std::int64_t expected) {
    return [expected](std::int64_t size) { return size == expected; };
  };
  return !is_pointwise(conv) && conv.stride == conv.kernel &&
         std::ranges::all_of(conv.dilation, is(1)) && std::ranges::all_of(conv.pad_begin, is(0)) &&
         std::ranges::all_of(conv.pad_end, is(0));
}

// The patches as rows, each as long as whole 16-byte groups.
Op as_linear(const Op& op, Dtype math) {
  const auto& conv = std::get<Convolution>(op.body);
  Gemm gemm;
  gemm.m = conv.n;
  for (const std::int64_t extent : output_extents(conv)) gemm.m *= extent;
  gemm.n = conv.k;
  gemm.k = conv.c;
  for (const std::int64_t size : conv.kernel) gemm.k *= size;
  gemm.k = round_up(gemm.k, alignment_elements(math));
  gemm.bias = conv.bias;
  Op linear = op;
  linear.body = gemm;
  return linear;
}

bool is_candidate(const RuleInput& input, const LayerGroup& layer) {
  const auto& conv = std::get<Convolution>(input.workload.ops[layer.ops.front()].body);
  return conv.groups == 1 && conv.c >= kFewest && conv.c <= kMost && conv.input.size() >= 2 &&
         !conv.transposed && matters(layer) &&
         on_tensor_cores(input.analysis.ops[layer.ops.front()], input.device());
}

Finding few_channels_at(const RuleInput& input, const LayerGroup& layer, const Convolution& padded,
                        const Range<Seconds>& saving) {
  const Op& op = input.workload.ops[layer.ops.front()];
  const auto& conv = std::get<Convolution>(op.body);
  const Dtype math = input.analysis.ops[layer.ops.front()].products.front().math;
  Op changed = op;
  changed.body = padded;
  Finding finding = finding_at_groups(
      input, {layer},
      fmt::format("{} input channels fill {} of the 16 bytes that a {} Tensor Core kernel loads.",
                  conv.c, static_cast<double>(conv.c) * size_in_bytes(math), to_string(math)),
      {fmt::format("Let the data pipeline emit {} channels, the last {} zero, and pad the weights "
                   "with zeros (+{:.0f} parameters, {} nominal work).",
                   padded.c, padded.c - conv.c, count_parameters(changed) - count_parameters(op),
                   change_text(static_cast<double>(padded.c) / static_cast<double>(conv.c) - 1)),
       Exactness::exact_arithmetic},
      saving);
  finding.evidence = {
      padded.c == 4
          ? Evidence::published("4 channels suffice where the stride is 2",
                                "NVIDIA Convolutional Layers User's Guide, \"Channels In and Out\"")
          : Evidence::published("Whole 16-byte groups of channels",
                                "NVIDIA Convolutional Layers User's Guide, checklist")};
  return finding;
}

// The image is written once as patches, in the forward pass.
std::optional<Range<Seconds>> saving_of_linear(const RuleInput& input, const LayerGroup& layer,
                                               Dtype math) {
  const auto saving =
      saving_if_all(input, layer, [&](const Op& op) { return as_linear(op, math); });
  const Op& op = input.workload.ops[layer.ops.front()];
  const auto& conv = std::get<Convolution>(op.body);
  Op copy = op;
  copy.phase = Phase::forward;
  LayoutConversion patches;
  patches.elements = conv.n * conv.c;
  for (const std::int64_t size : conv.input) patches.elements *= size;
  copy.body = patches;
  const auto time = input.model.estimate(copy);
  if (!saving || !time) return std::nullopt;
  const double runs = to_double(op.count);
  return Range<Seconds>{saving->low - time->time.high * runs,
                        saving->expected - time->time.expected * runs,
                        saving->high - time->time.low * runs};
}

std::optional<Finding> patches_at(const RuleInput& input, const LayerGroup& layer) {
  const Op& op = input.workload.ops[layer.ops.front()];
  const auto& conv = std::get<Convolution>(op.body);
  const Dtype math = input.analysis.ops[layer.ops.front()].products.front().math;
  const auto saving = saving_of_linear(input, layer, math);
  if (!is_gain(input, saving)) return std::nullopt;
  const std::int64_t inputs = std::get<Gemm>(as_linear(op, math).body).k;
  std::int64_t pixels = conv.c;
  for (const std::int64_t size : conv.kernel) pixels *= size;
  Finding finding = finding_at_groups(
      input, {layer},
      fmt::format(
          "{} input channels fill {} of the 16 bytes that a {} Tensor Core kernel loads; "
          "stride and kernel are equal, so the layer is a product over patches of {} values",
          conv.c, static_cast<double>(conv.c) * size_in_bytes(math), to_string(math), pixels),
      {fmt::format("Reshape the image into its patches and use a Linear layer of {} inputs{} with "
                   "the same weights",
                   inputs, inputs > pixels ? ", the last ones zero," : ""),
       Exactness::exact_arithmetic},
      saving);
  finding.evidence = {Evidence::published(
      "a convolution without overlap is one product: a linear projection of flattened "
      "patches",
      "Dosovitskiy et al., An Image is Worth 16x16 Words, 2021")};
  return finding;
}

std::vector<Finding> check_operations(const RuleInput& input) {
  std::vector<Finding> findings;
  for (const LayerGroup& layer :
       group_equal_layers(input.workload, input.analysis, is_convolution)) {
    if (!is_candidate(input, layer)) continue;
    const std::size_t first = layer.ops.front();
    if (cuts_patches(std::get<Convolution>(input.workload.ops[first].body))) {
      if (auto finding = patches_at(input, layer)) findings.push_back(std::move(*finding));
      continue;
    }
    Convolution padded = std::get<Convolution>(input.workload.ops[first].body);
    padded.c = padded_channels(padded, input.analysis.ops[first].products.front().math);
    const auto change = [&](Op op) {
      op.body = padded;
      return op;
    };
    const auto saving = saving_if_all(input, layer, change);
    if (!is_gain(input, saving)) continue;
    findings.push_back(few_channels_at(input, layer, padded, *saving));
    note_changes(input, layer, change, findings.back());
  }
  return findings;
}

}  // namespace conv_few_input_channels_rule

extern const Rule conv_few_input_channels{.id = "conv/few-input-channels",
                                          .level = Level::advice,
                                          .level_in_scripts = Level::info,
                                          .cause = Cause::alignment,
                                          .summary = "First layer reads three channels",
                                          .doc = conv_few_input_channels_rule::kDoc,
                                          .in_ops = conv_few_input_channels_rule::check_operations,
                                          .in_scripts = few_input_channels_in_source};

}  // namespace rooftile
