#include "rooftile/readers/pt2/program_conversion.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "rooftile/aten/program.h"
#include "rooftile/base/text.h"
#include "rooftile/readers/pt2/symbolic_sizes.h"

namespace rooftile::pt2_reader_detail {
namespace {

using pt2_format::Argument;
using pt2_format::Frame;
using pt2_format::Graph;
using pt2_format::GraphNode;
using pt2_format::InputKind;
using pt2_format::InputSpec;
using pt2_format::Program;
using pt2_format::Size;

// ScalarType of torch/_export/serde/schema.py, the name in recordings and c10's own number.
struct ElementType {
  int number;
  std::string_view name, recorded_number;
};

constexpr ElementType kElementTypes[] = {{1, "unsigned char", "0"},
                                         {2, "signed char", "1"},
                                         {3, "short int", "2"},
                                         {4, "int", "3"},
                                         {5, "long int", "4"},
                                         {6, "c10::Half", "5"},
                                         {7, "float", "6"},
                                         {8, "double", "7"},
                                         {12, "bool", "11"},
                                         {13, "c10::BFloat16", "15"},
                                         {29, "c10::Float8_e4m3fn", "24"},
                                         {30, "c10::Float8_e5m2", "23"},
                                         {31, "c10::Float8_e4m3fnuz", "26"},
                                         {32, "c10::Float8_e5m2fnuz", "25"}};

const ElementType* element_type(int number) {
  const auto* const found =
      std::find_if(std::begin(kElementTypes), std::end(kElementTypes),
                   [&](const ElementType& type) { return type.number == number; });
  return found == std::end(kElementTypes) ? nullptr : found;
}

// Names of hostile files end up in reports.
std::string clean(std::string_view text) {
  constexpr std::size_t kLongest = 300;
  std::string result(text.substr(0, kLongest));
  // A character that was cut in two.
  while (text.size() > kLongest && !result.empty() && (result.back() & '\x80') != 0) {
    result.pop_back();
  }
  for (char& c : result) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return result;
}

bool is_installed(std::string_view file) {
  return contains_any(file, {"site-packages/", "dist-packages/", "/lib/python3"});
}

// The innermost line of the model's own code.
const Frame* own_frame(const std::vector<Frame>& frames) {
  const auto is_own = [](const Frame& frame) {
    return !is_installed(frame.file) && !frame.file.starts_with("torch/") &&
           !frame.file.starts_with('<');
  };
  const auto found = std::find_if(frames.rbegin(), frames.rend(), is_own);
  return found == frames.rend() ? nullptr : &*found;
}

struct Target {
  std::string space, name;  // "aten", "conv2d.default"; without a space it is no operator
};

Target parse_target(std::string_view target) {
  constexpr std::string_view kOperators = "torch.ops.";
  if (!target.starts_with(kOperators)) return {"", std::string(target)};
  target.remove_prefix(kOperators.size());
  const std::size_t dot = std::min(target.find('.'), target.size());
  return {std::string(target.substr(0, dot)),
          std::string(target.substr(std::min(dot + 1, target.size())))};
}

// A tensor of the graph as operations see it.
struct Bound {
  AtenValue value;
  bool has_sizes = false;
  std::string root;  // whose memory it is
  // Of the graph, where a GPU lays the tensor out otherwise than the CPU that it was exported on.
  std::vector<std::int64_t> exported_strides;
};

// A GPU's fused attention leaves what the heads of a position give side by side: batch, position,
// head, element. A CPU's leaves one head after the other.
void lay_out_attention(Bound& result) {
  AtenValue& value = result.value;
  if (value.dims.size() != 4 || value.strides.size() != 4 || !result.has_sizes) return;
  const std::int64_t heads = value.dims[1], positions = value.dims[2], size = value.dims[3];
  if (element_count({heads, positions, size}) > 9e18) return;
  result.exported_strides =
      std::exchange(value.strides, {positions * heads * size, size, heads * size, std::int64_t{1}});
}

// Where a view has the axes of such a tensor in another order, each keeps its stride.
void lay_out_view(const Bound& viewed, Bound& result) {
  const AtenValue &from = viewed.value, &to = result.value;
  if (to.dims.size() != from.dims.size() || to.strides.size() != to.dims.size()) return;
  std::vector<std::int64_t> strides;
  std::vector<bool> taken(from.dims.size(), false);
  for (std::size_t axis = 0; axis < to.dims.size(); ++axis) {
    std::size_t at = 0;
    while (at < taken.size() && (taken[at] || from.dims[at] != to.dims[axis] ||
                                 viewed.exported_strides[at] != to.strides[axis])) {
      ++at;
    }
    if (at == taken.size()) return;
    taken[at] = true;
    strides.push_back(from.strides[at]);
  }
  result.exported_strides = std::exchange(result.value.strides, std::move(strides));
}

using Scope = std::unordered_map<std::string, Bound>;

class ProgramConversion {
 public:
  ProgramConversion(const Program& program, std::string file, const ReadOptions& options)
      : program_(program),
        file_(std::move(file)),
        trains_(options.mode == Mode::training),
        sizes_(program, options) {}

