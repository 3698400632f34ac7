#include "rooftile/readers/hf_config/build.h"

#include <fmt/format.h>

#include <algorithm>

#include "rooftile/readers/hf_config/bounds.h"
#include "rooftile/readers/hf_config/cache.h"
#include "rooftile/readers/hf_config/emit_layer.h"
#include "rooftile/readers/hf_config/emitter.h"

namespace rooftile::hf {
namespace {

constexpr std::size_t kShownRuns = 3;
constexpr double kMaxParameters = 1e15;

struct Group {
  std::vector<std::int64_t> indices;
  std::vector<Dtypes> dtypes;
};

std::string layer_prefix(const Stack& stack, const std::string& label) {
  return fmt::format("{}.{}.", stack.path, label);
}

// Quantized layers and unquantized ones of the same shape are different layers.
std::vector<Dtypes> dtypes_of_layer(const Stack& stack, std::size_t index, const Shape& shape,
                                    const BuildSettings& settings,
                                    const Quantization& quantization) {
  if (quantization.empty()) return {};
  Workload scratch;
  Emitter out(scratch, "", settings.dtype, quantization);
  out.enter("", layer_prefix(stack, std::to_string(index)));
  emit_layer(out, stack.layers[index], shape, "");
  std::vector<Dtypes> dtypes;
  for (const Op& op : scratch.ops) dtypes.push_back(op.dtypes);
  return dtypes;
}

// Groups in the order in which their first layers appear.
std::vector<Group> group_layers(const Stack& stack, const Shape& shape,
                                const BuildSettings& settings, const Quantization& quantization) {
  std::vector<Group> groups;
  for (std::size_t index = 0; index < stack.layers.size(); ++index) {
    std::vector<Dtypes> dtypes = dtypes_of_layer(stack, index, shape, settings, quantization);
    Group* home = nullptr;
    for (Group& group : groups) {
      const auto& first = stack.layers[static_cast<std::size_t>(group.indices.front())];
      if (first == stack.layers[index] && group.dtypes == dtypes) home = &group;
    }
    if (home == nullptr) home = &groups.emplace_back(Group{{}, std::move(dtypes)});
    home->indices.push_back(static_cast<std::int64_t>(index));
  }
  return groups;
}

// The width follows with each stack.
Shape shape_of(const BuildSettings& settings, const Tower& tower, Value memory) {
  Shape shape;
  shape.batch = settings.batch;
  shape.length = tower.length;
  shape.memory_length = tower.memory_length;
  shape.past = tower.past;
  shape.memory = std::move(memory);
  shape.cache = settings.cache;
  return shape;
}

// Emits the parts of a tower one after the other.
class TowerBuilder {
 public:
  TowerBuilder(Emitter& out, const BuildSettings& settings, const Quantization& quantization,
               const Tower& tower, Value memory)
      : out_(out),
        settings_(settings),
        quantization_(quantization),
        shape_(shape_of(settings, tower, std::move(memory))) {
    require(static_cast<double>(settings.batch) *
                static_cast<double>(std::max(tower.past + tower.length, tower.memory_length)),
            "batch times sequence length", kMaxRows);
    for (const Part& part : tower.parts) {
      if (out_.error()) return;
      out_.leave();
      std::visit(*this, part);
    }
  }

  const Value& result() const { return current_; }

  void operator()(const Table& table) {
    const std::int64_t rows = shape_.rows();
    const Value looked_up = out_.add(table.path, Embedding{table.vocab, table.width, rows}, {});
    if (!table.tied) {
      out_.add_parameters(static_cast<double>(table.vocab) * static_cast<double>(table.width));
    }
    current_ = table.add ? out_.pointwise(table.path + "_add", "add", {current_, looked_up},
                                          rows * table.width)
                         : looked_up;
  }

  void operator()(const NormPart& part) {
    current_ = out_.norm(part.path, current_, part.norm, rows(part.rows), part.cols);
  }

  void operator()(const Projection& part) {
    Value result = out_.linear(part.path, part.reads.empty() ? current_ : part.reads,
                               {.rows = rows(part.rows),
                                .in = part.in,
                                .out = part.out,
                                .bias = part.bias,
                                .counts_parameters = !part.tied,
                                .usually_quantized = false});
    if (part.tied && part.bias) out_.add_parameters(static_cast<double>(part.out));
    if (!part.activation.empty()) {
      result = out_.pointwise(part.path + "_activation", part.activation, {result},
                              rows(part.rows) * part.out);
    }
    if (!part.branch) current_ = result;
  }

  void operator()(const Conv& part) {
    const Convolution& conv = part.body;
    require(output_elements(conv), part.path);
    if (out_.error()) return;
    const Value before = current_;
    const double weights =
        element_count({conv.k, conv.c / conv.groups}) * element_count(conv.kernel);
    out_.add_parameters(weights + (conv.bias ? static_cast<double>(conv.k) : 0.0) +
                        static_cast<double>(part.extra_parameters));
    current_ = out_.add(part.path, conv, {current_});
    std::int64_t positions = conv.n;
    for (const std::int64_t extent : output_extents(conv)) positions *= extent;
    // Group normalisation with one channel a group: each channel has its own statistics.
    const bool per_channel = part.norm.kind == NormKind::group;
    if (part.norm.present) {
      out_.add_parameters(static_cast<double>(conv.k) * 2.0);
      const Normalization body =
          per_channel ? Normalization{NormKind::group, conv.n * conv.k, positions / conv.n}
                      : Normalization{NormKind::layer, positions, conv.k};
      current_ = out_.add(part.path + "_norm", body, {current_});
    }
    if (!part.activation.empty()) {
      current_ = out_.pointwise(part.path + "_activation", part.activation, {current_},
                                positions * conv.k);
    }
    if (part.residual) {
      current_ =
          out_.pointwise(part.path + "_residual", "add", {before, current_}, positions * conv.k);
    }
  }

