#include "rooftile/formats/onnx/dimensions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

#include "onnx/onnx_pb.h"
#include "rooftile/base/text.h"

namespace rooftile::onnx_format {
namespace {

using onnx::GraphProto;
using onnx::TensorProto;
using onnx::TypeProto_Tensor;
using onnx::ValueInfoProto;
using Symbols = std::map<std::string, std::int64_t>;

// Single letters name the batch only as a leading dimension: N is also a matrix size.
bool is_batch_name(std::string_view name, int index) {
  constexpr std::array<std::string_view, 3> kNames{"n", "b", "bs"};
  const std::string text = lower(name);
  return (index == 0 && is_one_of(text, kNames)) ||
         (contains(text, "batch") && !contains(text, "seq"));
}

bool is_sequence_name(std::string_view name) {
  constexpr std::array<std::string_view, 8> kNames{"s",      "t",      "l",          "time",
                                                   "length", "tokens", "num_tokens", "time_steps"};
  constexpr std::array<std::string_view, 6> kOther{"past", "total", "cache", "kv", "batch", "max"};
  const std::string text = lower(name);
  const bool other = std::any_of(kOther.begin(), kOther.end(),
                                 [&](std::string_view part) { return contains(text, part); });
  return is_one_of(text, kNames) || (contains(text, "seq") && !other);
}

// Of the positions in a cache, and of those and the new ones together.
bool is_past_name(std::string_view name) { return contains(lower(name), "past"); }
bool is_total_name(std::string_view name) {
  const std::string text = lower(name);
  return contains(text, "total") && contains(text, "seq");
}

// The sequence in so many words: one letter may stand for anything.
bool is_plain_sequence_name(std::string_view name) {
  return is_sequence_name(name) && contains(lower(name), "seq");
}

// What is assumed of a network that leaves its length open: the longest input of BERT and of the
// encoders built like it (Devlin et al., 2019).
constexpr std::int64_t kAssumedSequence = 512;

// Names that exporters make up where the author gave none: CNTK's "None", PyTorch's "s0" and
// "input_dynamic_axes_1", and the library's own "unk__7".
bool is_made_up(std::string_view name) {
  if (name.empty() || name == "None" || name == "?" || name == "-1") return true;
  if (name.starts_with("unk__") || contains(name, "_dynamic_axes_")) return true;
  return name.size() > 1 && name[0] == 's' &&
         std::all_of(name.begin() + 1, name.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

// A symbol, a number, or a sum of them such as "past_sequence_length + 1".
std::optional<std::int64_t> evaluate_symbol(std::string_view text, const Symbols& symbols) {
  std::int64_t sum = 0;
  while (true) {
    const std::size_t plus = text.find('+');
    const std::string_view term = trim(text.substr(0, plus));
    const auto found = symbols.find(std::string(term));
    const auto value = found != symbols.end() ? found->second : parse_integer(term);
    if (!value || __builtin_add_overflow(sum, *value, &sum)) return {};
    if (plus == std::string_view::npos) return sum;
    text.remove_prefix(plus + 1);
  }
}

bool is_integer_input(const TypeProto_Tensor& tensor) {
  return tensor.elem_type() == TensorProto::INT64 || tensor.elem_type() == TensorProto::INT32;
}

// Reads [sequence, batch, ..], as recurrent operators do by default.
bool is_sequence_first(const onnx::NodeProto& node) {
  if (node.op_type() != "LSTM" && node.op_type() != "GRU" && node.op_type() != "RNN") return false;
  return std::ranges::none_of(node.attribute(), [](const onnx::AttributeProto& attribute) {
    return attribute.name() == "layout" && attribute.i() == 1;
  });
}

class Resolver {
 public:
  Resolver(const DimensionChoices& choices, GraphProto& graph)
      : choices_(choices),
        graph_(graph),
        sequence_first_(std::ranges::any_of(graph.node(), is_sequence_first)) {}

  Result<ResolvedDimensions> run() {
    const std::vector<int> inputs = true_inputs(graph_);
    for (const auto& [name, shape] : choices_.shapes) {
      if (auto done = set_shape(inputs, name, shape); !done) return tl::unexpected(done.error());
    }
    result_.symbols.insert(choices_.dims.begin(), choices_.dims.end());
    for (const int index : inputs) name_symbols(*graph_.mutable_input(index));
    for (const int index : inputs) apply(*graph_.mutable_input(index));
    for (const auto& [name, size] : choices_.dims) {
      if (!seen_symbol(name)) {
        result_.notes.push_back(fmt::format("no input of the model has a dimension '{}'", name));
        result_.unused.push_back("--dim " + name);
      }
    }
    if (choices_.seq && !result_.sequence_used) {
      result_.notes.push_back(fmt::format(
          "no input dimension is known as the sequence, --seq {} has no effect", *choices_.seq));
      result_.unused.emplace_back("--seq");
    }
    if (!sequence_first_) note_sizes(inputs);
    return std::move(result_);
  }

 private:
  // The batch is the leading size of the first input with several axes, the sequence what follows
  // it in tokens.
  void note_sizes(const std::vector<int>& inputs) {
    for (const int index : inputs) {
      const auto& type = graph_.input(index).type();
      if (!type.has_tensor_type() || type.tensor_type().shape().dim_size() < 2) continue;
      const auto& shape = type.tensor_type().shape();
      if (!result_.batch) result_.batch = declared_size(shape.dim(0), result_.symbols);
      const bool tokens = shape.dim_size() == 2 && is_integer_input(type.tensor_type());
      if (tokens) result_.sequence = declared_size(shape.dim(1), result_.symbols);
      if (result_.sequence) return;
    }
  }

  Result<bool> set_shape(const std::vector<int>& inputs, const std::string& name,
                         const Shape& shape) {
    std::vector<std::string> names;
    for (const int index : inputs) {
      ValueInfoProto& input = *graph_.mutable_input(index);
      names.push_back(input.name());
      if (input.name() != name) continue;
      auto& tensor = *input.mutable_type()->mutable_tensor_type();
      if (tensor.has_shape() && tensor.shape().dim_size() > 0 &&
          tensor.shape().dim_size() != static_cast<int>(shape.size())) {
        return fail(fmt::format("--shape gives input '{}' {} dimensions, the model declares {}",
                                name, shape.size(), tensor.shape().dim_size()));
      }
      replace_shape(shape, tensor);
      return true;
    }
    return fail(fmt::format("the model has no input '{}'; its inputs are: {}", name,
                            fmt::join(names, ", ")));
  }

  void replace_shape(const Shape& shape, TypeProto_Tensor& tensor) {
    auto& declared = *tensor.mutable_shape();
    for (int i = 0; i < static_cast<int>(shape.size()); ++i) {
      const std::int64_t size = shape[static_cast<std::size_t>(i)];
      auto* dim = i < declared.dim_size() ? declared.mutable_dim(i) : declared.add_dim();
      if (dim->has_dim_param() && !is_made_up(dim->dim_param())) {
        result_.symbols.emplace(dim->dim_param(), size);
      } else if (dim->has_dim_value() && dim->dim_value() > 0 && dim->dim_value() != size) {
        result_.declared_shapes_hold = false;
      }
      dim->set_dim_value(size);
    }
  }

  // Finds out what the symbolic names stand for.
  void name_symbols(const ValueInfoProto& input) {
    if (!input.type().has_tensor_type()) return;
    const auto& shape = input.type().tensor_type().shape();
    for (int i = 0; i < shape.dim_size(); ++i) {
      const std::string& name = shape.dim(i).dim_param();
      if (name.empty()) continue;
      seen_.insert(name);
      if (result_.symbols.count(name) != 0 || is_made_up(name)) continue;
      if (const auto size = named_size(name, i)) result_.symbols.emplace(name, *size);
    }
  }

  std::optional<std::int64_t> named_size(const std::string& name, int index) {
    if (is_batch_name(name, index)) return batch_of(fmt::format("dimension '{}'", name));
    if (is_past_name(name) && !contains(name, "+")) return choices_.past;
    if (is_total_name(name) && choices_.past && choices_.seq) return *choices_.past + *choices_.seq;
    if (!is_sequence_name(name)) return {};
    if (choices_.seq) result_.sequence_used = true;
    if (choices_.seq || !is_plain_sequence_name(name)) return choices_.seq;
    return assumed_sequence(fmt::format("dimension '{}'", name));
  }

  std::int64_t batch_of(const std::string& what) {
    if (choices_.batch) {
      result_.batch_used = true;
      return *choices_.batch;
    }
    // A shape that is given holds the batch of the other inputs too.
    for (const auto& [input, shape] : choices_.shapes) {
      if (shape.size() >= 2) return shape.front();
    }
    if (!std::exchange(batch_noted_, true)) {
      result_.notes.push_back(fmt::format("batch 1 assumed for {}; set it with --batch", what));
    }
    return 1;
  }

  std::int64_t assumed_sequence(const std::string& what) {
    if (!std::exchange(sequence_noted_, true)) {
      result_.notes.push_back(fmt::format("sequence length {} assumed for {}; set it with --seq",
                                          kAssumedSequence, what));
    }
    return kAssumedSequence;
  }

  bool seen_symbol(const std::string& name) const {
    return std::any_of(seen_.begin(), seen_.end(), [&](const std::string& symbol) {
      return symbol == name || contains(symbol, name);
    });
  }

  void apply(ValueInfoProto& input) {
    if (!input.type().has_tensor_type() || !input.type().tensor_type().has_shape()) {
      result_.notes.push_back(fmt::format("input '{}' has no declared shape; pass --shape {}=…",
                                          input.name(), input.name()));
      return;
    }
    auto& tensor = *input.mutable_type()->mutable_tensor_type();
    for (int i = 0; i < tensor.shape().dim_size(); ++i) apply_dim(input.name(), i, tensor);
  }

  void apply_dim(const std::string& input, int index, TypeProto_Tensor& tensor) {
    auto& dim = *tensor.mutable_shape()->mutable_dim(index);
    auto size = declared_size(dim, result_.symbols);
    const std::string name = dim.dim_param();
    if (!size && is_made_up(name)) size = unnamed_size(input, index, tensor);
    if (size) {
      dim.set_dim_value(*size);
      return;
    }
    if (!dim.has_dim_param()) dim.clear_dim_value();
    // A sum is known when its terms are; a name is explained once.
    const bool sum = contains(name, "+") || contains(name, "*");
    const bool again = !is_made_up(name) && !explained_.insert(name).second;
    if (!sum && !again) result_.notes.push_back(explain(input, index, name, tensor));
  }

  // The first axis is the batch, but in recurrent networks that read the sequence first; the second
  // one of tokens is the sequence.
  std::optional<std::int64_t> unnamed_size(const std::string& input, int index,
                                           const TypeProto_Tensor& tensor) {
    const int rank = tensor.shape().dim_size();
    if (index == 0 && (choices_.batch || (rank >= 2 && !sequence_first_))) {
      return batch_of(fmt::format("the first axis of input '{}'", input));
    }
    const bool tokens = rank == 2 && is_integer_input(tensor);
    if (index != 1 || (rank != 3 && !tokens)) return {};
    if (choices_.seq) result_.sequence_used = true;
    if (choices_.seq || !tokens) return choices_.seq;
    return assumed_sequence(fmt::format("the second axis of input '{}'", input));
  }

  static std::string explain(const std::string& input, int index, const std::string& name,
                             const TypeProto_Tensor& tensor) {
    if (!is_made_up(name)) {
      const char* shorter = is_batch_name(name, index) ? "--batch N"
                            : is_sequence_name(name)   ? "--seq N"
                            : is_past_name(name)       ? "--past N"
                                                       : nullptr;
      return fmt::format("input '{}': dimension '{}' is unknown; pass {}", input, name,
                         shorter != nullptr ? shorter : fmt::format("--dim {}=N", name));
    }
    std::vector<std::string> sizes;
    for (const auto& dim : tensor.shape().dim()) {
      sizes.push_back(dim.has_dim_value() && dim.dim_value() > 0 ? std::to_string(dim.dim_value())
                                                                 : "N");
    }
    return fmt::format("axis {} of input '{}' has no size; pass {}--shape {}={}", index, input,
                       index == 0 ? "--batch N or " : "", input, fmt::join(sizes, "x"));
  }

  const DimensionChoices& choices_;
  GraphProto& graph_;
  ResolvedDimensions result_;
  std::unordered_set<std::string> seen_, explained_;
  bool batch_noted_ = false, sequence_noted_ = false;
  bool sequence_first_ = false;
};

}  // namespace

Result<ResolvedDimensions> resolve_dimensions(const DimensionChoices& choices, GraphProto& graph) {
  return Resolver(choices, graph).run();
}

std::vector<int> true_inputs(const GraphProto& graph) {
  std::unordered_set<std::string_view> initializers;
  for (const auto& tensor : graph.initializer()) initializers.insert(tensor.name());
  std::vector<int> result;
  for (int i = 0; i < graph.input_size(); ++i) {
    if (initializers.count(graph.input(i).name()) == 0) result.push_back(i);
  }
  return result;
}

std::optional<std::int64_t> declared_size(const onnx::TensorShapeProto_Dimension& dim,
                                          const Symbols& symbols) {
  if (dim.has_dim_value()) {
    return dim.dim_value() > 0 ? std::optional(dim.dim_value()) : std::nullopt;
  }
  if (!dim.has_dim_param() || is_made_up(dim.dim_param())) return {};
  return evaluate_symbol(dim.dim_param(), symbols);
}

std::optional<std::int64_t> common_leading_size(const GraphProto& graph) {
  if (std::ranges::any_of(graph.node(), is_sequence_first)) return {};
  std::optional<std::int64_t> common;
  for (const int index : true_inputs(graph)) {
    const auto& type = graph.input(index).type();
    if (!type.has_tensor_type() || type.tensor_type().shape().dim_size() < 2) continue;
    const auto& dim = type.tensor_type().shape().dim(0);
    if (!dim.has_dim_value() || dim.dim_value() <= 0) return {};
    if (common && *common != dim.dim_value()) return {};
    common = dim.dim_value();
  }
  return common;
}

void set_leading_size(std::int64_t size, GraphProto& graph) {
  for (const int index : true_inputs(graph)) {
    auto* type = graph.mutable_input(index)->mutable_type();
    if (!type->has_tensor_type() || type->tensor_type().shape().dim_size() < 2) continue;
    type->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_value(size);
  }
}

}  // namespace rooftile::onnx_format
