#include "rooftile/formats/pt2/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "rooftile/base/run_limits.h"
#include "rooftile/base/text.h"

namespace rooftile::pt2_format {
namespace {

using Json = nlohmann::json;

constexpr int kDeepestJson = 100;
constexpr std::size_t kMostValues = 4'000'000;
constexpr int kDeepestGraph = 8;
// Majors that PyTorch has published: 1 with 2.1 to 8 since 2.5.
constexpr std::int64_t kOldestMajor = 1, kNewestMajor = 8;

// Why the text is not parsed: its depth and its number of values bound what the tree takes. (The
// parser's own callback looks through the whole list behind each of its objects.)
std::optional<std::string> too_large(std::string_view text) {
  int depth = 0;
  std::size_t values = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') {
      while (++at < text.size() && text[at] != '"') at += text[at] == '\\' ? 1 : 0;
    }
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (c == '[' || c == '{' || c == ',') ++values;
    if (depth > kDeepestJson) return fmt::format("JSON nested deeper than {} levels", kDeepestJson);
    if (values > kMostValues) return fmt::format("JSON of more than {} values", kMostValues);
  }
  return std::nullopt;
}

// A tree of bounded depth and size.
Result<Json> parse_bounded(std::string_view text) {
  if (const auto problem = too_large(text)) return fail(*problem);
  if (const std::string_view why = reading_must_end(); !why.empty()) return fail(std::string(why));
  try {
    return Json::parse(text);
  } catch (const Json::exception& problem) {
    const std::string_view what = problem.what();
    const std::size_t start = what.find("] ");
    return fail("not valid JSON: " +
                quoted(start == std::string_view::npos ? what : what.substr(start + 2), 160));
  }
}

const Json& member(const Json& object, const char* key) {
  static const Json null;
  if (!object.is_object()) return null;
  const auto found = object.find(key);
  return found == object.end() ? null : *found;
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::optional<std::int64_t> number_of(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
    return static_cast<std::int64_t>(number);
  }
  return value.is_number_integer() ? std::optional(value.get<std::int64_t>()) : std::nullopt;
}

// The key of a union that is set: the first schemas write the others as null.
std::pair<std::string_view, const Json*> chosen(const Json& value) {
  if (!value.is_object()) return {};
  for (const auto& [key, inner] : value.items()) {
    // Strings of the tree, which outlives what is read from it.
    if (!inner.is_null()) return {value.find(key).key(), &inner};
  }
  return {};
}

Size size_of_json(const Json& value) {
  Size size;
  size.number = number_of(value);
  if (size.number) return size;
  size.number = number_of(member(value, "as_int"));
  size.name = text_of(member(value, "as_name"));
  const Json& expression = member(value, "as_expr");
  if (expression.is_object()) {
    size.expression = text_of(member(expression, "expr_str"));
    const Json& hint = member(expression, "hint");
    size.number = number_of(hint);
    if (!size.number) size.number = number_of(member(hint, "as_int"));
  }
  return size;
}

std::vector<Size> sizes_of_json(const Json& list) {
  std::vector<Size> sizes;
  if (!list.is_array()) return sizes;
  for (const Json& value : list) sizes.push_back(size_of_json(value));
  return sizes;
}

// True, 0.1, same: as recordings spell them.
std::string value_text(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) {
    std::string text;
    for (const Json& inner : value) {
      // Lists of lists have no place in the arguments that matter.
      text += (text.empty() ? "" : ", ") + (inner.is_structured() ? "" : value_text(inner));
    }
    return fmt::format("[{}]", text);
  }
  return value.is_structured() ? std::string() : value.dump();
}

// Reads graphs; counts arguments that are not understood.
class GraphReader {
 public:
  explicit GraphReader(Program& program) : program_(program) {}

  Result<Graph> read(const Json& json, int depth) {
    if (depth > kDeepestGraph) {
      return fail(fmt::format("graphs nested deeper than {} levels", kDeepestGraph));
    }
    const Json& nodes = member(json, "nodes");
    if (!nodes.is_array()) return fail("a graph without a list of nodes");
    Graph graph;
    graph.inputs = arguments(member(json, "inputs"), depth);
    graph.outputs = arguments(member(json, "outputs"), depth);
    read_values(json, graph);
    for (const Json& inner : nodes) graph.nodes.push_back(node(inner, depth));
    if (error_) return tl::unexpected(*error_);
    return graph;
  }

 private:
  std::vector<Argument> arguments(const Json& list, int depth) {
    std::vector<Argument> read;
    if (!list.is_array()) return read;
    for (const Json& value : list) read.push_back(argument(value, depth));
    return read;
  }

  Argument unknown(std::string_view kind) {
    const std::string name = quoted(kind.empty() ? "without a kind" : kind, 40);
    ++program_.unknown_arguments[name];
    Argument read;
    read.kind = Argument::Kind::unknown;
    read.text = name;
    return read;
  }

