#include "rooftile/readers/hf_config/feature_map.h"

#include <algorithm>
#include <numeric>

#include "rooftile/readers/hf_config/bounds.h"
#include "rooftile/readers/hf_config/build.h"

namespace rooftile::hf {

void MapEmitter::enter(const std::string& path, std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(std::max<std::int64_t>(1, count)));
  std::iota(indices.begin(), indices.end(), first);
  out_.enter(path + "." + layer_label(indices) + ".", path + "." + std::to_string(first) + ".",
             count, count);
}

void MapEmitter::leave() { out_.leave(); }

bool MapEmitter::fits(const std::string& name, const Map& map) {
  if (out_.error()) return false;
  const double size = static_cast<double>(batch_) * static_cast<double>(map.height) *
                      static_cast<double>(map.width) * static_cast<double>(map.channels);
  if (map.height >= 1 && map.width >= 1 && map.channels >= 1 && size <= kMaxTensor) return true;
  out_.fail_sizes(name, "a tensor would be empty, or have more than 1e16 elements");
  return false;
}

Map MapEmitter::conv(const std::string& name, const Map& in, const Filter& filter) {
  const auto after = [&](std::int64_t size) {
    if (filter.transposed) return (size - 1) * filter.stride + filter.kernel - 2 * filter.padding;
    return (size + 2 * filter.padding - filter.kernel) / filter.stride + 1;
  };
  const bool covers = filter.transposed || (in.height + 2 * filter.padding >= filter.kernel &&
                                            in.width + 2 * filter.padding >= filter.kernel);
  Map result{{}, filter.channels, covers ? after(in.height) : 0, covers ? after(in.width) : 0};
  if (!fits(name, in) || !fits(name, result)) return in;
  Convolution body;
  body.n = batch_;
  body.c = in.channels;
  body.k = filter.channels;
  body.input = {in.height, in.width};
  body.kernel = {filter.kernel, filter.kernel};
  body.stride = {filter.stride, filter.stride};
  body.pad_begin = body.pad_end = {filter.padding, filter.padding};
  body.groups = filter.groups;
  body.transposed = filter.transposed;
  body.bias = filter.bias;
  const double taps = static_cast<double>(filter.kernel) * static_cast<double>(filter.kernel);
  out_.add_parameters(
      static_cast<double>(filter.channels) *
      (taps * static_cast<double>(in.channels) / static_cast<double>(filter.groups) +
       (filter.bias ? 1.0 : 0.0)));
  result.value = out_.add(name, body, {in.value});
  return result;
}

Map MapEmitter::linear(const std::string& name, const Map& in, std::int64_t channels, bool bias) {
  Map result{{}, channels, in.height, in.width};
  if (!fits(name, in) || !fits(name, result)) return in;
  result.value = out_.linear(
      name, in.value,
      {.rows = batch_ * in.positions(), .in = in.channels, .out = channels, .bias = bias});
  return result;
}

Map MapEmitter::norm(const std::string& name, const Map& in, const Normalization& body,
                     bool weights) {
  if (weights) out_.add_parameters(2.0 * static_cast<double>(in.channels));
  Map result = in;
  result.value = out_.add(name, body, {in.value});
  return result;
}

Map MapEmitter::batch_norm(const std::string& name, const Map& in, bool weights) {
  if (!fits(name, in)) return in;
  return norm(name, in, {NormKind::batch, batch_ * in.positions(), in.channels}, weights);
}

Map MapEmitter::layer_norm(const std::string& name, const Map& in, bool weights) {
  if (!fits(name, in)) return in;
  return norm(name, in, {NormKind::layer, batch_ * in.positions(), in.channels}, weights);
}

Map MapEmitter::head_norm(const std::string& name, const Map& in, std::int64_t heads) {
  if (!fits(name, in)) return in;
  const std::int64_t of_head = std::max<std::int64_t>(1, in.channels / heads);
  out_.add_parameters(static_cast<double>(of_head));
  return norm(name, in, {NormKind::rms, batch_ * in.positions() * heads, of_head}, false);
}

