// What calls depend on (flow.h).
#include <algorithm>

#include "rooftile/base/text.h"
#include "rooftile/script/flow/flow.h"
#include "rooftile/script/library/library.h"
#include "rooftile/workload/source_entries.h"

namespace rooftile::script {
namespace {

bool gives_same(const source::Expr& decorator) {
  const source::Call* call = decorator.call();
  return call != nullptr ? keeps_results(call->name, call->method)
                         : keeps_results(decorator.full_name(), decorator.word());
}

}  // namespace

std::uint32_t Flow::context_of(const source::Call& call) {
  const auto next = static_cast<std::uint32_t>(contexts_.size());
  const auto [place, is_new] = context_by_call_.try_emplace(&call, next);
  if (is_new) contexts_.push_back(&call);
  return place->second;
}

void Flow::connect_call(NodeId id, const Function& function, ValueId value) {
  const Instruction& made = function.values[value];
  const source::Call& call = *made.expr->call();
  if (connect_library_call(id, function, made)) return;
  const bool makes_object =
      call.target != nullptr && call.target->name == "__init__" && call.method != "__init__";
  if (makes_object || made.operands.empty()) return may_be_anything(id);
  // A method by its name alone may be another one.
  const bool is_sure =
      call.target != nullptr && (call.target->class_def == nullptr || call.receiver == nullptr ||
                                 call.receiver_type().class_def != nullptr);
  if (is_sure) return connect_called(id, *call.target, context_of(call));
  // What is called is a value, as a lambda in a variable.
  depend(id, node_of(function, made.operands[0], nodes_[id].key.context));
  nodes_[id].rule = Rule::items;
  nodes_[id].may_depend_on_more = true;
}

// False where the call is none whose result is known by the library's name.
bool Flow::connect_library_call(NodeId id, const Function& function, const Instruction& made) {
  const source::Call& call = *made.expr->call();
  const std::uint32_t context = nodes_[id].key.context;
  const auto depend_on_argument = [&](std::size_t i, Certainty at_least) {
    const std::optional<NodeId> given = node_of(call.arguments[i].value, &function, context);
    if (!given) return may_be_anything(id);
    depend(id, *given, at_least);
  };
  if (is_true_with_gpu(call.name)) {
    Value answer = boolean_constant(true, made.expr);  // the run that is judged has a GPU
    answer.certainty = Certainty::configurable;
    is_constant(id, answer);
    return true;
  }
  const bool is_plain = !call.arguments.empty() && !call.unknown_arguments;
  if (is_plain && is_one_of(call.name, {"int", "float", "bool", "str"})) {
    nodes_[id].rule = Rule::convert;
    depend_on_argument(0, Certainty::literal);
    return true;
  }
  if (is_plain && is_one_of(call.name, {"min", "max", "abs", "len"})) {
    nodes_[id].rule = Rule::reduce;
    for (std::size_t i = 0; i < call.arguments.size(); ++i) {
      depend_on_argument(i, Certainty::literal);
    }
    return true;
  }
  // enumerate() gives pairs.
  if (is_plain && call.name != "enumerate" && library_call(call.name).gives == Gives::argument) {
    depend_on_argument(0, Certainty::literal);
    return true;
  }
  const bool is_declared = call.name == "typer.Option" || call.name == "typer.Argument";
  const bool has_fallback =
      is_one_of(call.name, {"os.environ.get", "os.getenv"}) || source::is_fallback(call);
  if (!is_declared && !has_fallback) return false;
  const Expr* written =
      is_declared || call.arguments.empty() ? nullptr : source::written_get(facts_->store(), call);
  const std::size_t usual = is_declared ? 0 : 1;
  if (written != nullptr) {
    depend(id, written, Certainty::configurable);
  } else if (usual < call.arguments.size()) {
    depend_on_argument(usual, Certainty::configurable);
  } else {
    may_be_anything(id);
  }
  return true;
}

// What the function gives back, and those that override it.
void Flow::connect_called(NodeId id, const source::FunctionDef& def, std::uint32_t context) {
  std::vector<const source::FunctionDef*> all = overrides(def);
  all.push_back(&def);
  for (const source::FunctionDef* each : all) {
    const Function* body = graphs_.body(*each);
    if (body == nullptr) return may_be_anything(id);
    depend(id, node({NodeKind::results, body, 0, context}), Certainty::constant);
  }
}

void Flow::connect_results(NodeId id) {
  const Key key = nodes_[id].key;
  const auto& body = *static_cast<const Function*>(key.owner);
  const bool is_open = body.def == nullptr || body.is_generator || body.def->is_async ||
                       !std::ranges::all_of(body.def->decorators,
                                            [](const Expr* each) { return gives_same(*each); });
  if (is_open) return may_be_anything(id);
  nodes_[id].rule = Rule::results;
  const auto depend_on_block = [&](BlockId block) {
    depend(id, node({NodeKind::block, &body, block, key.context}));
  };
  for (const ValueId result : body.results) {
    depend_on_block(body.values[result].block);
    depend(id, node_of(body, body.values[result].operands[0], key.context));
  }
  if (body.end != kNone) depend_on_block(body.end);
}

// Methods of derived classes that a call of this one may lead to.
std::vector<const source::FunctionDef*> Flow::overrides(const source::FunctionDef& def) {
  if (def.class_def == nullptr) return {};
  if (!std::exchange(has_derived_, true)) {
    for (const auto& file : facts_->files) {
      for (const source::ClassDef* each : file->classes) {
        for (const source::ClassDef* base : source::lineage(each)) {
          if (base != each) derived_[base].push_back(each);
        }
      }
    }
  }
  std::vector<const source::FunctionDef*> found;
  for (const source::ClassDef* each : derived_[def.class_def]) {
    if (const source::FunctionDef* method = each->method(def.name)) found.push_back(method);
  }
  return found;
}

// Once it is known which list is unpacked, or what is called.
void Flow::connect_more(NodeId id) {
  const NodeId whole = nodes_[id].dependencies.front().node;
  const Node& first = nodes_[whole];
  const Key key = nodes_[id].key;
  if (first.value.is_never_made() && !first.is_open) return;
  const auto& function = *static_cast<const Function*>(key.owner);
  const Instruction* made = key.kind == NodeKind::value ? &function.values[key.id] : nullptr;
  if (made == nullptr || made->op != Op::call) {
    const std::string_view place = made == nullptr        ? std::string_view()
                                   : made->op == Op::item ? made->expr->children()[1]->word()
                                                          : made->word;
    if (first.is_open) return may_be_anything(id);
    if (first.value.is_anything()) {
      return connect_unwritten(id, whole, place) ? void() : may_be_anything(id);
    }
    for (const Value& each : std::vector(first.value.constants())) connect_items(id, each, place);
    return;
  }
  const Value* only = first.is_open ? nullptr : first.value.only();
  if (only == nullptr) return may_be_anything(id);
  if (only->found != nullptr && only->found->function() != nullptr) {
    return connect_called(id, *only->found->function(), context_of(*made->expr->call()));
  }
  const auto& functions = facts_->store().functions_by_name;
  const auto named = only->kind == ValueKind::name ? functions.find(only->text) : functions.end();
  if (named == functions.end()) return may_be_anything(id);
  connect_called(id, *named->second, context_of(*made->expr->call()));
}

// What a comprehension that makes a list puts into it.
std::optional<Flow::NodeId> Flow::comprehended(NodeId list) {
  const Key key = nodes_[list].key;
  const auto& function = *static_cast<const Function*>(key.owner);
  const Instruction& made = function.values[key.id];
  const bool is_list =
      made.op == Op::sequence && made.word == "comprehension" && made.operands.size() == 1;
  if (!is_list) return std::nullopt;
  return node_of(function, made.operands[0], key.context);
}

// The part at a place of what a pass over zip() or enumerate() gives.
std::optional<Flow::NodeId> Flow::part_of_pass(NodeId iterated, std::string_view place) {
  const source::Expr* expr = expr_of(iterated);
  const source::Call* call = expr == nullptr ? nullptr : expr->call();
  const auto index = parse_integer(place);
  if (call == nullptr || call->unknown_arguments || !index || *index < 0) return std::nullopt;
  const bool counts = call->name == "enumerate";
  if (counts ? *index != 1 : call->name != "zip") return std::nullopt;
  const auto argument = static_cast<std::size_t>(counts ? 0 : *index);
  const Key key = nodes_[iterated].key;
  const auto& function = *static_cast<const Function*>(key.owner);
  const std::span<const ValueId> operands = function.values[key.id].operands;
  if (argument + 1 >= operands.size()) return std::nullopt;
  return pass_of(node_of(function, operands[argument + 1], key.context));
}

// What a comprehension makes, and the parts of what a pass over zip() and enumerate() gives. False
// where the whole may be something else, too.
bool Flow::connect_unwritten(NodeId id, NodeId whole, std::string_view place) {
  std::vector<NodeId> items;
  const auto add = [&](std::optional<NodeId> item) {
    if (item) items.push_back(*item);
    return item.has_value();
  };
  for (const NodeId end : ends(whole)) {
    const Key key = nodes_[end].key;
    if (key.kind == NodeKind::value && place.empty()) {
      if (!add(comprehended(end))) return false;
      continue;
    }
    if (key.kind != NodeKind::pass || place.empty()) return false;
    const auto& function = *static_cast<const Function*>(key.owner);
    for (const NodeId iterated : ends(node_of(function, key.id, key.context))) {
      if (!add(part_of_pass(iterated, place))) return false;
    }
  }
  for (const NodeId item : items) depend(id, item, Certainty::constant);
  return !items.empty();
}

// The item at a place of a list or tuple that is written out; all of them without a place.
void Flow::connect_items(NodeId id, const Value& list, std::string_view place) {
  const bool is_row = list.kind == ValueKind::list && list.found != nullptr &&
                      list.found->kind != source::ExprKind::dict;
  const std::span<const Expr* const> items =
      is_row ? list.found->children() : std::span<const Expr* const>();
  const bool is_whole = std::ranges::none_of(
      items, [](const Expr* item) { return item->kind == source::ExprKind::starred; });
  const auto index = place.empty() ? std::optional<std::int64_t>(-1) : parse_integer(place);
  const bool is_inside = index && *index < static_cast<std::int64_t>(items.size());
  if (items.empty() || !is_whole || !is_inside) return may_be_anything(id);
  if (*index >= 0) return depend(id, items[static_cast<std::size_t>(*index)], Certainty::constant);
  for (const Expr* item : items) depend(id, item, Certainty::constant);
}

}  // namespace rooftile::script