  static std::string tensor_name(const Json& value) {
    const Json& inner = member(value, "as_tensor");  // of an optional one
    return text_of(member(inner.is_object() ? inner : value, "name"));
  }

  Argument tensors(std::string_view kind, const Json& value) {
    Argument read;
    const bool is_one = kind == "as_tensor" || kind == "as_optional_tensor";
    read.kind = is_one ? Argument::Kind::tensor : Argument::Kind::tensors;
    if (is_one) {
      read.names.push_back(tensor_name(value));
    } else if (value.is_array()) {
      for (const Json& inner : value) read.names.push_back(tensor_name(inner));
    }
    return read;
  }

  Argument subgraph(const Json& value, int depth) {
    Argument read;
    read.kind = Argument::Kind::graph;
    auto graph = this->read(member(value, "graph"), depth + 1);
    if (!graph) {
      if (!error_) error_ = graph.error();
      return read;
    }
    read.graph = std::make_shared<const Graph>(*std::move(graph));
    return read;
  }

  Argument argument(const Json& json, int depth) {
    const auto [kind, value] = chosen(json);
    Argument read;
    if (kind == "as_none") return read;
    if (value == nullptr) return json.is_object() && !json.empty() ? read : unknown(kind);
    if (is_one_of(kind, {"as_tensor", "as_tensors", "as_optional_tensor", "as_optional_tensors"})) {
      return tensors(kind, *value);
    }
    if (is_one_of(kind, {"as_sym_int", "as_int"})) {
      read.kind = Argument::Kind::size;
      read.sizes.push_back(size_of_json(*value));
      return read;
    }
    if (is_one_of(kind, {"as_sym_ints", "as_ints"})) {
      read.kind = Argument::Kind::sizes;
      read.sizes = sizes_of_json(*value);
      return read;
    }
    if (kind == "as_scalar_type") {
      read.kind = Argument::Kind::dtype;
      read.dtype =
          static_cast<int>(std::clamp<std::int64_t>(number_of(*value).value_or(0), 0, 255));
      return read;
    }
    if (is_one_of(kind, {"as_bool", "as_bools", "as_float", "as_floats", "as_string", "as_strings",
                         "as_memory_format", "as_layout"})) {
      read.kind = Argument::Kind::values;
      read.text = value_text(*value);
      return read;
    }
    // Symbolic flags and fractions, devices and operators say nothing about the work.
    if (is_one_of(kind, {"as_device", "as_sym_bool", "as_sym_bools", "as_sym_float",
                         "as_sym_floats", "as_operator", "as_custom_obj", "as_complex"})) {
      read.kind = Argument::Kind::values;
      return read;
    }
    if (kind == "as_graph") return subgraph(*value, depth);
    return unknown(kind);
  }

  static void read_values(const Json& json, Graph& graph) {
    const Json& tensors = member(json, "tensor_values");
    if (tensors.is_object()) {
      for (const auto& [name, meta] : tensors.items()) {
        // The first schemas wrap it.
        const Json& inner = member(meta, "meta").is_object() ? member(meta, "meta") : meta;
        const auto dtype = number_of(member(inner, "dtype")).value_or(0);
        graph.tensors[name] = {static_cast<int>(std::clamp<std::int64_t>(dtype, 0, 255)),
                               sizes_of_json(member(inner, "sizes")),
                               sizes_of_json(member(inner, "strides"))};
      }
    }
    const Json& numbers = member(json, "sym_int_values");
    if (!numbers.is_object()) return;
    for (const auto& [name, value] : numbers.items()) graph.numbers[name] = size_of_json(value);
  }

  GraphNode node(const Json& json, int depth) {
    GraphNode read;
    read.target = text_of(member(json, "target"));
    const Json& inputs = member(json, "inputs");
    if (inputs.is_array()) {
      for (const Json& input : inputs) {
        read.inputs.emplace_back(text_of(member(input, "name")),
                                 argument(member(input, "arg"), depth));
      }
    }
    read.outputs = arguments(member(json, "outputs"), depth);
    const Json& metadata = member(json, "metadata");
    read.module = module_of(text_of(member(metadata, "nn_module_stack")));
    read.frames = frames_of(text_of(member(metadata, "stack_trace")));
    return read;
  }

