#include "rooftile/analysis/trace/training_patterns.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "rooftile/analysis/trace/launches.h"
#include "rooftile/analysis/trace/recomputed.h"
#include "rooftile/analysis/trace/seconds.h"
#include "rooftile/base/text.h"

namespace rooftile::trace {
namespace {

// By name of an operator: whether the test holds, so that each text is read once.
template <class Test>
std::vector<bool> names_that(const Timeline& timeline, Test test) {
  std::vector<bool> names(timeline.strings.size());
  for (std::uint32_t id = 0; id < names.size(); ++id) names[id] = test(timeline.strings[id]);
  return names;
}

bool is_convolution(std::string_view name) {
  return name.starts_with("aten::conv") && !contains(name, "backward");
}

bool is_convolution_backward(std::string_view name) {
  return contains(name, "convolution_backward");
}

bool is_batch_norm(std::string_view name) {
  return contains(name, "batch_norm") && !contains(name, "backward");
}

// Kernels of batch normalisation that compute statistics: cuDNN's and PyTorch's.
bool computes_statistics(std::string_view kernel) {
  return contains(kernel, "bn_fw_tr") || contains(kernel, "batch_norm_collect_statistics");
}

using Dims = std::vector<std::int64_t>;

class ConvBiasFinder {
 public:
  ConvBiasFinder(const HostView& view, const KernelNames& names)
      : timeline_(view.timeline),
        links_(view.links),
        view_(view),
        names_(names),
        convolutions_(names_that(view.timeline, is_convolution)),
        backwards_(names_that(view.timeline, is_convolution_backward)),
        norms_(names_that(view.timeline, is_batch_norm)) {}

  ConvBiasUse find();

 private:
  std::string_view name_of(std::uint32_t op) const {
    return timeline_.strings[timeline_.ops.name[op]];
  }
  // The outermost operator around it, itself included, that has one of the names.
  std::uint32_t outermost(std::uint32_t op, const std::vector<bool>& names) const {
    std::uint32_t found = kNone;
    for (; op != kNone; op = links_.op_parent[op]) {
      if (names[timeline_.ops.name[op]]) found = op;
    }
    return found;
  }
  const std::vector<Dims>& dims_of(std::uint32_t op) const {
    return timeline_.arguments[timeline_.ops.arguments[op]].dims;
  }
  bool has_channels(std::uint32_t norm, std::uint32_t convolution) const;
  bool counts_batches(const Launched& launched) const;
  void add_forward(const Launched& launched);
  void add_gradients();

