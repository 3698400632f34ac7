// A convolutional network in NCHW on a GPU whose Tensor Core kernels want NHWC.
#include <fmt/format.h>

#include "rooftile/analysis/conv_layout.h"
#include "rooftile/analysis/convolution.h"
#include "rooftile/analysis/time/math_unit.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/replacement.h"
#include "rooftile/rules/thresholds.h"

namespace rooftile {

// nchw_on_tensor_cores_in_source.cpp
std::vector<Finding> programs_without_channels_last(const source::SourceFacts& facts);

namespace conv_nchw_on_tensor_cores_in_trace {
std::vector<Finding> check(const RuleInput& input);
}

namespace conv_nchw_on_tensor_cores_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A convolutional network, whose 2-D or 3-D convolutions take more time than its other matrix products,
that runs them on Tensor Cores (fp16, bf16, TF32, int8; fp32 convolutions run in TF32 by default on Ampere
and newer) and keeps its tensors in NCHW order. One finding for the network. An ONNX file cannot state the memory format: where PyTorch wrote
it, the finding holds unless the model is channels_last already; for graphs of other producers, whose
runtimes choose the layout, it is information.

In a trace: kernels that only change the order of tensors between NCHW and NHWC inside convolutions, when
they take a visible share of the step.

In training scripts: a program that trains a convolutional network on a GPU under autocast, on by
default, without `channels_last` anywhere. One finding per program, at the forward call.

## Why it costs time
The Tensor Core kernels of cuDNN read channels as the innermost dimension (NHWC). For NCHW tensors
cuDNN converts the input before and the output after the layer, or takes a slower kernel.

## How to fix
In PyTorch: `model = model.to(memory_format=torch.channels_last)` once, and the same for the input of
every step (`channels_last_3d` for 3-D). Shapes and code stay the same, only strides change.

## How the saving is estimated
The time model runs on the convolutions in NHWC. For NCHW it adds a kernel that converts the input and
one that converts the output of each layer on Tensor Cores. It is reported only where the published
heuristic of PyTorch Inductor would choose channels_last too; that is fitted to measured ratios per kind
of convolution.

In a trace. High: all time of the conversions. Low: half of it, since conversions at the borders of the network
and around layers without such kernels stay. What other kernels or the host hide is taken off.

## When not to
- On GPUs before Ampere fp32 does not use Tensor Cores, and channels_last got slower: 1.68 s became
  2.76 s on a V100. Not reported there.
- Grouped convolutions with several channels a group can get much slower; see
  `conv/grouped-channels-last`. Training with one of them is not reported.
- Training with a layer that halves its channels (kernel above 1x1), as the decoder of a U-Net has, is
  not reported either: Inductor's authors measured pytorch_unet and CycleGAN slower in channels_last
  and Background_Matting 1.5 times as slow, whatever a count of conversions promises. Nor are networks
  of at most 64 channels, in training.
- `torch.compile` already chooses channels_last for convolutions when its heuristic agrees.
- An ONNX file always says NCHW, also when the model was exported in channels_last. TensorRT and ONNX
  Runtime choose their own layout; the advice is for the PyTorch model behind it.
- Operations without channels_last support convert back. Look for `view` and `reshape` that assume
  NCHW, and convert with `.to`, not `.contiguous`, where C, or H and W, are 1.
- 1-D convolutions have no such memory format.
- Recordings: not reported where convolutions take less than a twentieth, or run on CUDA cores, which
  channels_last makes slower.
- Scripts: not reported with an option for it, `torch.compile`, grouped convolutions or transformers.

## Evidence
- PyTorch tutorial "Channels Last Memory Format": ResNet-50 with mixed precision on V100 goes from 773
  to 1011 images a second; 28 torchvision networks gain 8 to 35 per cent.
- PyTorch issue 81940: layout conversion kernels take 32 per cent of the GPU time of a TF32 network.
- PyTorch issue 44943: fp32 on V100 gets slower.
- PyTorch Inductor, torch/_inductor/graph.py, `decide_layout_opt`: the heuristic.
)md";

constexpr double kMinShare = threshold::kWorthADay;
constexpr double kShareOfProducts = threshold::kMost;