  void operator()(const Pointwise& part) {
    require(static_cast<double>(shape_.rows()) * static_cast<double>(part.width), part.path);
    if (out_.error()) return;
    current_ = out_.add(part.path, Elementwise{part.fn, shape_.rows() * part.width, part.inputs},
                        {current_});
  }

  void operator()(const Parameters& part) { out_.add_parameters(static_cast<double>(part.count)); }

  void operator()(const Emission& part) { current_ = part.emit(out_, current_); }

  void operator()(const Stack& stack) {
    shape_.hidden = stack.hidden;
    const double rows = static_cast<double>(shape_.batch) *
                        static_cast<double>(std::max(shape_.length, shape_.memory_length));
    for (const Layer& layer : stack.layers) {
      require(rows * widest_row(layer), stack.path);
      const double streams = static_cast<double>(
          std::max(layer.hyper_streams, layer.alternating ? layer.alternating->streams : 1));
      require(rows * static_cast<double>(stack.hidden) * streams, stack.path);
    }
    if (out_.error()) return;
    for (const Group& group : group_layers(stack, shape_, settings_, quantization_)) {
      const auto count = static_cast<std::int64_t>(group.indices.size());
      out_.enter(layer_prefix(stack, layer_label(group.indices)),
                 layer_prefix(stack, std::to_string(group.indices.front())), count,
                 stack.shared_weights ? 1 : count);
      const auto& layer = stack.layers[static_cast<std::size_t>(group.indices.front())];
      current_ = emit_layer(out_, layer, shape_, current_);
    }
  }

 private:
  void require(double elements, const std::string& what, double most = kMaxTensor) {
    if (elements > most) out_.fail_sizes(what, "a tensor would have more than 1e16 elements");
  }

  std::int64_t rows(Rows kind) const { return kind == Rows::tokens ? shape_.rows() : shape_.batch; }

  Emitter& out_;
  const BuildSettings& settings_;
  const Quantization& quantization_;
  Shape shape_;
  Value current_;
};

}  // namespace

std::string layer_label(const std::vector<std::int64_t>& indices) {
  if (indices.size() == 1) return std::to_string(indices.front());
  std::string runs;
  std::size_t shown = 0;
  for (std::size_t first = 0; first < indices.size();) {
    std::size_t last = first;
    while (last + 1 < indices.size() && indices[last + 1] == indices[last] + 1) ++last;
    if (!runs.empty()) runs += ',';
    if (shown++ == kShownRuns) return "{" + runs + "...}";
    runs += last == first ? std::to_string(indices[first])
                          : fmt::format("{}-{}", indices[first], indices[last]);
    first = last + 1;
  }
  return "{" + runs + "}";
}

namespace {

// Of a tower that has run before.
void count_parameters_alone(const Tower& tower, const BuildSettings& settings, Emitter& out) {
  Workload scratch;
  const Quantization none;
  Emitter alone(scratch, "", settings.dtype, none);
  const TowerBuilder built(alone, settings, none, tower, "");
  if (alone.error()) return out.fail_sizes("a tower", alone.error()->message);
  out.add_parameters(alone.parameters());
}

}  // namespace

Result<Workload> build_workload(const Model& model, const BuildSettings& settings,
                                const Quantization& quantization) {
  Workload workload;
  Emitter out(workload, settings.file, settings.dtype, quantization);
  Value memory;
  DecoderCache cache;
  for (const Tower& tower : model.towers) {
    if (!tower.runs) {
      count_parameters_alone(tower, settings, out);
      continue;
    }
    const TowerBuilder built(out, settings, quantization, tower, memory);
    memory = built.result();
    cache += cache_of(tower, settings.batch, settings.cache);
  }
  if (out.error()) return tl::unexpected(*out.error());
  if (cache.keys_and_values + cache.states > kMaxTensor)
    return fail("the sizes give a cache of more than 1e16 bytes");
  if (out.parameters() > kMaxParameters) {
    return fail(fmt::format("the sizes give {:.3g} parameters, expected at most {:.0g}",
                            out.parameters(), kMaxParameters));
  }
  workload.parameters = static_cast<std::int64_t>(out.parameters());
  if (!quantization.empty()) workload.weight_bytes = out.weight_bytes();
  workload.batch = settings.batch;
  workload.sequence = model.sequence;
  if (cache.keys_and_values > 0) workload.kv_cache_bytes = cache.keys_and_values;
  if (cache.states > 0) workload.recurrent_state_bytes = cache.states;
  workload.sources = {settings.file};
  workload.skipped = model.skipped;
  workload.notes = model.notes;
  return workload;
}

}  // namespace rooftile::hf
