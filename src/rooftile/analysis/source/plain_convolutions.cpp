// Whether the network that is trained has plain convolutions, also beside attention, for
// layer_queries.h.
#include <algorithm>

#include "rooftile/analysis/source/layer_queries.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"

namespace rooftile::source {
namespace {

constexpr std::int64_t kPlainChannels = 32;

// BasicBlock of ResNet(BasicBlock, depths)
std::vector<const ClassDef*> passed_classes(const ClassDef& network) {
  const FunctionDef* init = network.method("__init__");
  if (init == nullptr) return {};
  std::vector<const ClassDef*> passed;
  for (const Call* caller : init->callers) {
    for (const Argument& given : caller->arguments) {
      const Type& type = *given.value->type;
      const bool is_module =
          type.is(TypeKind::class_) && type.class_def != nullptr && type.class_def->is_module;
      if (is_module) passed.push_back(type.class_def);
    }
  }
  return passed;
}

bool is_called_below(const File& entry, const FunctionDef& function) {
  constexpr int kLevelsToEntry = 6;
  return any_call_above(function, kLevelsToEntry,
                        [&](const Call& call) { return call.file == &entry; });
}

// The class, its bases and the modules that it makes, also those inside of them.
std::vector<const ClassDef*> parts_of(const ClassDef& network) {
  constexpr std::size_t kMostClasses = 64;
  std::vector<const ClassDef*> parts{&network};
  const auto add = [&](const ClassDef* def) {
    const bool is_new = def != nullptr && std::ranges::find(parts, def) == parts.end();
    if (is_new && parts.size() < kMostClasses) parts.push_back(def);
  };
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (const Expr* base : parts[i]->bases) add(base->type->class_def);
    for (const ClassDef* passed : passed_classes(*parts[i])) add(passed);
    for (const FunctionDef* method : parts[i]->methods) {
      for (const Call* call : method->calls) {
        if (call->expr->type->made_by == call) add(call->expr->type->class_def);
      }
    }
  }
  return parts;
}

// The own networks that a run with all defaults makes, outside of other networks: `if args.model ==
// "resnet18": net = ResNet18()`, with more branches.
std::vector<const ClassDef*> default_networks(const SourceFacts& facts, const Program& program) {
  constexpr std::size_t kMostNetworks = 8;
  if (program.entry == nullptr) return {};
  std::vector<const ClassDef*> networks;
  for (const Call* call : constructions_in(facts, program, TypeKind::module)) {
    const ClassDef* def = call->expr->type->class_def;
    const FunctionDef* function = call->function;
    if (def == nullptr || std::ranges::find(networks, def) != networks.end()) continue;
    const bool is_part =
        function != nullptr && function->class_def != nullptr && function->class_def->is_module;
    const bool is_called = function == nullptr ? call->file == program.entry
                                               : is_called_below(*program.entry, *function);
    if (is_part || !is_called || !is_reached_by_default(facts, *call)) continue;
    networks.push_back(def);
    if (networks.size() > kMostNetworks) return {};
  }
  return networks;
}

bool has_attention_class(const std::vector<const ClassDef*>& parts) {
  return std::ranges::any_of(parts, [](const ClassDef* def) {
    return contains_any(def->name, {"Transformer", "Attention", "MultiHead"});
  });
}

}  // namespace

bool trains_plain_convolution(const SourceFacts& facts, const Program& program) {
  const Call* forward = forward_call(facts, program);
  const Expr* model = forward == nullptr ? nullptr : forward->expr->children().front();
  if (model == nullptr) return false;
  std::vector<const ClassDef*> parts;
  if (model->type->class_def != nullptr) {
    parts = parts_of(*model->type->class_def);
  } else {
    for (const ClassDef* def : default_networks(facts, program)) {
      const auto inside = parts_of(*def);
      if (has_attention_class(inside)) return false;
      parts.insert(parts.end(), inside.begin(), inside.end());
    }
  }
  const auto calls = calls_in(facts, program, {"torch.nn.Conv2d", "torch.nn.Conv3d"});
  return std::ranges::any_of(calls, [&](const Call* call) {
    const ClassDef* home = call->function == nullptr ? nullptr : call->function->class_def;
    if (std::ranges::find(parts, home) == parts.end()) return false;
    const Argument* window = call->argument("kernel_size", 2);
    const Argument* stride = call->argument("stride", 3);
    const bool is_wide = window != nullptr && largest_size(facts, window->value).value_or(0) >= 3;
    const bool steps = stride != nullptr && !facts.value(stride->value).is(1);
    if (!is_wide || steps || call->argument("groups", 6) != nullptr) return false;
    const auto sizes = wide_convolution(facts, program, *call);
    return sizes && std::min(*sizes->first, *sizes->second) >= kPlainChannels;
  });
}

}  // namespace rooftile::source