bool is_nchw_on_tensor_cores(const RuleInput& input, std::size_t op) {
  const auto* conv = std::get_if<Convolution>(&input.workload.ops[op].body);
  if (conv == nullptr || conv->layout != TensorLayout::nchw || conv->input.size() < 2) return false;
  const std::vector<MatrixProduct>& products = input.analysis.ops[op].products;
  return !products.empty() &&
         input.device().has_tensor_cores(cudnn_math(input.device(), products.front().math));
}

// Normalisations and activations between the layers run in any order, and do not say what kind of
// network it is.
bool is_convolutional(const RuleInput& input) {
  const LayerGroup products =
      select(input, [&](std::size_t op) { return !input.analysis.ops[op].products.empty(); });
  const LayerGroup convs = select(input, [&](std::size_t op) {
    const auto* conv = std::get_if<Convolution>(&input.workload.ops[op].body);
    return conv != nullptr && conv->input.size() >= 2;
  });
  return convs.time_share > products.time_share * kShareOfProducts;
}

Op in_nhwc(Op op) {
  std::get<Convolution>(op.body).layout = TensorLayout::nhwc;
  return op;
}

std::optional<Range<Seconds>> layout_saving(const RuleInput& input) {
  Range<Seconds> sum{};
  for (const LayerGroup& layer :
       group_equal_layers(input.workload, input.analysis, is_convolution)) {
    if (!is_nchw_on_tensor_cores(input, layer.ops.front())) continue;
    const auto saving = saving_if_all(input, layer, in_nhwc);
    if (!saving) return std::nullopt;
    sum += *saving;
  }
  return sum;
}

std::string message_for(const RuleInput& input, const LayerGroup& convs) {
  return fmt::format(
      "Convolutions take {} of the time and read NCHW tensors{}, which Tensor "
      "Core kernels convert or read slowly.",
      share_text(convs.time_share),
      input.workload.layouts_known()
          ? ""
          : ", if the model is not channels_last already (an ONNX file cannot say)");
}

Fix fix_for(const RuleInput& input, const LayerGroup& convs) {
  const auto& first = std::get<Convolution>(input.workload.ops[convs.ops.front()].body);
  return {
      fmt::format("{} model and input to torch.{} (strides change, shapes do not); a "
                  "compiler or TensorRT may already do it.",
                  input.workload.layouts_known() ? "Convert"
                                                 : "Unless it is channels_last already, convert",
                  first.input.size() > 2 ? "channels_last_3d" : "channels_last"),
      Exactness::exact_arithmetic};
}

std::vector<Finding> check_operations(const RuleInput& input) {
  // A trace shows what conversions cost.
  if (!input.workload.traces.empty()) return {};
  const LayerGroup convs =
      select(input, [&](std::size_t op) { return is_nchw_on_tensor_cores(input, op); });
  if (convs.time_share < kMinShare || !is_convolutional(input) ||
      !channels_last_pays(input.workload)) {
    return {};
  }
  Finding finding = finding_at_groups(input, {convs}, message_for(input, convs),
                                      fix_for(input, convs), layout_saving(input));
  finding.evidence = {
      Evidence::published("28 torchvision networks with mixed precision gain 8 to 35 %",
                          "PyTorch tutorial, Channels Last Memory Format"),
      Evidence::published("channels_last is what PyTorch Inductor would choose for this network",
                          "torch/_inductor/graph.py, decide_layout_opt")};
  // The model may be channels_last already: then nothing is saved. Other runtimes than PyTorch
  // choose the layout themselves.
  if (!input.workload.layouts_known() && finding.saving) finding.saving->low = Seconds(0.0);
  if (input.workload.graph == GraphKind::runtime) finding.own_level = Level::info;
  note_changes(input, convs, in_nhwc, finding);
  return {finding};
}

}  // namespace conv_nchw_on_tensor_cores_rule

extern const Rule conv_nchw_on_tensor_cores{
    .id = "conv/nchw-on-tensor-cores",
    .former_id = "conv/converted-layouts",
    .level = Level::advice,
    .level_in_traces = Level::warning,
    .cause = Cause::layout,
    .typical = Typical::tenth,
    .summary = "Convolutional network keeps its tensors in NCHW order",
    .doc = conv_nchw_on_tensor_cores_rule::kDoc,
    .in_ops = conv_nchw_on_tensor_cores_rule::check_operations,
    .in_traces = conv_nchw_on_tensor_cores_in_trace::check,
    .in_scripts = programs_without_channels_last,
    .costs_elsewhere = true};

}  // namespace rooftile
