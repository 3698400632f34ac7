// Layers of a program that repeat.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "rooftile/aten/program.h"
#include "rooftile/base/text.h"
#include "rooftile/workload/workload_bytes.h"

namespace rooftile {
namespace {

constexpr std::size_t kDeepest = 12;  // parts of a module path

// "encoder.layers.3.mlp" at part 2: number "3", the path around it "encoder.layers.*.mlp".
struct Numbered {
  std::string_view number;
  std::size_t begin = 0, end = 0;  // of the part in the path
};

std::optional<Numbered> numbered_part(std::string_view path, std::size_t part) {
  std::size_t begin = 0;
  for (; part > 0; --part) {
    const std::size_t dot = path.find('.', begin);
    if (dot == std::string_view::npos) return std::nullopt;
    begin = dot + 1;
  }
  const std::size_t end = std::min(path.find('.', begin), path.size());
  std::size_t digits = end;
  while (digits > begin && path[digits - 1] >= '0' && path[digits - 1] <= '9') --digits;
  if (digits == end) return std::nullopt;
  return Numbered{path.substr(digits, end - digits), digits, end};
}

std::string starred(const std::string& text, const Numbered& part) {
  return text.substr(0, part.begin) + "*" + text.substr(part.end);
}

// A run of operations of one layer.
struct Layer {
  std::size_t begin = 0, end = 0;
  std::string_view stem, number;  // empty number: of no layer

  std::size_t size() const { return end - begin; }
};

class Folder {
 public:
  explicit Folder(std::vector<Op> ops) : ops_(std::move(ops)) {}

  std::vector<Op> run() {
    for (std::size_t part = kDeepest; part-- > 0;) fold_at(part);
    return std::move(ops_);
  }

 private:
  std::vector<Layer> layers_at(std::size_t part) const {
    std::vector<Layer> layers;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      const std::string_view path = ops_[i].source.module;
      Layer layer{i, i + 1, {}, {}};
      if (const auto found = numbered_part(path, part)) {
        layer.stem = path.substr(0, found->begin);
        layer.number = found->number;
      }
      const bool goes_on = !layers.empty() && layers.back().stem == layer.stem &&
                           layers.back().number == layer.number;
      if (goes_on) {
        layers.back().end = i + 1;
      } else {
        layers.push_back(layer);
      }
    }
    return layers;
  }

  // What the operation does, and where in its layer.
  std::string key_of(const Op& op, std::size_t part) const {
    const auto found = numbered_part(op.source.module, part);
    std::string key = shape_bytes(op);
    key += static_cast<char>('0' + static_cast<int>(op.phase));
    key += static_cast<char>('0' + static_cast<int>(op.streams.walk));
    for (const std::int64_t number : {op.streams.bytes, op.streams.elements, op.count}) {
      key += std::to_string(number) + " ";
    }
    const bool is_named_so = found && op.name.starts_with(op.source.module);
    key += is_named_so ? starred(op.name, *found) : op.name;
    return key;
  }

  bool are_equal(const Layer& a, const Layer& b, const std::vector<std::string>& keys) const {
    return a.stem == b.stem && !a.number.empty() && !b.number.empty() && a.size() == b.size() &&
           std::equal(keys.begin() + static_cast<std::ptrdiff_t>(a.begin),
                      keys.begin() + static_cast<std::ptrdiff_t>(a.end),
                      keys.begin() + static_cast<std::ptrdiff_t>(b.begin));
  }

  void fold_at(std::size_t part) {
    const std::vector<Layer> layers = layers_at(part);
    const bool has_layers =
        std::ranges::any_of(layers, [](const Layer& layer) { return !layer.number.empty(); });
    if (!has_layers) return;
    std::vector<std::string> keys;
    for (const Op& op : ops_) keys.push_back(key_of(op, part));
    std::vector<Op> folded;
    std::unordered_map<std::string, std::string> renamed;
    for (std::size_t i = 0; i < layers.size();) {
      std::size_t next = i + 1;
      while (next < layers.size() && are_equal(layers[i], layers[next], keys)) ++next;
      for (std::size_t repeat = i + 1; repeat < next; ++repeat) {
        rename_outputs(layers[i], layers[repeat], renamed);
      }
      take(layers[i], static_cast<std::int64_t>(next - i), part, renamed, folded);
      i = next;
    }
    ops_ = std::move(folded);
  }

  void rename_outputs(const Layer& first, const Layer& repeat,
                      std::unordered_map<std::string, std::string>& renamed) const {
    for (std::size_t at = 0; at < first.size(); ++at) {
      const auto &to = ops_[first.begin + at].outputs, &from = ops_[repeat.begin + at].outputs;
      for (std::size_t i = 0; i < std::min(to.size(), from.size()); ++i) renamed[from[i]] = to[i];
    }
  }

  void take(const Layer& layer, std::int64_t repeats, std::size_t part,
            const std::unordered_map<std::string, std::string>& renamed, std::vector<Op>& folded) {
    for (std::size_t i = layer.begin; i < layer.end; ++i) {
      Op op = std::move(ops_[i]);
      for (std::string& value : op.inputs) {
        if (const auto found = renamed.find(value); found != renamed.end()) value = found->second;
      }
      if (repeats > 1) {
        op.count *= repeats;
        const auto found = numbered_part(op.source.module, part);
        if (op.name.starts_with(op.source.module)) op.name = starred(op.name, *found);
        op.source.module = starred(op.source.module, *found);
      }
      folded.push_back(std::move(op));
    }
  }

  std::vector<Op> ops_;
};

}  // namespace

std::vector<Op> fold_repeated_layers(std::vector<Op> ops) { return Folder(std::move(ops)).run(); }

}  // namespace rooftile
