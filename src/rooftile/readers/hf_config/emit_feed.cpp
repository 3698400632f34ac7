// Feed-forward blocks: dense, gated, mixtures of experts.
#include <algorithm>
#include <cmath>

#include "rooftile/readers/hf_config/emit_layer.h"

namespace rooftile::hf {
namespace {

// How `total` rows of an MLP are cut into products: `batch` of `rows` each, with `stored` weights.
struct Split {
  std::int64_t total = 0, rows = 0, batch = 1, stored = 1;
};

Split undivided(std::int64_t rows) { return {rows, rows}; }

Value emit_mlp(Emitter& out, const Mlp& mlp, const Split& split, std::int64_t hidden,
               const Value& input) {
  const auto one = [&](const std::string& name, const Value& from, std::int64_t in,
                       std::int64_t width, bool bias) {
    return out.linear(mlp.module + "." + name, from,
                      {.rows = split.rows,
                       .in = in,
                       .out = width,
                       .bias = bias,
                       .layout = mlp.layout,
                       .batch = split.batch,
                       .stored = split.stored});
  };
  const std::int64_t elements = split.total * mlp.inner;
  Value gate, up;
  if (!mlp.fused.empty()) {
    gate = up = one(mlp.fused, input, hidden, (mlp.gated ? 2 : 1) * mlp.inner, mlp.up_bias);
  } else {
    if (mlp.gated) gate = one(mlp.gate, input, hidden, mlp.inner, mlp.up_bias);
    up = one(mlp.up, input, hidden, mlp.inner, mlp.up_bias);
  }
  Value active =
      out.pointwise(mlp.module + ".activation", mlp.activation, {mlp.gated ? gate : up}, elements);
  if (mlp.gated) active = out.pointwise(mlp.module + ".gate_mul", "mul", {active, up}, elements);
  return one(mlp.down, active, mlp.inner, hidden, mlp.down_bias);
}

// Experts that at least one row visits, each row choosing top_k of them by chance: with p = top_k /
// experts, experts · (1 - (1 - p)^rows).
std::int64_t expected_experts(std::int64_t rows, const MixtureOfExperts& moe) {
  const auto experts = static_cast<double>(moe.experts);
  const double missed =
      std::pow(1.0 - static_cast<double>(moe.top_k) / experts, static_cast<double>(rows));
  return std::max<std::int64_t>(1, std::llround(experts * (1.0 - missed)));
}

// Each of the experts that work gets the same number of rows, to the nearest.
Split split_among_experts(std::int64_t rows, const MixtureOfExperts& moe) {
  const std::int64_t visits = rows * moe.top_k, active = expected_experts(rows, moe);
  return {visits, std::max<std::int64_t>(1, (visits + active / 2) / active), active, moe.experts};
}

Value emit_router(Emitter& out, const MixtureOfExperts& moe, const Shape& shape,
                  const Value& input) {
  const std::int64_t rows = shape.rows();
  const std::string name = moe.module.empty() ? moe.router : moe.module + "." + moe.router;
  const Value logits = out.linear(name, input,
                                  {.rows = rows,
                                   .in = shape.hidden,
                                   .out = moe.experts,
                                   .bias = moe.router_bias,
                                   .usually_quantized = false});
  out.add_parameters(static_cast<double>(moe.router_extra_parameters));
  if (moe.sigmoid_scores) {
    return out.pointwise(name + "_scores", "sigmoid", {logits}, rows * moe.experts);
  }
  return out.add(name + "_scores", Softmax{rows, moe.experts}, {logits});
}

Value emit_routed(Emitter& out, const MixtureOfExperts& moe, const Shape& shape, const Value& input,
                  const Value& scores) {
  const std::int64_t rows = shape.rows();
  const std::int64_t width = moe.latent > 0 ? moe.latent : shape.hidden;
  Value expert_input = input;
  if (moe.latent > 0) {
    expert_input = out.linear(moe.module + ".fc1_latent_proj", input,
                              {.rows = rows, .in = shape.hidden, .out = width});
  }
  const Value expert_output =
      emit_mlp(out, moe.expert, split_among_experts(rows, moe), width, expert_input);
  const Value combined =
      out.add(moe.expert.module + ".combine", Elementwise{"weighted_sum", rows * width, moe.top_k},
              {expert_output, scores});
  if (moe.latent == 0) return combined;
  return out.linear(moe.module + ".fc2_latent_proj", combined,
                    {.rows = rows, .in = width, .out = shape.hidden});
}

Value add_shared_expert(Emitter& out, const MixtureOfExperts& moe, const Shape& shape,
                        const Value& input, const Value& routed) {
  const std::int64_t rows = shape.rows();
  Value shared = emit_mlp(out, *moe.shared, undivided(rows), shape.hidden, input);
  if (moe.shared_gate) {
    const Value gate =
        out.linear(moe.module + ".shared_expert_gate", input,
                   {.rows = rows, .in = shape.hidden, .out = 1, .usually_quantized = false});
    shared = out.add(moe.module + ".shared_gate_mul",
                     Elementwise{"sigmoid_mul", rows * shape.hidden, 1}, {shared, gate});
  }
  return out.pointwise(moe.module + ".add_shared", "add", {routed, shared}, rows * shape.hidden);
}

Value emit_experts(Emitter& out, const MixtureOfExperts& moe, const Shape& shape,
                   const Value& input) {
  const Value scores = emit_router(out, moe, shape, input);
  const Value routed = emit_routed(out, moe, shape, input, scores);
  return moe.shared ? add_shared_expert(out, moe, shape, input, routed) : routed;
}

// Gemma 4: a dense MLP and the experts side by side, each with its own norms; the experts route on
// the residual stream.
Value emit_parallel_experts(Emitter& out, const MixtureOfExperts& moe, const Shape& shape,
                            const Value& input, const Value& residual) {
  const std::int64_t rows = shape.rows();
  const Value dense = emit_mlp(out, *moe.parallel, undivided(rows), shape.hidden, input);
  const Value dense_out =
      out.norm("post_feedforward_layernorm_1", dense, kRmsNorm, rows, shape.hidden);
  const Value router_input =
      out.norm("router.norm", residual, {NormKind::rms, false, false, true}, rows, shape.hidden);
  const Value scores = emit_router(out, moe, shape, router_input);
  const Value expert_input =
      out.norm("pre_feedforward_layernorm_2", residual, kRmsNorm, rows, shape.hidden);
  const Value routed = emit_routed(out, moe, shape, expert_input, scores);
  const Value routed_out =
      out.norm("post_feedforward_layernorm_2", routed, kRmsNorm, rows, shape.hidden);
  return out.pointwise("experts.add_dense", "add", {dense_out, routed_out}, rows * shape.hidden);
}

}  // namespace

Value emit_feed(Emitter& out, const Feed& feed, const Shape& shape, const Value& input,
                const Value& residual) {
  if (const auto* mlp = std::get_if<Mlp>(&feed)) {
    return emit_mlp(out, *mlp, undivided(shape.rows()), shape.hidden, input);
  }
  if (const auto* moe = std::get_if<MixtureOfExperts>(&feed)) {
    return moe->parallel ? emit_parallel_experts(out, *moe, shape, input, residual)
                         : emit_experts(out, *moe, shape, input);
  }
  const auto& block = std::get<LinearBlock>(feed);
  return out.linear(block.module, input,
                    {.rows = shape.rows(), .in = shape.hidden, .out = shape.hidden});
}

}  // namespace rooftile::hf