  Workload run(const std::map<std::string, std::string>& tied);

 private:
  struct Call {
    const GraphNode& node;
    const Graph& graph;
    Scope& scope;
    const std::string& prefix;
  };

  void count_parameters(const std::map<std::string, std::string>& tied);
  void bind_inputs(Scope& scope);
  void convert_graph(const Graph& graph, Scope& scope, const std::string& prefix);
  void convert(const Call& call);
  void convert_operator(const Call& call, const Target& target);
  bool convert_wrapped(const Call& call);
  AtenCall described(const Call& call, const Target& target);
  void add_notes();

  Bound* find(const Call& call, const std::string& name);
  void bind_results(const Call& call, const std::optional<Bound>& alias);
  Bound bound(const Graph& graph, const std::string& name, std::string root) const;
  AtenValue value_of(const Call& call, const Argument& argument);
  AtenValue list_value(const Call& call, const Argument& argument);
  std::string number_text(const Call& call, const Size& size) const;
  std::vector<AtenValue> results_of(const Call& call) const;
  std::vector<const Bound*> tensors_of(const Call& call);
  std::string newest(const std::string& root);
  void write_in_place(const std::string& root, const std::string& name);

  const Program& program_;
  std::string file_;
  bool trains_;
  SymbolicSizes sizes_;
  Workload workload_;
  std::unordered_map<std::string, std::string> written_;  // value -> what it became in place
  AtenProgram operators_;
  std::size_t node_count_ = 0;
  std::int64_t training_flags_ = 0, raised_flags_ = 0;
};

std::vector<std::string> output_names(const GraphNode& node) {
  std::vector<std::string> names;
  for (const Argument& output : node.outputs) {
    names.insert(names.end(), output.names.begin(), output.names.end());
  }
  std::erase(names, "");
  return names;
}

Workload ProgramConversion::run(const std::map<std::string, std::string>& tied) {
  workload_.sources = {file_};
  workload_.batch = sizes_.batch();
  workload_.sequence = sizes_.sequence();
  workload_.unused_options = sizes_.unused_options();
  count_parameters(tied);
  Scope scope;
  bind_inputs(scope);
  convert_graph(program_.graph, scope, "");
  workload_.ops = operators_.take_ops();
  workload_.skipped = operators_.skipped();
  add_notes();
  return std::move(workload_);
}

// The name of a parameter, and the place of its data, count once.
void ProgramConversion::count_parameters(const std::map<std::string, std::string>& tied) {
  std::set<std::string, std::less<>> seen;
  double parameters = 0;
  for (const InputSpec& input : program_.inputs) {
    if (input.kind != InputKind::parameter || !seen.insert(input.target).second) continue;
    const auto place = tied.find(input.target);
    if (place != tied.end() && !seen.insert(" " + place->second).second) continue;
    const Bound tensor = bound(program_.graph, input.name, "");
    if (tensor.has_sizes) parameters += element_count(tensor.value.dims);
  }
  if (parameters < 9e18) workload_.parameters = static_cast<std::int64_t>(parameters);
}

void ProgramConversion::bind_inputs(Scope& scope) {
  for (const InputSpec& input : program_.inputs) {
    Bound tensor = bound(program_.graph, input.name, clean(input.name));
    tensor.value.is_weight = input.kind != InputKind::user;
    scope[input.name] = std::move(tensor);
  }
}

Bound ProgramConversion::bound(const Graph& graph, const std::string& name,
                               std::string root) const {
  Bound tensor;
  tensor.root = std::move(root);
  const auto found = graph.tensors.find(name);
  if (found == graph.tensors.end()) return tensor;
  const ElementType* type = element_type(found->second.dtype);
  tensor.value.type = type == nullptr ? "unknown" : std::string(type->name);
  tensor.has_sizes = true;
  for (const Size& size : found->second.sizes) {
    const auto value = sizes_.value(size);
    tensor.has_sizes = tensor.has_sizes && value.has_value();
    tensor.value.dims.push_back(value.value_or(-1));
  }
  for (const Size& stride : found->second.strides) {
    tensor.value.strides.push_back(sizes_.value(stride).value_or(-1));
  }
  return tensor;
}

void ProgramConversion::convert_graph(const Graph& graph, Scope& scope, const std::string& prefix) {
  for (const GraphNode& node : graph.nodes) {
    ++node_count_;
    convert({node, graph, scope, prefix});
  }
}

void ProgramConversion::convert(const Call& call) {
  const Target target = parse_target(call.node.target);
  if (target.space.empty()) return bind_results(call, std::nullopt);  // arithmetic on sizes
  if (target.space == "higher_order" && convert_wrapped(call)) return;
  convert_operator(call, target);
}

// wrap_with_set_grad_enabled(flag, graph, inputs…) and its relatives run the graph as it is.
bool ProgramConversion::convert_wrapped(const Call& call) {
  if (!contains(call.node.target, ".wrap_")) return false;
  const auto& inputs = call.node.inputs;
  const auto at = std::find_if(inputs.begin(), inputs.end(), [](const auto& input) {
    return input.second.kind == Argument::Kind::graph && input.second.graph != nullptr;
  });
  if (at == inputs.end()) return false;
  const Graph& inner = *at->second.graph;
  Scope scope;
  auto given = at + 1;
  for (std::size_t i = 0; i < inner.inputs.size() && given != inputs.end(); ++i, ++given) {
    if (inner.inputs[i].names.empty() || given->second.names.empty()) continue;
    const Bound* outside = find(call, given->second.names.front());
    if (outside != nullptr) scope[inner.inputs[i].names.front()] = *outside;
  }
  const std::string prefix = fmt::format("{}{}.", call.prefix, node_count_);
  convert_graph(inner, scope, prefix);
  bind_results(call, std::nullopt);
  std::vector<std::string> results;
  for (const Argument& output : inner.outputs) {
    results.insert(results.end(), output.names.begin(), output.names.end());
  }
  const std::vector<std::string> names = output_names(call.node);
  for (std::size_t i = 0; i < std::min(names.size(), results.size()); ++i) {
    const auto found = scope.find(results[i]);
    if (found != scope.end()) call.scope[names[i]].root = found->second.root;
  }
  return true;
}

Bound* ProgramConversion::find(const Call& call, const std::string& name) {
  const auto found = call.scope.find(name);
  if (found != call.scope.end()) return &found->second;
  if (name.empty() || !call.graph.tensors.contains(name)) return nullptr;
  // Nothing wrote it: an input that the signature does not list.
  return &(call.scope[name] = bound(call.graph, name, clean(call.prefix + name)));
}

// Shortens the way for the next one who asks.
std::string ProgramConversion::newest(const std::string& root) {
  std::vector<std::string> way{root};
  for (auto next = written_.find(root); next != written_.end();
       next = written_.find(next->second)) {
    way.push_back(next->second);
  }
  for (std::size_t i = 0; i + 2 < way.size(); ++i) written_[way[i]] = way.back();
  return way.back();
}

void ProgramConversion::write_in_place(const std::string& root, const std::string& name) {
  const std::string from = newest(root), to = newest(name);
  if (from != to) written_[from] = to;  // hostile names could form a ring
}

void ProgramConversion::bind_results(const Call& call, const std::optional<Bound>& alias) {
  for (const std::string& name : output_names(call.node)) {
    Bound result = bound(call.graph, name, clean(call.prefix + name));
    if (alias) {
      result.root = alias->root;
      result.value.is_weight = alias->value.is_weight;
    }
    call.scope[name] = std::move(result);
  }
}

std::string ProgramConversion::number_text(const Call& call, const Size& size) const {
  const auto named = call.graph.numbers.find(size.name);
  const bool is_named = !size.name.empty() && named != call.graph.numbers.end();
  if (!is_named && size.expression.empty()) {  // may be negative, or the largest there is
    return size.number ? std::to_string(*size.number) : std::string();
  }
  const auto value = sizes_.value(is_named ? named->second : size);
  return value ? std::to_string(*value) : std::string();
}

AtenValue ProgramConversion::list_value(const Call& call, const Argument& argument) {
  AtenValue value{{}, {}, "TensorList", ""};
  std::vector<std::string> shapes;
  for (const std::string& name : argument.names) {
    const Bound* tensor = find(call, name);
    if (tensor == nullptr) {
      shapes.emplace_back("[]");
      continue;
    }
    shapes.push_back(fmt::format("[{}]", fmt::join(tensor->value.dims, ",")));
    if (value.type == "TensorList") value.type = "TensorList<" + tensor->value.type + ">";
  }
  value.value = fmt::format("[{}]", fmt::join(shapes, ","));
  return value;
}

AtenValue ProgramConversion::value_of(const Call& call, const Argument& argument) {
  switch (argument.kind) {
    case Argument::Kind::tensor: {
      const Bound* tensor = find(call, argument.names.front());
      return tensor == nullptr ? AtenValue() : tensor->value;
    }
    case Argument::Kind::tensors:
      return list_value(call, argument);
    case Argument::Kind::size:
      return {{}, {}, "Scalar", number_text(call, argument.sizes.front())};
    case Argument::Kind::sizes: {
      std::vector<std::string> texts;
      for (const Size& size : argument.sizes) texts.push_back(number_text(call, size));
      return {{}, {}, "ScalarList", fmt::format("[{}]", fmt::join(texts, ","))};
    }
    case Argument::Kind::dtype: {
      const ElementType* type = element_type(argument.dtype);
      return {{}, {}, "Scalar", type == nullptr ? "unknown" : std::string(type->recorded_number)};
    }
    case Argument::Kind::values:
      return {{}, {}, "Scalar", argument.text};
    default:
      return {};
  }
}

std::vector<AtenValue> ProgramConversion::results_of(const Call& call) const {
  std::vector<AtenValue> results;
  for (const std::string& name : output_names(call.node)) {
    results.push_back(bound(call.graph, name, "").value);
  }
  return results;
}

std::vector<const Bound*> ProgramConversion::tensors_of(const Call& call) {
  std::vector<const Bound*> tensors;
  for (const auto& [name, argument] : call.node.inputs) {
    for (const std::string& tensor : argument.names) {
      if (const Bound* found = find(call, tensor)) tensors.push_back(found);
    }
  }
  return tensors;
}

AtenCall ProgramConversion::described(const Call& call, const Target& target) {
  NamedValues given;
  for (const auto& [name, argument] : call.node.inputs) {
    given.emplace_back(name, value_of(call, argument));
    if (name != "train" && name != "training") continue;
    std::string& flag = given.back().second.value;
    if (flag == "True") ++training_flags_;
    if (flag == "False" && trains_) {
      ++raised_flags_;
      flag = "True";
    }
  }
  AtenCall aten;
  aten.library = clean(target.space);
  const std::size_t dot = std::min(target.name.rfind('.'), target.name.size());
  aten.name = clean(target.name.substr(0, dot));
  aten.overload = target.name.substr(std::min(dot + 1, target.name.size()));
  aten.arguments = in_order(target.space == "aten" ? target.name : "", given);
  aten.results = results_of(call);
  aten.source = Provenance{file_, 0, "", clean(call.node.module)};
  if (const Frame* frame = own_frame(call.node.frames)) {
    aten.source.file = clean(frame->file);
    aten.source.line = frame->line;
  }
  for (const Bound* tensor : tensors_of(call)) {
    if (!tensor->value.is_weight) aten.reads.push_back(newest(tensor->root));
  }
  for (const std::string& name : output_names(call.node)) {
    aten.writes.push_back(clean(call.prefix + name));
  }
  return aten;
}

void ProgramConversion::convert_operator(const Call& call, const Target& target) {
  const std::vector<const Bound*> tensors = tensors_of(call);
  const std::optional<Bound> first =
      tensors.empty() ? std::optional<Bound>() : std::optional(*tensors.front());
  const AtenCall aten = described(call, target);
  const CallKind kind = operators_.add(aten);
  bind_results(call, kind == CallKind::view ? first : std::optional<Bound>());
  const std::vector<std::string> names = output_names(call.node);
  if (!names.empty() && target.name == "scaled_dot_product_attention.default") {
    lay_out_attention(call.scope[names.front()]);
  } else if (!names.empty() && kind == CallKind::view && first &&
             !first->exported_strides.empty()) {
    lay_out_view(*first, call.scope[names.front()]);
  }
  const bool writes = kind == CallKind::work && is_in_place(aten) && first && !names.empty();
  if (writes) write_in_place(first->root, clean(call.prefix + names.front()));
}

void ProgramConversion::add_notes() {
  workload_.notes = sizes_.notes();
  if (program_.major != 2 && program_.major != 8) {
    workload_.notes.push_back(
        fmt::format("schema {}.{} of torch.export is read as 8, the one that it resembles",
                    program_.major, program_.minor));
  }
  for (const auto& [kind, count] : program_.unknown_arguments) {
    workload_.notes.push_back(
        fmt::format("arguments of kind {} are not understood: {}", kind, count));
  }
  if (training_flags_ > 0) {
    workload_.mode = Mode::training;
    workload_.notes.emplace_back(
        trains_
            ? "exported in training mode"
            : "exported in training mode: this is the forward pass of a step; --mode train adds "
              "the backward pass and the optimizer");
  } else if (raised_flags_ > 0) {
    workload_.notes.emplace_back(
        "exported in evaluation mode: batch norm and dropout are timed as they run in training");
  }
  if (workload_.ops.empty()) workload_.notes.emplace_back("the graph runs nothing on the GPU");
  for (std::string& note : workload_.notes) note = clean(note);
}

}  // namespace

Result<Workload> convert_program(const Program& program,
                                 const std::map<std::string, std::string>& tied,
                                 const std::string& file, const ReadOptions& options) {
  return ProgramConversion(program, file, options).run(tied);
}

}  // namespace rooftile::pt2_reader_detail