Map MapEmitter::group_norm(const std::string& name, const Map& in, std::int64_t groups) {
  if (!fits(name, in)) return in;
  const std::int64_t of_group = std::max<std::int64_t>(1, in.channels / groups);
  return norm(name, in, {NormKind::group, batch_ * groups, of_group * in.positions()}, true);
}

Map MapEmitter::activation(const std::string& name, const Map& in, const std::string& fn) {
  if (!fits(name, in)) return in;
  Map result = in;
  result.value = out_.pointwise(name, fn, {in.value}, elements(in));
  return result;
}

Map MapEmitter::add(const std::string& name, const Map& a, const Map& b) {
  if (!fits(name, a)) return a;
  Map result = a;
  result.value = out_.pointwise(name, "add", {a.value, b.value}, elements(a));
  return result;
}

Map MapEmitter::multiply(const std::string& name, const Map& a, const Map& b) {
  if (!fits(name, a)) return a;
  Map result = a;
  result.value = out_.pointwise(name, "mul", {a.value, b.value}, elements(a));
  return result;
}

Map MapEmitter::enlarge(const std::string& name, const Map& in) {
  return resize(name, in, 2 * in.height, 2 * in.width);
}

Map MapEmitter::resize(const std::string& name, const Map& in, std::int64_t height,
                       std::int64_t width) {
  Map result{{}, in.channels, height, width};
  if (!fits(name, result)) return in;
  result.value = out_.pointwise(name, "upsample", {in.value}, elements(result));
  return result;
}

Map MapEmitter::max_pool(const std::string& name, const Map& in, std::int64_t kernel,
                         std::int64_t stride, std::int64_t padding) {
  const auto after = [&](std::int64_t size) { return (size + 2 * padding - kernel) / stride + 1; };
  Map result{{}, in.channels, after(in.height), after(in.width)};
  if (!fits(name, in) || !fits(name, result)) return in;
  Pooling body;
  body.n = batch_;
  body.c = in.channels;
  body.input = {in.height, in.width};
  body.output = {result.height, result.width};
  body.kernel = {kernel, kernel};
  result.value = out_.add(name, body, {in.value});
  return result;
}

Map MapEmitter::average_pool(const std::string& name, const Map& in, std::int64_t side) {
  Map result{{}, in.channels, (in.height + side - 1) / side, (in.width + side - 1) / side};
  if (!fits(name, in) || !fits(name, result)) return in;
  Pooling body;
  body.fn = PoolKind::average;
  body.n = batch_;
  body.c = in.channels;
  body.input = {in.height, in.width};
  body.output = {result.height, result.width};
  body.kernel = {side, side};
  result.value = out_.add(name, body, {in.value});
  return result;
}

Map MapEmitter::mean(const std::string& name, const Map& in) {
  if (!fits(name, in)) return in;
  Map result{{}, in.channels, 1, 1};
  result.value = out_.add(name, Reduction{"mean", elements(in), batch_ * in.channels}, {in.value});
  return result;
}

Map MapEmitter::concatenate(const Map& a, const Map& b) const {
  Map result = a;
  result.channels = a.channels + b.channels;
  return result;
}

Map MapEmitter::attention(const std::string& name, const Map& q, const Map& k, const Map& v,
                          const Heads& heads) {
  if (!fits(name, q) || !fits(name, k)) return q;
  Attention body;
  body.batch = batch_ * heads.windows;
  body.heads = body.kv_heads = heads.count;
  body.query_len = std::max<std::int64_t>(1, q.positions() / heads.windows);
  body.kv_len = std::max<std::int64_t>(1, k.positions() / heads.windows);
  body.head_dim = body.value_dim = std::max<std::int64_t>(1, q.channels / heads.count);
  std::vector<Value> inputs{q.value, k.value};
  if (v.value != k.value) inputs.push_back(v.value);
  Map result = q;
  result.value = out_.add(name, body, std::move(inputs));
  return result;
}

}  // namespace rooftile::hf