  const Timeline& timeline_;
  const Links& links_;
  const HostView& view_;
  const KernelNames& names_;
  std::vector<bool> convolutions_, backwards_, norms_;  // by name
  std::vector<Launched> launched_;
  std::uint32_t convolution_ = kNone;  // the last one
  Nanoseconds adding_ = 0;             // its bias, up to the next kernel
  std::set<std::uint32_t> biased_;     // convolutions that a normalisation followed
  std::set<std::pair<Dims, Dims>> shapes_;
  Nanoseconds added_ = 0, gradient_ = 0;
};

bool ConvBiasFinder::has_channels(std::uint32_t norm, std::uint32_t convolution) const {
  const std::vector<Dims>&input = dims_of(norm), &operands = dims_of(convolution);
  if (input.empty() || operands.size() < 3) return !timeline_.has_shapes;
  return input.front().size() > 1 && operands[2].size() == 1 &&
         operands[2].front() == input.front()[1];
}

// num_batches_tracked.add_(1), which a module does before it normalises.
bool ConvBiasFinder::counts_batches(const Launched& launched) const {
  const std::uint32_t op = links_.gpu_op[launched.activity];
  const LaunchShape& shape = timeline_.launches[timeline_.gpu.details[launched.activity]];
  return op != kNone && name_of(op) == "aten::add_" &&
         shape.grid == std::array<std::uint32_t, 3>{1, 1, 1};
}

void ConvBiasFinder::add_forward(const Launched& launched) {
  const std::uint32_t op = links_.gpu_op[launched.activity];
  if (timeline_.gpu.kind[launched.activity] != GpuKind::kernel) return;
  const std::uint32_t convolution = outermost(op, convolutions_);
  if (convolution != kNone) {
    if (convolution != convolution_) adding_ = 0;
    convolution_ = convolution;
    const bool adds = name_of(op) == "aten::add_" &&
                      names_.facts(launched.activity).kernel_class == KernelClass::elementwise;
    if (adds) adding_ += timeline_.gpu.time.duration(launched.activity);
    return;
  }
  if (counts_batches(launched)) return;
  const std::uint32_t norm = outermost(op, norms_);
  const std::string_view kernel = timeline_.strings[timeline_.gpu.name[launched.activity]];
  if (norm != kNone && adding_ > 0 && computes_statistics(kernel) &&
      has_channels(norm, convolution_)) {
    biased_.insert(convolution_);
    added_ += adding_;
    const std::vector<Dims>& operands = dims_of(convolution_);
    if (operands.size() > 1) shapes_.emplace(operands[0], operands[1]);
  }
  adding_ = 0;
}

// convolution_backward(gradient, input, weight, …) sums the gradient for the bias.
void ConvBiasFinder::add_gradients() {
  const ForwardOps forward_ops(timeline_, links_);
  for (const Launched& launched : launched_) {
    const std::uint32_t op = links_.gpu_op[launched.activity];
    const std::uint32_t backward = outermost(op, backwards_);
    if (backward == kNone || timeline_.gpu.kind[launched.activity] != GpuKind::kernel) continue;
    if (names_.facts(launched.activity).kernel_class != KernelClass::reduction) continue;
    const std::uint32_t forward = forward_ops.of(op);
    const std::vector<Dims>& operands = dims_of(backward);
    const bool is_of_biased =
        forward != kNone ? biased_.contains(outermost(forward, convolutions_))
                         : operands.size() > 2 && shapes_.contains({operands[1], operands[2]});
    if (is_of_biased) gradient_ += timeline_.gpu.time.duration(launched.activity);
  }
}

ConvBiasUse ConvBiasFinder::find() {
  if (std::ranges::find(convolutions_, true) == convolutions_.end()) return {};
  launched_ = kernels_by_launch(timeline_, links_, view_.window);
  std::uint16_t thread = 0;
  for (const Launched& launched : launched_) {
    if (launched.thread != thread) adding_ = 0;
    thread = launched.thread;
    add_forward(launched);
  }
  ConvBiasUse use;
  if (biased_.empty()) return use;
  add_gradients();
  use.count = static_cast<std::int64_t>(biased_.size());
  use.added = to_seconds(added_);
  use.gradient = to_seconds(gradient_);
  const std::uint32_t first = *biased_.begin();
  const SiteQuery query{timeline_.ops.thread[first], timeline_.ops.time.start(first), first};
  use.site = site_of(view_, view_.sites.at({query}).front(), first);
  return use;
}

// Layers called as operator(input, weight, bias, …).
bool has_weight(std::string_view name) {
  return name == "aten::linear" || (is_convolution(name) && name != "aten::convolution");
}

// The cast's tensor is the layer's weight or bias, and not its input too.
bool casts_weight(const Timeline& timeline, std::uint32_t cast, std::uint32_t layer) {
  const OpArguments& from = timeline.arguments[timeline.ops.arguments[cast]];
  const OpArguments& operands = timeline.arguments[timeline.ops.arguments[layer]];
  if (from.dims.empty() || from.types.empty() || from.types.front() != "float") return false;
  if (operands.dims.size() < 2 || from.dims.front() == operands.dims.front()) return false;
  const bool is_bias = operands.dims.size() > 2 && from.dims.front() == operands.dims[2];
  return from.dims.front() == operands.dims[1] || is_bias;
}

}  // namespace

ConvBiasUse find_conv_bias(const HostView& view, const KernelNames& names) {
  return ConvBiasFinder(view, names).find();
}

namespace {

// By layer: when the last of its casts begins. Compiled by GCC, autocast goes through the arguments
// from the last to the first: the bias, the weight, the input.
std::map<std::uint32_t, Nanoseconds> last_casts(const HostView& view,
                                                const std::vector<bool>& layers,
                                                const std::vector<bool>& casts) {
  const HostOps& ops = view.timeline.ops;
  std::map<std::uint32_t, Nanoseconds> last;
  for (std::uint32_t op = 0; op < ops.time.size(); ++op) {
    const std::uint32_t layer = view.links.op_parent[op];
    if (!casts[ops.name[op]] || layer == kNone || !layers[ops.name[layer]]) continue;
    const auto [at, is_new] = last.try_emplace(layer, ops.time.start(op));
    if (!is_new) at->second = std::max(at->second, ops.time.start(op));
  }
  return last;
}

}  // namespace

WeightCasts find_weight_casts(const HostView& view) {
  const Timeline& timeline = view.timeline;
  const std::vector<bool> layers = names_that(timeline, has_weight);
  const std::vector<bool> casts =
      names_that(timeline, [](std::string_view name) { return name == "aten::to"; });
  const auto last_cast = timeline.has_shapes ? std::map<std::uint32_t, Nanoseconds>()
                                             : last_casts(view, layers, casts);
  WeightCasts found;
  std::uint32_t first = kNone;
  for (std::uint32_t i = 0; i < timeline.gpu.time.size(); ++i) {
    if (timeline.gpu.kind[i] != GpuKind::kernel ||
        !view.window.contains(timeline.gpu.time.start(i))) {
      continue;
    }
    std::uint32_t cast = view.links.gpu_op[i];
    while (cast != kNone && !casts[timeline.ops.name[cast]]) cast = view.links.op_parent[cast];
    if (cast == kNone) continue;
    const std::uint32_t layer = view.links.op_parent[cast];
    if (layer == kNone || !layers[timeline.ops.name[layer]]) continue;
    const bool is_weight = timeline.has_shapes
                               ? casts_weight(timeline, cast, layer)
                               : timeline.ops.time.start(cast) < last_cast.at(layer);
    if (!is_weight) continue;
    ++found.count;
    found.time += to_seconds(timeline.gpu.time.duration(i));
    found.host_time += to_seconds(timeline.ops.time.duration(cast));
    if (first == kNone) first = layer;
  }
  if (first == kNone) return found;
  const SiteQuery query{timeline.ops.thread[first], timeline.ops.time.start(first), first};
  found.site = site_of(view, view.sites.at({query}).front(), first);
  return found;
}

RecomputeUse find_recomputed(const HostView& view) {
  const Timeline& timeline = view.timeline;
  std::vector<std::uint32_t> kernels;
  Recomputed recomputed(timeline, view.links);
  for (std::uint32_t i = 0; i < timeline.gpu.time.size(); ++i) {
    if (timeline.gpu.kind[i] != GpuKind::kernel ||
        !view.window.contains(timeline.gpu.time.start(i))) {
      continue;
    }
    if (recomputed.add(view.links.gpu_op[i])) kernels.push_back(i);
  }
  RecomputeUse use;
  for (const std::uint32_t activity : kernels) {
    if (!recomputed.has(view.links.gpu_op[activity])) continue;
    ++use.kernels;
    use.time += to_seconds(timeline.gpu.time.duration(activity));
  }
  return use;
}

}  // namespace rooftile::trace
