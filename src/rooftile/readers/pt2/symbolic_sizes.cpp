#include "rooftile/readers/pt2/symbolic_sizes.h"

#include <fmt/format.h>

#include <algorithm>

#include "rooftile/base/text.h"
#include "rooftile/workload/validate.h"

namespace rooftile::pt2_reader_detail {
namespace {

using pt2_format::Graph;
using pt2_format::InputKind;
using pt2_format::InputSpec;
using pt2_format::Program;
using pt2_format::Size;
using pt2_format::TensorMeta;

// Sizes of the same value of an honest file have the same hint; else the least.
void remember(const Size& size, pt2_format::Symbols& hints) {
  const auto name = pt2_format::symbol_name(size.expression);
  if (!name || !size.number) return;
  const auto [at, is_new] = hints.emplace(*name, *size.number);
  if (!is_new) at->second = std::min(at->second, *size.number);
}

const TensorMeta* tensor_of(const Program& program, const InputSpec& input) {
  if (input.kind != InputKind::user) return nullptr;
  const auto found = program.graph.tensors.find(input.name);
  return found == program.graph.tensors.end() || found->second.sizes.empty() ? nullptr
                                                                             : &found->second;
}

bool is_integer(int dtype) { return dtype == 4 || dtype == 5; }  // INT and LONG of the schema

constexpr std::size_t kShownSymbols = 8;

}  // namespace

SymbolicSizes::SymbolicSizes(const Program& program, const ReadOptions& options)
    : ranges_(program.ranges) {
  take_hints(program.graph);
  for (const auto& [symbol, range] : program.ranges) {
    if (pt2_format::symbol_name(symbol) == symbol) names_.insert(symbol);
  }
  for (const auto& [symbol, hint] : symbols_) names_.insert(symbol);
  for (const InputSpec& input : program.inputs) {
    const TensorMeta* tensor = tensor_of(program, input);
    if (tensor == nullptr) continue;
    for (std::size_t axis = 0; axis < tensor->sizes.size(); ++axis) {
      const auto name = pt2_format::symbol_name(tensor->sizes[axis].expression);
      if (name) places_.emplace(*name, fmt::format("size {} of {}", axis, input.name));
    }
  }
  take_names(options);
  take_first_input(program, options);
}

void SymbolicSizes::take_hints(const Graph& graph) {
  for (const auto& [name, tensor] : graph.tensors) {
    for (const Size& size : tensor.sizes) remember(size, symbols_);
  }
  for (const auto& [name, size] : graph.numbers) remember(size, symbols_);
}

void SymbolicSizes::take_names(const ReadOptions& options) {
  for (const auto& [name, size] : options.dims) {
    if (names_.contains(name)) {
      symbols_[name] = size;
      given_.insert(name);
    } else {
      unused_.push_back("--dim " + name);
    }
  }
}

bool SymbolicSizes::set(const Size& size, std::int64_t wanted) {
  const auto name = pt2_format::symbol_name(size.expression);
  if (!name) return false;
  symbols_[*name] = wanted;
  given_.insert(*name);
  return true;
}

void SymbolicSizes::take_first_input(const Program& program, const ReadOptions& options) {
  const TensorMeta* first = nullptr;
  for (const InputSpec& input : program.inputs) {
    if (first == nullptr) first = tensor_of(program, input);
  }
  const auto take = [&](std::size_t axis, std::optional<std::int64_t> wanted, const char* flag) {
    if (!wanted) return;
    const bool has_size = first != nullptr && axis < first->sizes.size();
    const bool is_that =
        has_size && (set(first->sizes[axis], *wanted) || value(first->sizes[axis]) == wanted);
    if (!is_that) unused_.emplace_back(flag);
  };
  take(0, options.batch, "--batch");
  take(1, options.seq, "--seq");
  known_.clear();
  if (first == nullptr) return;
  const auto size_at = [&](std::size_t axis) {
    const auto size = value(first->sizes[axis]);
    return size == 0 ? std::nullopt : size;
  };
  batch_ = size_at(0);
  const bool counts_positions = first->sizes.size() == 2 && is_integer(first->dtype);
  if (counts_positions) sequence_ = size_at(1);
}

std::optional<std::int64_t> SymbolicSizes::compute(const Size& size) const {
  if (size.expression.empty()) return size.number;
  const auto [at, is_new] = known_.try_emplace(size.expression);
  if (!is_new) return at->second;
  at->second = pt2_format::evaluate(size.expression, symbols_);
  // What the export computed holds as long as nobody asks for other sizes.
  if (!at->second && given_.empty()) at->second = size.number;
  return at->second;
}

std::optional<std::int64_t> SymbolicSizes::value(const Size& size) const {
  const auto found = compute(size);
  return found && *found >= 0 && *found <= kMaxSize ? found : std::nullopt;
}

void SymbolicSizes::add_note(std::vector<std::string>& notes, bool given) const {
  std::vector<std::string> texts;
  for (const auto& [symbol, place] : places_) {
    const auto found = symbols_.find(symbol);
    if (found == symbols_.end() || given_.contains(symbol) != given) continue;
    texts.push_back(fmt::format("{} = {} ({})", symbol, found->second, place));
  }
  if (texts.empty()) return;
  texts.resize(std::min(texts.size(), kShownSymbols));
  notes.push_back(given ? fmt::format("sizes as asked for: {}", join(texts, ", "))
                        : fmt::format("dynamic sizes as they were at the export: {}; set them with "
                                      "--batch, --seq or --dim NAME=N",
                                      join(texts, ", ")));
}

std::vector<std::string> SymbolicSizes::notes() const {
  std::vector<std::string> notes;
  if (!unused_.empty()) {
    notes.push_back(fmt::format(
        "{}: no such size was left open by the export ({}); export with dynamic_shapes",
        join(unused_, ", "),
        names_.empty() ? "none was" : "it has " + join({names_.begin(), names_.end()}, ", ")));
  }
  add_note(notes, true);
  add_note(notes, false);
  for (const std::string& symbol : given_) {
    const auto range = ranges_.find(symbol);
    const auto found = symbols_.find(symbol);
    if (range == ranges_.end() || found == symbols_.end()) continue;
    const auto [least, most] = range->second;
    if (found->second >= least.value_or(found->second) &&
        found->second <= most.value_or(found->second)) {
      continue;
    }
    notes.push_back(fmt::format("{} = {} is outside of the sizes that the export allows ({} to {})",
                                symbol, found->second, least ? std::to_string(*least) : "any",
                                most ? std::to_string(*most) : "any"));
  }
  std::vector<std::string> unknown;
  for (const std::string& symbol : names_) {
    if (!symbols_.contains(symbol)) unknown.push_back(symbol);
  }
  if (!unknown.empty()) {
    unknown.resize(std::min(unknown.size(), kShownSymbols));
    notes.push_back(fmt::format("sizes that depend on data: {}; set them with --dim NAME=N",
                                join(unknown, ", ")));
  }
  return notes;
}

}  // namespace rooftile::pt2_reader_detail
