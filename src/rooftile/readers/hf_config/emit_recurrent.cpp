// Linear attention and state space blocks: their projections and short convolutions are exact; the
// scan itself counts its memory traffic only.
#include <algorithm>

#include "rooftile/readers/hf_config/cache.h"
#include "rooftile/readers/hf_config/emit_mixers.h"

namespace rooftile::hf {
namespace {

// An operation of which the memory traffic is known.
Value traffic(Emitter& out, const std::string& module, std::string fn, std::vector<Value> inputs,
              double bytes) {
  // Sizes beyond what an operation can hold are refused when it is added.
  constexpr double kTooLarge = 9e18;
  return out.add(module,
                 Other{std::move(fn), 0, static_cast<std::int64_t>(std::min(bytes, kTooLarge))},
                 std::move(inputs));
}

// A causal depthwise convolution over time; when decoding it reads and writes its last inputs.
Value causal_depthwise(Emitter& out, const std::string& module, const Shape& shape,
                       const Value& input, std::int64_t channels, std::int64_t kernel, bool bias) {
  out.add_parameters(static_cast<double>(channels) *
                     (static_cast<double>(kernel) + (bias ? 1.0 : 0.0)));
  if (shape.decodes()) {
    const double elements = static_cast<double>(shape.rows()) * static_cast<double>(channels);
    return traffic(out, module, "conv1d_update", {input},
                   elements * 2 * static_cast<double>(kernel) * size_in_bytes(out.dtype()));
  }
  Convolution conv;
  conv.n = shape.batch;
  conv.c = conv.k = conv.groups = channels;
  conv.input = {shape.length};
  conv.kernel = {kernel};
  conv.pad_begin = {kernel - 1};
  conv.pad_end = {0};
  conv.bias = bias;
  return out.add(module, conv, {input});
}

Value short_convolution(Emitter& out, const std::string& module, const Shape& shape,
                        const Value& input, std::int64_t channels, std::int64_t kernel, bool bias) {
  const Value convolved = causal_depthwise(out, module, shape, input, channels, kernel, bias);
  if (shape.decodes()) return convolved;  // the activation is part of the kernel
  return out.pointwise(module + "_activation", "silu", {convolved}, shape.rows() * channels);
}

// The recurrence over time: its inputs and outputs, and when decoding its state, which is read and
// written.
Value scan(Emitter& out, const std::string& module, std::string fn, std::vector<Value> inputs,
           std::int64_t read_and_written, const Shape& shape, const RecurrentState& state) {
  double bytes = static_cast<double>(read_and_written) * size_in_bytes(out.dtype());
  if (shape.decodes()) {
    bytes += 2 * static_cast<double>(shape.batch) * state.state * size_in_bytes(kStateDtype);
  }
  return traffic(out, module, std::move(fn), std::move(inputs), bytes);
}

struct DeltaInputs {
  Value mixed, gate, rates;
};

DeltaInputs project_delta(Emitter& out, const DeltaNet& net, const Shape& shape,
                          const Value& input) {
  const std::int64_t keys = net.key_heads * net.key_dim, values = net.value_heads * net.value_dim;
  const auto one = [&](const char* name, std::int64_t width, bool quantized) {
    return out.linear(
        net.module + "." + name, input,
        {.rows = shape.rows(), .in = shape.hidden, .out = width, .usually_quantized = quantized});
  };
  if (!net.split_projections) {
    const Value mixed = one("in_proj_qkvz", 2 * keys + 2 * values, true);
    return {mixed, mixed, one("in_proj_ba", 2 * net.value_heads, false)};
  }
  const Value mixed = one("in_proj_qkv", 2 * keys + values, true);
  const Value gate = one("in_proj_z", values, true);
  one("in_proj_b", net.value_heads, false);
  return {mixed, gate, one("in_proj_a", net.value_heads, false)};
}

}  // namespace

Value emit_delta_net(Emitter& out, const DeltaNet& net, const Shape& shape, const Value& input) {
  const std::int64_t rows = shape.rows();
  const std::int64_t keys = net.key_heads * net.key_dim, values = net.value_heads * net.value_dim;
  const std::int64_t channels = 2 * keys + values;
  const DeltaInputs projected = project_delta(out, net, shape, input);
  const Value mixed = short_convolution(out, net.module + ".conv1d", shape, projected.mixed,
                                        channels, net.conv_kernel, false);
  out.add_parameters(2.0 * static_cast<double>(net.value_heads));  // A_log, dt_bias
  const Value scanned =
      scan(out, net.module + ".gated_delta_rule", "gated_delta_rule", {mixed, projected.rates},
           rows * (channels + 2 * net.value_heads + values), shape, state_of(net));
  const Value normed =
      out.norm(net.module + ".norm", scanned, kRmsNorm, rows * net.value_heads, net.value_dim);
  const Value gated =
      out.pointwise(net.module + ".gate", "silu_mul", {normed, projected.gate}, rows * values);
  return out.linear(net.module + ".out_proj", gated,
                    {.rows = rows, .in = values, .out = shape.hidden});
}

Value emit_mamba(Emitter& out, const Mamba2& mamba, const Shape& shape, const Value& input) {
  const std::int64_t rows = shape.rows(), inner = mamba.heads * mamba.head_dim;
  const std::int64_t channels = inner + 2 * mamba.groups * mamba.state;
  const Value projected = out.linear(mamba.module + ".in_proj", input,
                                     {.rows = rows,
                                      .in = shape.hidden,
                                      .out = inner + channels + mamba.heads,
                                      .bias = mamba.projection_bias});
  const Value mixed = short_convolution(out, mamba.module + ".conv1d", shape, projected, channels,
                                        mamba.conv_kernel, mamba.conv_bias);
  out.add_parameters(3.0 * static_cast<double>(mamba.heads));  // A_log, D, dt_bias
  const Value scanned = scan(out, mamba.module + ".ssm_scan", "ssm_scan", {mixed, projected},
                             rows * (channels + mamba.heads + inner), shape, state_of(mamba));
  const Value gated =
      out.pointwise(mamba.module + ".gate", "silu_mul", {scanned, projected}, rows * inner);
  const Value normed =
      out.norm(mamba.module + ".norm", gated, mamba.gated_norm ? kRmsNorm : kNoNorm, rows, inner);
  return out.linear(
      mamba.module + ".out_proj", normed,
      {.rows = rows, .in = inner, .out = shape.hidden, .bias = mamba.projection_bias});
}

Value emit_mamba1(Emitter& out, const Mamba1& mamba, const Shape& shape, const Value& input) {
  const std::int64_t rows = shape.rows(), inner = mamba.inner;
  const auto name = [&](const char* part) { return mamba.module + "." + part; };
  const Value projected = out.linear(
      name("in_proj"), input,
      {.rows = rows, .in = shape.hidden, .out = 2 * inner, .bias = mamba.projection_bias});
  const Value mixed = short_convolution(out, name("conv1d"), shape, projected, inner,
                                        mamba.conv_kernel, mamba.conv_bias);
  Value selected = out.linear(name("x_proj"), mixed,
                              {.rows = rows, .in = inner, .out = mamba.rank + 2 * mamba.state});
  if (mamba.inner_norm.present) {
    const Value steps =
        out.norm(name("dt_layernorm"), selected, mamba.inner_norm, rows, mamba.rank);
    out.norm(name("b_layernorm"), selected, mamba.inner_norm, rows, mamba.state);
    out.norm(name("c_layernorm"), selected, mamba.inner_norm, rows, mamba.state);
    selected = steps;
  }
  const Value steps = out.linear(name("dt_proj"), selected,
                                 {.rows = rows, .in = mamba.rank, .out = inner, .bias = true});
  out.add_parameters(static_cast<double>(inner) *
                     (static_cast<double>(mamba.state) + 1.0));  // A_log, D
  const Value scanned = scan(out, name("ssm_scan"), "ssm_scan", {mixed, steps, selected},
                             rows * (3 * inner + 2 * mamba.state), shape, state_of(mamba));
  const Value gated = out.pointwise(name("gate"), "silu_mul", {scanned, projected}, rows * inner);
  return out.linear(
      name("out_proj"), gated,
      {.rows = rows, .in = inner, .out = shape.hidden, .bias = mamba.projection_bias});
}

Value emit_lightning_attention(Emitter& out, const LightningAttention& attention,
                               const Shape& shape, const Value& input) {
  const std::int64_t rows = shape.rows(), width = attention.heads * attention.head_dim;
  const auto name = [&](const char* part) { return attention.module + "." + part; };
  const Value qkv =
      out.linear(name("qkv_proj"), input, {.rows = rows, .in = shape.hidden, .out = 3 * width});
  const Value active = out.pointwise(name("activation"), "silu", {qkv}, rows * 3 * width);
  const Value scanned = scan(out, name("lightning_attention"), "lightning_attention", {active},
                             rows * 4 * width, shape, state_of(attention));
  const Value normed = out.norm(name("norm"), scanned, kRmsNorm, rows, width);
  const Value gate =
      out.linear(name("output_gate"), input, {.rows = rows, .in = shape.hidden, .out = width});
  const Value gated = out.pointwise(name("gate"), "sigmoid_mul", {normed, gate}, rows * width);
  return out.linear(name("out_proj"), gated, {.rows = rows, .in = width, .out = shape.hidden});
}

Value emit_short_convolution(Emitter& out, const ShortConvolution& conv, const Shape& shape,
                             const Value& input) {
  const std::int64_t rows = shape.rows(), hidden = shape.hidden;
  const Value projected =
      out.linear(conv.module + ".in_proj", input,
                 {.rows = rows, .in = hidden, .out = 3 * hidden, .bias = conv.bias});
  const Value gated =
      out.pointwise(conv.module + ".input_gate", "mul", {projected, projected}, rows * hidden);
  const Value convolved =
      causal_depthwise(out, conv.module + ".conv", shape, gated, hidden, conv.kernel, conv.bias);
  const Value product =
      out.pointwise(conv.module + ".output_gate", "mul", {convolved, projected}, rows * hidden);
  return out.linear(conv.module + ".out_proj", product,
                    {.rows = rows, .in = hidden, .out = hidden, .bias = conv.bias});
}

Value emit_linear_block(Emitter& out, const LinearBlock& block, const Shape& shape,
                        const Value& input) {
  return out.linear(block.module, input,
                    {.rows = shape.rows(), .in = shape.hidden, .out = shape.hidden});
}

}  // namespace rooftile::hf
