#include "rooftile/aten/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <utility>

#include "rooftile/aten/arguments.h"
#include "rooftile/aten/operator.h"
#include "rooftile/workload/validate.h"

namespace rooftile {
namespace {

constexpr std::size_t kMostReasons = 256;

bool is_layer(const Op& op) {
  const auto* gemm = std::get_if<Gemm>(&op.body);
  if (gemm != nullptr) return gemm->batch == 1 || gemm->weight_is_parameter;
  return std::holds_alternative<Convolution>(op.body) ||
         std::holds_alternative<Attention>(op.body) || std::holds_alternative<Recurrent>(op.body) ||
         std::holds_alternative<Normalization>(op.body) ||
         std::holds_alternative<Embedding>(op.body);
}

// "gemm", "copy", "relu": whatever operator it was called by.
std::string_view word_of(const Op& op) {
  if (const auto* pass = std::get_if<Elementwise>(&op.body)) return pass->fn;
  if (const auto* sum = std::get_if<Reduction>(&op.body)) return sum->fn;
  if (const auto* other = std::get_if<Other>(&op.body)) return other->fn;
  return std::holds_alternative<LayoutConversion>(op.body) ? "copy" : kind_name(op.body);
}

// Bytes of an operation that reads and writes as in a forward pass, whatever pass it runs in.
std::int64_t bytes_in_forward(const Op& op) {
  double elements = 0, reads = 1, writes = 1;
  if (const auto* pass = std::get_if<Elementwise>(&op.body)) {
    elements = to_double(pass->elements);
    reads = to_double(pass->inputs);
  } else if (const auto* softmax = std::get_if<Softmax>(&op.body)) {
    elements = to_double(softmax->rows) * to_double(softmax->cols);
  } else if (const auto* norm = std::get_if<Normalization>(&op.body)) {
    elements = to_double(norm->rows) * to_double(norm->cols);
  } else {
    return 0;  // the pass makes no difference
  }
  const double bytes = elements * (reads * size_in_bytes(op.dtypes.input) +
                                   writes * size_in_bytes(op.dtypes.output));
  return std::llround(std::min(bytes, to_double(kMaxSize)));
}

bool reads_weight(const AtenCall& call) {
  return std::ranges::any_of(call.arguments, [](const AtenValue& value) {
    return value.is_weight && value.dims.size() > 1;
  });
}

bool has_strides(const AtenCall& call) {
  return std::ranges::any_of(call.arguments,
                             [](const AtenValue& value) { return !value.strides.empty(); });
}

// Of one value; empty where its sizes are not known.
std::optional<double> bytes_of(const AtenValue& value) {
  if (std::ranges::any_of(value.dims, [](std::int64_t size) { return size < 0; })) {
    return std::nullopt;
  }
  const auto bytes = value.value.empty() ? aten_element_bytes(value.type) : std::nullopt;
  return element_count(value.dims) * bytes.value_or(0);
}

std::optional<double> bytes_of(const AtenCall& call) {
  double sum = 0;
  for (const std::vector<AtenValue>* values : {&call.arguments, &call.results}) {
    for (const AtenValue& value : *values) {
      const auto bytes = bytes_of(value);
      if (!bytes) return std::nullopt;
      sum += *bytes;
    }
  }
  return sum;
}

// Modules by path and pass.
std::string pass_of(const Op& op) {
  const bool backward = op.phase != Phase::forward;
  return fmt::format("{}{}", op.source.module, backward ? '-' : '+');
}

// Parts of a pass that are told apart by their phase have one name.
std::string phase_of(const Op& op) {
  return fmt::format("{}{}", op.source.module, static_cast<int>(op.phase));
}

void give_names(std::vector<Op>& ops) {
  std::unordered_map<std::string, int> operations, layers, last;
  for (const Op& op : ops) {
    ++operations[pass_of(op)];
    if (is_layer(op)) ++layers[phase_of(op)];
  }
  for (Op& op : ops) {
    const std::string& module = op.source.module;
    const bool is_only =
        operations[pass_of(op)] == 1 || (is_layer(op) && layers[phase_of(op)] == 1);
    std::string name = module;
    if (module.empty() || !is_only) {
      name += module.empty() ? "" : ":";
      name += word_of(op);
    }
    const int before = last[fmt::format("{}{}", name, static_cast<int>(op.phase))]++;
    op.name = before == 0 ? name : fmt::format("{}#{}", name, before + 1);
  }
}

}  // namespace

void AtenProgram::count(std::string reason) {
  const bool is_new = !skipped_.contains(reason);
  ++skipped_[is_new && skipped_.size() >= kMostReasons ? "other operators" : std::move(reason)];
}

std::vector<Op> AtenProgram::backward_ops(const AtenCall& call, std::vector<Op> ops) const {
  const auto forward = forward_products_.find(call.sequence);
  for (Op& op : ops) {
    if (std::holds_alternative<Gemm>(op.body)) {
      const Op* layer = forward == forward_products_.end() ? nullptr : &forward->second;
      op = as_gradient(std::move(op), layer, has_strides(call));
      continue;
    }
    if (op.phase != Phase::forward) continue;
    if (op.streams.bytes == 0) op.streams.bytes = bytes_in_forward(op);
    op.phase = Phase::dgrad;
  }
  return ops;
}

// Listed with what it moves at least.
std::vector<Op> AtenProgram::unknown_op(const AtenCall& call) {
  const std::string shown = fmt::format("{}.{}", call.library, call.name);
  const auto bytes = bytes_of(call);
  if (!bytes) {
    count("unknown shape: " + shown);
    return {};
  }
  count("operator without a cost model: " + shown);
  Op op;
  op.body = Other{shown, 0, static_cast<std::int64_t>(std::min(*bytes, to_double(kMaxSize)))};
  const auto dtype = call.results.empty() ? std::nullopt : aten_dtype(call.results.front().type);
  if (dtype) op.dtypes = Dtypes(*dtype);
  return {op};
}

CallKind AtenProgram::add(AtenCall call) {
  CallWork work = work_of(call);
  if (work.kind == CallKind::unknown) work.ops = unknown_op(call);
  if (work.ops.empty()) return work.kind;
  for (Op& op : work.ops) {
    auto* gemm = std::get_if<Gemm>(&op.body);
    if (gemm != nullptr) gemm->weight_is_parameter = reads_weight(call);
  }
  if (call.backward) {
    work.ops = backward_ops(call, std::move(work.ops));
  } else if (call.sequence >= 0) {
    for (const Op& op : work.ops) {
      if (std::holds_alternative<Gemm>(op.body)) forward_products_.emplace(call.sequence, op);
    }
  }
  place(call, std::move(work.ops));
  return work.kind;
}

// Parts of one call follow each other.
void AtenProgram::place(const AtenCall& call, std::vector<Op> ops) {
  const std::string part = call.writes.empty() ? call.name : call.writes.front();
  for (std::size_t i = 0; i < ops.size(); ++i) {
    Op& op = ops[i];
    if (find_invalid_dim(op)) {
      count(fmt::format("sizes out of range: {}.{}", call.library, call.name));
      continue;
    }
    op.source = call.source;
    if (!call.backward) {
      op.inputs = call.reads;
      op.outputs = call.writes;
      if (i + 1 < ops.size()) op.outputs = {fmt::format("{}.{}", part, i)};
      if (i > 0) op.inputs.push_back(fmt::format("{}.{}", part, i - 1));
    }
    ops_.push_back(std::move(op));
  }
}

std::vector<Op> AtenProgram::take_ops() {
  give_names(ops_);
  return fold_repeated_layers(std::move(ops_));
}

}  // namespace rooftile
