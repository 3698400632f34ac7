// What the nodes of flow.h depend on: names, attributes, parameters, options.
#include <algorithm>
#include <limits>

#include "rooftile/base/text.h"
#include "rooftile/script/flow/flow.h"
#include "rooftile/workload/source_entries.h"

namespace rooftile::script {
namespace {

using source::ExprKind;
using source::StatementKind;
using source::TypeKind;

// Callers that are kept of a function: where there are so many, others may pass something else.
constexpr std::size_t kMaxCallers = 1000;

// Of several options of one name the one that the reading file defines itself.
const source::Option& nearest(const source::Store& store, const source::Option& found,
                              const source::File* file, std::string_view name) {
  const auto own = store.file_options.find(file);
  if (own == store.file_options.end()) return found;
  const auto defined = own->second.find(name);
  return defined == own->second.end() ? found : defined->second;
}

const source::Option* option_of(const source::Store& store, std::string_view name) {
  const auto found = store.options.find(name);
  return found == store.options.end() ? nullptr : &found->second;
}

bool is_assigned(const source::Expr& expr) {
  return expr.binding() != nullptr && expr.binding()->kind == StatementKind::assignment;
}

// `args.cuda = not args.no_cuda and is_available()`: as certain as what it is worked out from.
bool is_worked_out(const source::Option& option) {
  return option.is_entry && option.value != nullptr &&
         (option.value->kind == ExprKind::logical || option.value->kind == ExprKind::comparison);
}

// `action="store_true", default=True`: what it is without the switch it is with it.
bool is_fixed_switch(const source::Option& option) {
  if (option.value == nullptr || option.value->kind != ExprKind::boolean) return false;
  return option.action == (option.value->word() == "True" ? "store_true" : "store_false");
}

}  // namespace

void Flow::connect(NodeId id) {
  switch (nodes_[id].key.kind) {
    case NodeKind::value:
      return connect_value(id);
    case NodeKind::block:
      return connect_block(id);
    case NodeKind::attribute:
      return connect_attribute_cell(id);
    case NodeKind::variable:
      return connect_variable(id);
    case NodeKind::results:
      return connect_results(id);
    case NodeKind::pass:
      depend(id, node_of(*static_cast<const Function*>(nodes_[id].key.owner), nodes_[id].key.id,
                         nodes_[id].key.context));
      nodes_[id].rule = Rule::items;
      nodes_[id].may_depend_on_more = true;
      return;
  }
}

Flow::NodeId Flow::pass_of(NodeId value) {
  Key key = nodes_[value].key;
  key.kind = NodeKind::pass;
  return node(key);
}

void Flow::connect_value(NodeId id) {
  const Key key = nodes_[id].key;
  const auto& function = *static_cast<const Function*>(key.owner);
  const Instruction& made = function.values[key.id];
  const auto depend_on_operands = [&](Rule rule) {
    nodes_[id].rule = rule;
    for (const ValueId each : made.operands) depend(id, node_of(function, each, key.context));
  };
  switch (made.op) {
    case Op::undefined:
      return;
    case Op::parameter:
      return connect_parameter(id, function, made);
    case Op::free:
      return connect_free(id, function, made.word);
    case Op::constant:
      return is_constant(id, made.expr == nullptr ? constant_of(ValueKind::none, nullptr)
                                                  : literal_constant(*made.expr));
    case Op::phi:
      return connect_phi(id, function, made);
    case Op::name:
      return connect_name(id, function, made);
    case Op::attribute:
      return connect_attribute(id, made);
    case Op::item:
      return connect_item(id, function, made);
    case Op::call:
      return connect_call(id, function, key.id);
    case Op::operation:
      return depend_on_operands(Rule::operation);
    case Op::format:
      return depend_on_operands(Rule::format);
    case Op::sequence: {
      const bool is_written = is_one_of(made.word, {"list", "tuple", "dict"});
      return is_written ? is_constant(id, constant_of(ValueKind::list, made.expr))
                        : may_be_anything(id);
    }
    case Op::decorated:
      return depend(id, node_of(function, made.operands[1], key.context));
    case Op::import:
      if (connect_global(id, made.word)) return;
      [[fallthrough]];
    case Op::closure:
    case Op::definition: {
      Value name = constant_of(ValueKind::name, made.expr);
      name.text = made.word;
      return is_constant(id, name);
    }
    case Op::iterate:
      if (connect_index(id, function, function.values[made.operands[0]])) return;
      return depend(id, pass_of(node_of(function, made.operands[0], key.context)));
    case Op::element:
      depend_on_operands(Rule::items);
      nodes_[id].may_depend_on_more = true;
      return;
    default:
      return may_be_anything(id);
  }
}

// `for i in range(n)`
bool Flow::connect_index(NodeId id, const Function& function, const Instruction& iterated) {
  const source::Call* call = iterated.op == Op::call ? iterated.expr->call() : nullptr;
  const bool counts = call != nullptr && call->name == "range" && call->arguments.size() == 1 &&
                      !call->arguments.front().unpacked;
  const std::optional<NodeId> limit =
      counts ? node_of(call->arguments.front().value, &function, nodes_[id].key.context)
             : std::nullopt;
  if (!limit) return false;
  nodes_[id].rule = Rule::index;
  depend(id, *limit);
  return true;
}

void Flow::connect_block(NodeId id) {
  const Key key = nodes_[id].key;
  const auto& function = *static_cast<const Function*>(key.owner);
  nodes_[id].rule = Rule::block;
  for (const BlockId from : function.blocks[key.id].predecessors) {
    depend(id, node({NodeKind::block, &function, from, key.context}));
    const ValueId condition = function.blocks[from].condition;
    if (condition != kNone) depend(id, node_of(function, condition, key.context));
  }
}

void Flow::connect_phi(NodeId id, const Function& function, const Instruction& phi) {
  const std::uint32_t context = nodes_[id].key.context;
  const std::vector<BlockId>& from = function.blocks[phi.block].predecessors;
  nodes_[id].rule = Rule::phi;
  for (std::size_t i = 0; i < from.size(); ++i) {
    depend(id, node({NodeKind::block, &function, from[i], context}));
    const ValueId condition = function.blocks[from[i]].condition;
    if (condition != kNone) depend(id, node_of(function, condition, context));
    depend(id, node_of(function, phi.operands[i], context));
  }
}

// What the call of the context passes, or else what all callers do, or else the default.
void Flow::connect_parameter(NodeId id, const Function& function, const Instruction& made) {
  const source::FunctionDef* def = function.def;
  const auto found =
      def == nullptr
          ? nullptr
          : std::find_if(def->parameters.data(), def->parameters.data() + def->parameters.size(),
                         [&](const source::Parameter& each) { return each.name == made.word; });
  if (found == nullptr || found->starred || found->double_starred) return may_be_anything(id);
  const std::uint32_t context = nodes_[id].key.context;
  // A call that leaves an argument out gets the default for certain.
  if (context != 0) {
    return connect_caller(id, *contexts_[context], *def, *found, Certainty::constant);
  }
  if (function.kind == FunctionKind::lambda) connect_beside(id, function);
  // A lambda is called by whoever gets it.
  const bool is_open = function.kind == FunctionKind::lambda || def->callers.size() >= kMaxCallers;
  if (is_open) return may_be_anything(id);
  for (const source::Call* caller : def->callers) {
    connect_caller(id, *caller, *def, *found, Certainty::configurable);
  }
  if (def->callers.empty()) connect_default(id, *def, *found, Certainty::configurable);
}

// `copy_all(batch, lambda x: x.to(device))`: what the call gets that gets the lambda, or what the
// lambda itself gets.
void Flow::connect_beside(NodeId id, const Function& lambda) {
  if (lambda.outer == nullptr) return;
  const Function& outer = *lambda.outer;
  const auto is_lambda = [&](ValueId value) {
    while (outer.values[value].op == Op::name) value = outer.values[value].operands[0];
    const Expr* made = outer.values[value].expr;
    return made != nullptr && made->function() == lambda.def;
  };
  for (const Instruction& each : outer.values) {
    const bool gets = each.op == Op::call && std::ranges::any_of(each.operands, is_lambda);
    for (std::size_t i = 1; gets && i < each.operands.size(); ++i) {
      if (!is_lambda(each.operands[i])) depend(id, node_of(outer, each.operands[i], 0));
    }
  }
}

void Flow::connect_caller(NodeId id, const source::Call& caller, const source::FunctionDef& def,
                          const source::Parameter& parameter, Certainty usual) {
  const source::Argument* given = source::passed_argument(caller, def, parameter.name);
  // What is named is not among the `**options` that are not known.
  const bool is_open = caller.unknown_arguments && (given == nullptr || given->name.empty());
  if (is_open) {  // train(**vars(args)): the option of that name
    const source::Store& store = facts_->store();
    const source::Option* option =
        source::spreads_options(store, caller) ? option_of(store, parameter.name) : nullptr;
    if (option == nullptr) return may_be_anything(id);
    return connect_option(id, nearest(store, *option, caller.file, parameter.name));
  }
  if (given == nullptr) return connect_default(id, def, parameter, usual);
  depend(id, given->value, Certainty::constant);
}

// Of a parameter that is not passed: its default, or that of its @click.option.
void Flow::connect_default(NodeId id, const source::FunctionDef& def,
                           const source::Parameter& parameter, Certainty at_least) {
  const source::Store& store = facts_->store();
  const bool has_options = std::ranges::any_of(def.decorators, [](const Expr* each) {
    return each->call() != nullptr && each->call()->name == "click.option";
  });
  const source::Option* option = parameter.default_value == nullptr && has_options
                                     ? option_of(store, parameter.name)
                                     : nullptr;
  if (option == nullptr) return depend(id, parameter.default_value, at_least);
  connect_option(id, nearest(store, *option, def.file, parameter.name));
}

// Of an outer function all that the name is ever given, of the module what it is at the end.
void Flow::connect_free(NodeId id, const Function& function, std::string_view word) {
  const auto is_word = [&](const NamedValue& each) { return each.name == word; };
  const bool is_own =
      function.kind == FunctionKind::function && std::ranges::any_of(function.definitions, is_word);
  const bool is_shared = graphs_.shared_stores(*function.file).contains(word);
  if (is_own && !is_shared) return;  // read before its first assignment
  for (const Function* outer = function.outer; outer != nullptr; outer = outer->outer) {
    if (outer->kind == FunctionKind::class_body) continue;
    if (outer->kind == FunctionKind::module) break;
    bool is_found = false;
    for (const NamedValue& each : outer->definitions) {
      if (!is_word(each)) continue;
      depend(id, node_of(*outer, each.value, 0), Certainty::constant);
      is_found = true;
    }
    if (!is_found) continue;
    if (is_shared) may_be_anything(id);  // nonlocal
    return;
  }
  const Function& module = graphs_.of(*function.file).module();
  const bool is_variable = std::ranges::any_of(module.at_exit, is_word) || is_shared;
  if (!is_variable || &function == &module) return may_be_anything(id);
  depend(id, node({NodeKind::variable, &module, word_id(word), 0}), Certainty::constant);
}

void Flow::connect_variable(NodeId id) {
  const Key key = nodes_[id].key;
  const auto& module = *static_cast<const Function*>(key.owner);
  const std::string_view word = words_[key.id];
  // exec() at module level may replace any constant.
  const Certainty at_least = module.file->runs_exec ? Certainty::configurable : Certainty::literal;
  for (const NamedValue& each : module.at_exit) {
    if (each.name == word) depend(id, node_of(module, each.value, 0), at_least);
  }
  const Graphs::SharedStores& stores = graphs_.shared_stores(*module.file);
  const auto shared = stores.find(word);
  if (shared != stores.end()) {
    for (const ValuePlace& each : shared->second) {
      depend(id, node_of(*each.function, each.value, 0), at_least);
    }
  }
  const std::string full = module.file->module + "." + std::string(word);  // `settings.FLAG = True`
  for (const source::Statement* each : facts_->assignments(full)) {
    depend(id, each->target, Certainty::constant);
  }
  // The other file may only hand it on, under another name.
  if (nodes_[id].dependencies.empty()) may_be_anything(id);
}

void Flow::connect_name(NodeId id, const Function& function, const Instruction& made) {
  const bool is_defined =
      made.expr != nullptr && !made.expr->full_name().empty() && !is_assigned(*made.expr);
  if (is_defined) return connect_full_name(id, *made.expr);
  depend(id, node_of(function, made.operands[0], nodes_[id].key.context), Certainty::constant);
  // An inner function may have given it another value by then.
  const Graphs::SharedStores& stores = graphs_.shared_stores(*function.file);
  const auto shared = stores.find(made.word);
  if (shared == stores.end()) return;
  for (const ValuePlace& each : shared->second) {
    depend(id, node_of(*each.function, each.value, 0), Certainty::constant);
  }
}

// False where it is no variable of a given file.
bool Flow::connect_global(NodeId id, std::string_view full_name) {
  const source::Store& store = facts_->store();
  const auto global = store.globals.find(full_name);
  if (global == store.globals.end()) return false;
  const Function& module = graphs_.of(*global->second->file).module();
  const std::string_view word = full_name.substr(full_name.rfind('.') + 1);
  depend(id, node({NodeKind::variable, &module, word_id(word), 0}), Certainty::constant);
  return true;
}

void Flow::connect_full_name(NodeId id, const Expr& expr) {
  if (connect_global(id, expr.full_name())) return;
  if (is_one_of(expr.full_name(), {"math.inf", "torch.inf", "numpy.inf"})) {
    return is_constant(id, real_constant(std::numeric_limits<double>::infinity(), &expr));
  }
  Value name = constant_of(ValueKind::name, &expr);
  name.text = expr.full_name();
  is_constant(id, name);
}

void Flow::connect_attribute(NodeId id, const Instruction& made) {
  const Expr& expr = *made.expr;
  const source::Store& store = facts_->store();
  if (const Expr* given = source::written_attribute(store, expr)) {
    return depend(id, given, Certainty::configurable);
  }
  const source::Type& owner =
      expr.children().empty() ? source::unknown_type() : *expr.children()[0]->type;
  if (owner.class_def != nullptr && (connect_property(id, *owner.class_def, made.word) ||
                                     connect_class_attribute(id, *owner.class_def, made.word))) {
    return;
  }
  const bool has_place = owner.residence != source::Residence::unknown;
  if (owner.is(TypeKind::device) && made.word == "type" && has_place) {
    Value type = text_constant(owner.on_gpu() ? "cuda" : "cpu", &expr);
    type.certainty = Certainty::configurable;
    return is_constant(id, type);
  }
  if (connect_global(id, expr.full_name())) return;
  if (is_assigned(expr)) {
    const Expr* given = source::assigned_value(*expr.binding(), expr.word());
    return depend(id, given, Certainty::constant);
  }
  if (!expr.full_name().empty() && !source::is_of_global(store, expr)) {
    return connect_full_name(id, expr);
  }
  const source::Option* option = configured(expr);
  const bool is_plain =
      owner.is(TypeKind::unknown) || owner.is(TypeKind::host_object) || owner.guessed;
  if (option == nullptr || !is_plain) return may_be_anything(id);
  connect_option(id, *option);
}

// Of cfg.train.workers the entry "train.workers", else the option "workers".
const source::Option* Flow::configured(const Expr& expr) const {
  const source::Store& store = facts_->store();
  const Expr* root = &expr;
  while (root->kind == ExprKind::attribute) root = root->children()[0];
  if (root != &expr && root->kind == ExprKind::name) {
    const std::string_view whole = expr.statement->file->slice(expr.range);
    for (std::size_t dot = whole.find('.'); dot != std::string_view::npos;
         dot = whole.find('.', dot + 1)) {
      if (const source::Option* found = option_of(store, whole.substr(dot + 1))) {
        return &nearest(store, *found, expr.statement->file, expr.word());
      }
    }
  }
  const source::Option* found = option_of(store, expr.word());
  if (found == nullptr) return found;
  return &nearest(store, *found, expr.statement->file, expr.word());
}

bool Flow::connect_property(NodeId id, const source::ClassDef& def, std::string_view word) {
  for (const source::ClassDef* each : source::lineage(&def)) {
    const source::FunctionDef* getter = each->method(word);
    if (getter == nullptr) continue;
    const bool is_property = std::ranges::any_of(getter->decorators, [](const Expr* decorator) {
      return is_one_of(decorator->word(), {"property", "cached_property"});
    });
    if (is_property) connect_called(id, *getter, 0);
    return is_property;
  }
  return false;
}

// False where the class has no such attribute.
bool Flow::connect_class_attribute(NodeId id, const source::ClassDef& def, std::string_view word) {
  const NodeId cell = node({NodeKind::attribute, &def, word_id(word), 0});
  if (nodes_[cell].index == 0 && nodes_[cell].dependencies.empty()) connect_attribute_cell(cell);
  if (nodes_[cell].dependencies.empty()) return false;
  depend(id, cell, Certainty::constant);
  return true;
}

// All that is stored in the attribute of objects of the class, of its bases and of those derived
// from it; before that the value in the class body.
void Flow::connect_attribute_cell(NodeId id) {
  const Key key = nodes_[id].key;
  if (!nodes_[id].dependencies.empty()) return;  // connected before it was met
  const auto& def = *static_cast<const source::ClassDef*>(key.owner);
  const std::string_view word = words_[key.id];
  const std::vector<const source::ClassDef*> line = source::lineage(&def);
  const auto is_related = [&](const source::ClassDef* other) {
    if (other == nullptr) return false;
    if (std::ranges::find(line, other) != line.end()) return true;
    const std::vector<const source::ClassDef*> theirs = source::lineage(other);
    return std::ranges::find(theirs, &def) != theirs.end();
  };
  for (const Expr* target : graphs_.stores(*facts_, word)) {
    const bool has_owner = !target->children().empty();
    const source::ClassDef* owner = has_owner ? target->children()[0]->type->class_def : nullptr;
    const source::FunctionDef* method = target->statement->function;
    const bool is_self = has_owner && method != nullptr && method->class_def != nullptr &&
                         target->children()[0]->word() == "self";
    if (is_related(is_self ? method->class_def : owner)) depend(id, target, Certainty::constant);
  }
  for (const source::ClassDef* each : line) {
    const Function* body = graphs_.body(*each);
    if (body == nullptr) continue;
    const auto found = std::ranges::find(body->at_exit, word, &NamedValue::name);
    if (found == body->at_exit.end() || each->method(word) != nullptr) continue;
    depend(id, node_of(*body, found->value, 0),
           each->is_config ? Certainty::configurable : Certainty::constant);
    break;
  }
  connect_fields(id, def, word);
}

// Of a dataclass what its objects are made with.
void Flow::connect_fields(NodeId id, const source::ClassDef& def, std::string_view word) {
  if (!def.is_config || def.method("__init__") != nullptr) return;
  int position = 0;
  bool has_field = false;
  for (const source::Statement* each : def.body) {
    const bool is_field = each->kind == StatementKind::assignment;
    has_field = has_field || (is_field && each->target->word() == word);
    position += is_field && !has_field ? 1 : 0;
  }
  for (const source::Call* call : facts_->calls(def.full_name)) {
    const source::Argument* given = has_field ? call->argument(word, position) : nullptr;
    if (given != nullptr) depend(id, given->value, Certainty::configurable);
  }
}

// config["workers"] of a dict that the given files write out; sizes[1].
void Flow::connect_item(NodeId id, const Function& function, const Instruction& made) {
  const source::Store& store = facts_->store();
  if (const Expr* item = source::written_item(store, *made.expr)) {
    return depend(id, item, Certainty::configurable);
  }
  const source::Option* option = option_of(store, source::parsed_key(store, *made.expr));
  if (option != nullptr) return connect_option(id, *option);
  const bool is_by_index = made.expr->kind == ExprKind::subscript && made.operands.size() == 2 &&
                           made.expr->children()[1]->kind == ExprKind::integer;
  if (!is_by_index) return may_be_anything(id);
  depend(id, node_of(function, made.operands[0], nodes_[id].key.context));
  nodes_[id].rule = Rule::items;
  nodes_[id].may_depend_on_more = true;
}

namespace {

// What a command gives, as the option's default or type has it; unknown where that is not clear.
Value given_constant(const source::Option& option, std::string_view given) {
  const source::Expr* usual = option.value;
  const bool is_truth = usual != nullptr && usual->kind == ExprKind::boolean;
  const bool is_list = usual != nullptr && usual->kind == ExprKind::list;
  if (given == source::kUnclear || is_list) return constant_of(ValueKind::unknown, nullptr);
  if (option.action.starts_with("store_"))
    return boolean_constant(option.action == "store_true", nullptr);
  if (option.is_number) return number_constant(given, nullptr);
  if (is_truth) {
    const bool is_clear = is_one_of(given, {"True", "False", "true", "false", "1", "0"});
    return is_clear ? boolean_constant(is_one_of(given, {"True", "true", "1"}), nullptr)
                    : constant_of(ValueKind::unknown, nullptr);
  }
  const bool is_plain =
      option.action.empty() && !given.empty() &&
      (usual == nullptr || usual->kind == ExprKind::text || usual->kind == ExprKind::none);
  return is_plain ? text_constant(given, nullptr) : constant_of(ValueKind::unknown, nullptr);
}

}  // namespace

void Flow::join_option(NodeId id, Value value) {
  value.certainty = std::max(value.certainty, Certainty::configurable);
  KnownValue given = nodes_[id].value;
  given.join(KnownValue::of(value));
  nodes_[id].value = given;
}

// What documented commands give, and the default where one leaves it out, or there are none.
void Flow::connect_option(NodeId id, const source::Option& option) {
  for (const std::string_view given : option.given) join_option(id, given_constant(option, given));
  if (option.is_given) return;
  if (option.several) return may_be_anything(id);
  const bool is_quoted =
      option.value != nullptr && option.is_number && option.value->kind == ExprKind::text;
  if (option.value != nullptr && !is_quoted) {
    return depend(id, option.value,
                  is_fixed_switch(option) || is_worked_out(option) ? Certainty::constant
                                                                   : Certainty::configurable);
  }
  Value usual = constant_of(option.is_required ? ValueKind::unknown : ValueKind::none, nullptr);
  const bool is_off = option.action == "store_true";
  if (is_off || option.action == "store_false") usual = boolean_constant(!is_off, nullptr);
  if (is_quoted) usual = number_constant(option.value->word(), option.value);
  join_option(id, usual);
}

}  // namespace rooftile::script
