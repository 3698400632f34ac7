#include "rooftile/readers/hf_config/emitter.h"

#include <fmt/format.h>

#include <algorithm>

#include "rooftile/workload/validate.h"

namespace rooftile::hf {

namespace {

// Empty where every axis has the default: one spelling for one convolution.
void drop_defaults(Convolution& conv) {
  const auto drop = [](Extents& extents, std::int64_t fallback) {
    if (std::all_of(extents.begin(), extents.end(), [&](auto size) { return size == fallback; })) {
      extents.clear();
    }
  };
  drop(conv.stride, 1);
  drop(conv.pad_begin, 0);
  drop(conv.pad_end, 0);
}

}  // namespace

void Emitter::enter(std::string prefix, std::string lookup, std::int64_t count,
                    std::int64_t copies) {
  prefix_ = std::move(prefix);
  lookup_ = std::move(lookup);
  count_ = count;
  copies_ = copies;
}

Value Emitter::append(const std::string& module, Body body, std::vector<Value> inputs,
                      Dtypes dtypes) {
  Op op;
  op.name = prefix_ + module;
  op.body = std::move(body);
  if (auto* conv = std::get_if<Convolution>(&op.body)) drop_defaults(*conv);
  op.dtypes = dtypes;
  op.count = count_;
  std::erase(inputs, "");
  op.inputs = std::move(inputs);
  op.outputs = {op.name};
  op.source = {.file = file_, .line = 0, .node = {}, .module = op.name};
  if (const auto problem = find_invalid_dim(op)) fail_sizes(op.name, *problem);
  workload_.ops.push_back(std::move(op));
  return workload_.ops.back().name;
}

void Emitter::fail_sizes(const std::string& what, const std::string& problem) {
  if (!error_) {
    error_ = Error{fmt::format("the sizes of {} are out of range: {}", what, problem), {}};
  }
}

void Emitter::add_parameters(double count, std::optional<Dtype> stored) {
  // NVFP4 stores a scale of one byte for 16 weights.
  constexpr double kScaleBytes = 1.0 / 16;
  const double all = count * static_cast<double>(sets_ ? std::min(*sets_, copies_) : copies_);
  const Dtype dtype = stored.value_or(dtype_);
  parameters_ += all;
  weight_bytes_ += storage(all, dtype).value() + (dtype == Dtype::fp4 ? all * kScaleBytes : 0.0);
}

void Emitter::add_parameters(const Linear& shape, std::optional<Dtype> stored) {
  if (!shape.counts_parameters) return;
  const double weights = static_cast<double>(shape.in) * static_cast<double>(shape.out);
  add_parameters(static_cast<double>(shape.stored) * weights, stored);
  if (shape.bias) add_parameters(static_cast<double>(shape.stored * shape.out));
}

Value Emitter::linear(const std::string& module, const Value& input, const Linear& shape) {
  std::string path = lookup_ + module;
  std::replace(path.begin(), path.end(), '*', '0');  // one expert stands for all
  const auto scheme = quantization_.scheme(path, shape.usually_quantized);
  const Dtypes dtypes =
      scheme ? Dtypes(scheme->input.value_or(dtype_), scheme->weight, dtype_) : Dtypes(dtype_);
  add_parameters(shape, dtypes.weight);
  Gemm gemm;
  gemm.m = shape.rows;
  gemm.n = shape.out;
  gemm.k = shape.in;
  gemm.batch = shape.batch;
  gemm.layout = shape.layout;
  gemm.bias = shape.bias;
  return append(module, gemm, {input}, dtypes);
}

Value Emitter::product(const std::string& module, std::vector<Value> inputs, const Gemm& gemm) {
  return append(module, gemm, std::move(inputs), Dtypes(dtype_));
}

Value Emitter::norm(const std::string& module, const Value& input, const Norm& norm,
                    std::int64_t rows, std::int64_t cols) {
  if (!norm.present) return input;
  add_parameters(static_cast<double>(cols) * ((norm.weight ? 1 : 0) + (norm.bias ? 1 : 0)));
  return append(module, Normalization{norm.kind, rows, cols}, {input}, Dtypes(dtype_));
}

Value Emitter::pointwise(const std::string& module, std::string fn, std::vector<Value> inputs,
                         std::int64_t elements) {
  const auto count = static_cast<std::int64_t>(inputs.size());
  return append(module, Elementwise{std::move(fn), elements, count}, std::move(inputs),
                Dtypes(dtype_));
}

Value Emitter::add(const std::string& module, Body body, std::vector<Value> inputs) {
  return append(module, std::move(body), std::move(inputs), Dtypes(dtype_));
}

Value Emitter::attention(const std::string& module, const Attention& body,
                         std::vector<Value> inputs, Dtype cache) {
  return append(module, body, std::move(inputs), Dtypes(dtype_, cache, dtype_));
}

}  // namespace rooftile::hf