  // "key,path,class;key,path,class": the innermost path, without the name of the whole model. The
  // path may be code: getattr(L['self'].layers[0], '1').
  static std::string module_of(std::string_view stack) {
    const std::string_view entry = split(stack, ';').back();
    const std::size_t first = entry.find(','), last = entry.rfind(',');
    if (first == last) return {};
    std::string path(entry.substr(first + 1, last - first - 1));
    if (contains(path, "metadata_hook")) return {};
    constexpr std::pair<std::string_view, std::string_view> kPlain[] = {
        {"getattr(", ""}, {", '", "."}, {"')", ""}, {"['", "."}, {"']", ""}, {"[", "."}, {"]", ""}};
    for (const auto& [code, plain] : kPlain) replace_all(code, plain, path);
    for (const std::string_view whole : {"L.self", "L__self__", "L.s"}) {
      if (path == whole) return {};
      if (path.starts_with(whole) && path[whole.size()] == '.')
        return path.substr(whole.size() + 1);
    }
    return path;
  }

  static void replace_all(std::string_view from, std::string_view to, std::string& text) {
    for (std::size_t at = text.find(from); at != std::string::npos;
         at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
    }
  }

  // Lines as Python prints them: File "model.py", line 12, in forward.
  static std::vector<Frame> frames_of(std::string_view trace) {
    constexpr std::string_view kFile = "File \"", kLine = "\", line ";
    std::vector<Frame> frames;
    for (std::string_view line : split(trace, '\n')) {
      line = trim(line);
      if (!line.starts_with(kFile)) continue;
      const std::size_t end = line.find(kLine, kFile.size());
      if (end == std::string_view::npos) continue;
      const std::string_view rest = line.substr(end + kLine.size());
      const auto number = parse_integer(rest.substr(0, rest.find(',')));
      if (!number || *number < 1) continue;
      frames.push_back({std::string(line.substr(kFile.size(), end - kFile.size())), *number});
    }
    return frames;
  }

  Program& program_;
  std::optional<Error> error_;
};

InputSpec input_spec(const Json& json) {
  const auto [kind, value] = chosen(json);
  InputSpec spec;
  if (value == nullptr) return spec;
  const Json& argument = member(*value, "arg");
  spec.name = text_of(member(argument, "name"));
  if (spec.name.empty()) spec.name = text_of(member(member(argument, "as_tensor"), "name"));
  if (kind == "user_input") spec.kind = InputKind::user;
  if (kind == "parameter") {
    spec.kind = InputKind::parameter;
    spec.target = text_of(member(*value, "parameter_name"));
  }
  if (kind == "buffer") spec.kind = InputKind::buffer;
  if (is_one_of(kind, {"tensor_constant", "custom_obj", "constant_input"})) {
    spec.kind = InputKind::constant;
  }
  return spec;
}

Result<void> read_version(const Json& json, Program& program) {
  const Json& version = member(json, "schema_version");
  const auto whole = number_of(version);  // before it had a minor
  const auto major = whole ? whole : number_of(member(version, "major"));
  if (!major) return fail("an exported program without a schema_version");
  program.major = *major;
  program.minor = number_of(member(version, "minor")).value_or(0);
  if (program.major < kOldestMajor || program.major > kNewestMajor) {
    return fail(fmt::format("schema {}.{} of torch.export; majors {} to {} are known",
                            program.major, program.minor, kOldestMajor, kNewestMajor));
  }
  return {};
}

void read_ranges(const Json& ranges, Program& program) {
  if (!ranges.is_object()) return;
  for (const auto& [symbol, range] : ranges.items()) {
    program.ranges[symbol] = {number_of(member(range, "min_val")),
                              number_of(member(range, "max_val"))};
  }
}

}  // namespace

Result<Program> parse_program(std::string_view text) {
  const auto json = parse_bounded(text);
  if (!json) return tl::unexpected(json.error());
  Program program;
  if (const auto version = read_version(*json, program); !version) {
    return tl::unexpected(version.error());
  }
  program.torch_version = text_of(member(*json, "torch_version"));
  const Json& module = member(*json, "graph_module");
  auto graph = GraphReader(program).read(member(module, "graph"), 0);
  if (!graph) return tl::unexpected(graph.error());
  program.graph = *std::move(graph);
  const Json& specs = member(member(module, "signature"), "input_specs");
  if (specs.is_array()) {
    for (const Json& spec : specs) program.inputs.push_back(input_spec(spec));
  }
  read_ranges(member(*json, "range_constraints"), program);
  return program;
}

Result<std::map<std::string, StoredWeight>> parse_weight_files(std::string_view text) {
  const auto json = parse_bounded(text);
  if (!json) return tl::unexpected(json.error());
  std::map<std::string, StoredWeight> weights;
  const Json& config = member(*json, "config");
  if (!config.is_object()) return weights;
  for (const auto& [name, entry] : config.items()) {
    const Json& meta = member(entry, "tensor_meta");
    const std::string file = text_of(member(entry, "path_name"));
    weights[name] = {file, fmt::format("{} {} {}", file, member(meta, "storage_offset").dump(),
                                       member(meta, "sizes").dump())};
  }
  return weights;
}

}  // namespace rooftile::pt2_format
