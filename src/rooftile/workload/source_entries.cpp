#include "rooftile/workload/source_entries.h"

#include <algorithm>

#include "rooftile/base/text.h"

namespace rooftile::source {
namespace {

// Names that lead to each other, dicts in dicts.
constexpr int kMaxSteps = 8;

bool sets_name(const Statement& binding) {
  return binding.kind == StatementKind::assignment && binding.word == "=" &&
         binding.target != nullptr && binding.target->kind == ExprKind::name;
}

// What the one call that is seen passes for a parameter; null for other names.
const Expr* passed(const Expr& name) {
  const FunctionDef* function = name.statement == nullptr ? nullptr : name.statement->function;
  if (function == nullptr || function->callers.size() != 1) return nullptr;
  const Argument* given = passed_argument(*function->callers.front(), *function, name.word());
  return given == nullptr ? nullptr : given->value;
}

// What a name was set to, here or in the file it is imported from; itself for other expressions.
const Expr* origin(const Store& store, const Expr* expr) {
  for (int i = 0; i < kMaxSteps && expr != nullptr; ++i) {
    const Statement* binding = expr->binding();
    const bool is_set_here = binding != nullptr && sets_name(*binding);
    if (!is_set_here && !expr->full_name().empty()) {
      const auto global = store.globals.find(expr->full_name());
      binding = global == store.globals.end() ? nullptr : global->second;
    }
    const bool is_followed = binding != nullptr && sets_name(*binding) && binding->value != nullptr;
    const bool may_be_passed = binding == nullptr && expr->kind == ExprKind::name;
    const Expr* given = may_be_passed ? passed(*expr) : nullptr;
    if (!is_followed && given == nullptr) return expr;
    expr = is_followed ? binding->value : given;
  }
  return expr;
}

// Objects that have their keyword arguments as attributes or items.
bool makes_entries(const Call& call) {
  return is_one_of(call.method,
                   {"dict", "edict", "EasyDict", "AttrDict", "ConfigDict", "HParams", "CfgNode",
                    "Munch", "SimpleNamespace", "DotMap", "Namespace", "OrderedDict"});
}

// An own class whose __init__ keeps all keywords: `self.__dict__.update(kwargs)`, or setattr in a
// loop over them.
bool keeps_keywords(const Call& call) {
  const FunctionDef* init = call.target;
  const bool takes_all = init != nullptr && init->name == "__init__" && call.method != "__init__" &&
                         !init->parameters.empty() && init->parameters.back().double_starred;
  if (!takes_all) return false;
  return std::ranges::any_of(init->calls, [](const Call* one) {
    const bool updates =
        one->method == "update" && one->receiver != nullptr && one->receiver->word() == "__dict__";
    return updates || (one->receiver == nullptr && one->method == "setattr");
  });
}

// [("width", 64), ("depth", 3)]
bool is_list_of_pairs(const Expr& list) {
  return list.kind == ExprKind::list && !list.children().empty() &&
         std::ranges::all_of(list.children(), [](const Expr* item) {
           return item->kind == ExprKind::tuple && item->children().size() == 2;
         });
}

// {"width": 64} in `edict({"width": 64})`, and the pairs in `OrderedDict([("width", 64)])`
const Expr* table_given(const Call& call) {
  if (call.arguments.size() != 1 || call.arguments[0].unpacked) return nullptr;
  const Expr* given = call.arguments[0].value;
  const bool is_table = given->kind == ExprKind::dict || is_list_of_pairs(*given);
  return call.arguments[0].name.empty() && is_table ? given : nullptr;
}

// What a function of the given files returns where it has one `return`, at its end: a dict, or a
// call that makes entries, also by a variable that is set once.
const Expr* returned_table(const Call& call) {
  const FunctionDef* function = call.target;
  if (function == nullptr || function->name == "__init__" || function->body.empty()) return nullptr;
  const Statement* last = function->body.back();
  if (last->kind != StatementKind::return_ || last->value == nullptr) return nullptr;
  const auto& statements = function->file->statements;
  const auto returns = std::ranges::count_if(statements, [&](const Statement* one) {
    return one->kind == StatementKind::return_ && one->function == function;
  });
  const Expr* value = last->value;
  if (value->kind == ExprKind::name && value->binding() != nullptr &&
      sets_name(*value->binding())) {
    value = value->binding()->value;
  }
  const bool is_table =
      value != nullptr && (value->kind == ExprKind::dict ||
                           (value->call() != nullptr && makes_entries(*value->call())));
  return returns == 1 && is_table ? value : nullptr;
}

// Of a dict that is written out, of pairs, or of a call with keywords or one of these.
const Expr* table_entry(const Expr& table, const Expr& key) {
  const bool is_word = key.kind == ExprKind::attribute;
  const auto is_key = [&](const Expr& one) {
    return (one.kind == key.kind || (is_word && one.kind == ExprKind::text)) &&
           one.word() == key.word();
  };
  if (table.kind == ExprKind::list) {
    const auto found = std::ranges::find_if(
        table.children(), [&](const Expr* pair) { return is_key(*pair->children()[0]); });
    return found == table.children().end() ? nullptr : (*found)->children()[1];
  }
  if (table.kind != ExprKind::dict) {
    const Expr* inner = table.call() == nullptr ? nullptr : table_given(*table.call());
    if (inner != nullptr) return table_entry(*inner, key);
    const Argument* given = table.call() == nullptr ? nullptr : table.call()->argument(key.word());
    return given == nullptr || given->unpacked ? nullptr : given->value;
  }
  for (std::size_t i = 0; i + 1 < table.children().size(); i += 2) {
    if (is_key(*table.children()[i])) return table.children()[i + 1];
  }
  return nullptr;
}

// The entry `key` of a dict that is written out, or of a call that makes one.
const Expr* entry(const Expr& holder, const Expr& key) {
  if (holder.kind == ExprKind::dict) {
    return key.kind == ExprKind::attribute ? nullptr : table_entry(holder, key);
  }
  const bool has_words = key.kind == ExprKind::text || key.kind == ExprKind::attribute;
  if (!has_words || holder.call() == nullptr) return nullptr;
  if (const Expr* table = returned_table(*holder.call())) return table_entry(*table, key);
  const bool has_entries = makes_entries(*holder.call()) || keeps_keywords(*holder.call());
  if (!has_entries) return nullptr;
  if (const Expr* table = table_given(*holder.call())) return table_entry(*table, key);
  const Argument* given = holder.call()->argument(key.word());
  return given == nullptr || given->unpacked ? nullptr : given->value;
}

// Whether the file that reads config["key"] sets it too.
bool is_set_again(const File& file, std::string_view key) {
  const auto& statements = file.statements;
  return std::ranges::any_of(statements, [&](const Statement* statement) {
    const Expr* target = statement->target;
    return target != nullptr && target->kind == ExprKind::subscript &&
           target->children().size() == 2 && target->children()[1]->word() == key;
  });
}

// Of args.dataset the default of that option, where it is one text; itself for other keys.
const Expr& chosen_key(const Store& store, const Expr& key) {
  if (key.kind != ExprKind::attribute) return key;
  const auto option = store.options.find(key.word());
  const bool is_text = option != store.options.end() && !option->second.several &&
                       option->second.value != nullptr &&
                       option->second.value->kind == ExprKind::text;
  return is_text ? *option->second.value : key;
}

// options["width"] of a function's `**options`, where one call is seen.
const Expr* spread_item(const Expr& table, const Expr& key) {
  const bool may_be = table.kind == ExprKind::name && table.binding() == nullptr &&
                      table.statement != nullptr && key.kind == ExprKind::text;
  const FunctionDef* function = may_be ? table.statement->function : nullptr;
  if (function == nullptr || function->callers.size() != 1 || function->parameters.empty()) {
    return nullptr;
  }
  const Parameter& last = function->parameters.back();
  if (!last.double_starred || last.name != table.word()) return nullptr;
  const Argument* given = function->callers.front()->argument(key.word());
  return given == nullptr || given->unpacked ? nullptr : given->value;
}

const Expr* item_of(const Store& store, const Expr& subscript, int depth) {
  if (subscript.children().size() != 2 || subscript.statement == nullptr || depth > kMaxSteps) {
    return nullptr;
  }
  const Expr& key = chosen_key(store, *subscript.children()[1]);
  if (key.kind != ExprKind::text && key.kind != ExprKind::integer) return nullptr;
  const Expr* holder = origin(store, subscript.children()[0]);
  if (holder != nullptr && holder->kind == ExprKind::subscript) {
    holder = origin(store, item_of(store, *holder, depth + 1));
  }
  const Expr* item = holder == nullptr ? nullptr : entry(*holder, key);
  if (item == nullptr && holder != nullptr) item = spread_item(*holder, key);
  const bool is_set = item != nullptr && is_set_again(*subscript.statement->file, key.word());
  return is_set ? nullptr : item;
}

}  // namespace

const Expr* assigned_value(const Statement& binding, std::string_view name) {
  const Expr* target = binding.target;
  const Expr* value = binding.value;
  const bool is_plain = binding.kind == StatementKind::assignment && binding.word == "=" &&
                        target != nullptr && value != nullptr;
  if (!is_plain) return nullptr;
  if (target->kind == ExprKind::name || target->kind == ExprKind::attribute) return value;
  const auto is_row = [](const Expr& expr) {
    return expr.kind == ExprKind::tuple || expr.kind == ExprKind::list;
  };
  const bool is_parallel =
      is_row(*target) && is_row(*value) && target->children().size() == value->children().size();
  for (std::size_t i = 0; is_parallel && i < target->children().size(); ++i) {
    const Expr& part = *target->children()[i];
    const bool is_named = part.kind == ExprKind::name || part.kind == ExprKind::attribute;
    if (is_named && part.word() == name) return value->children()[i];
  }
  return nullptr;
}

const Expr* written_item(const Store& store, const Expr& subscript) {
  return item_of(store, subscript, 0);
}

const Expr* written_get(const Store& store, const Call& call) {
  const Expr& key = *call.arguments[0].value;
  const Expr* holder = origin(store, call.receiver);
  if (holder != nullptr && holder->kind == ExprKind::subscript) holder = item_of(store, *holder, 0);
  const Expr* item = holder == nullptr ? nullptr : entry(*holder, key);
  return item == nullptr || is_set_again(*call.file, key.word()) ? nullptr : item;
}

const Expr* written_attribute(const Store& store, const Expr& attribute) {
  if (attribute.children().empty()) return nullptr;
  const Expr* holder = origin(store, attribute.children()[0]);
  return holder == nullptr || holder->call() == nullptr ? nullptr : entry(*holder, attribute);
}

namespace {

bool is_vars(const Expr* expr) {
  if (expr == nullptr) return false;
  if (expr->kind == ExprKind::attribute) return expr->word() == "__dict__";
  return expr->call() != nullptr && expr->call()->receiver == nullptr &&
         expr->call()->method == "vars";
}

// `kwargs` of `def main(**kwargs)`, where a caller writes main(**vars(args)).
bool holds_parsed_options(const Store& store, const Expr& table) {
  const FunctionDef* function = table.statement == nullptr ? nullptr : table.statement->function;
  if (function == nullptr || table.binding() != nullptr || function->parameters.empty())
    return false;
  const Parameter& last = function->parameters.back();
  if (!last.double_starred || last.name != table.word()) return false;
  return std::ranges::any_of(function->callers, [&](const Call* call) {
    return std::ranges::any_of(call->arguments, [&](const Argument& argument) {
      const bool is_spread = argument.unpacked && argument.value->kind == ExprKind::starred &&
                             argument.value->word() == "**" && !argument.value->children().empty();
      return is_spread && is_vars(origin(store, argument.value->children()[0]));
    });
  });
}

// `args`, what parse_args() gives.
bool is_parsed_object(const Store& store, const Expr* object) {
  const Expr* made = object == nullptr ? nullptr : origin(store, object);
  if (made == nullptr) return false;
  const Call* call = made->call();
  const std::string_view word = call != nullptr ? call->method : object->word();
  return call != nullptr ? word == "parse_args" : is_one_of(word, {"args", "opt", "opts"});
}

// `config` of `def make(config)`, by the name that settings have, which comes out of no file and
// is not written out: the options of the program under another name.
bool may_hold_options(const Store& store, const Expr& table) {
  const bool is_parameter = table.binding() == nullptr && table.full_name().empty();
  if (!is_parameter ||
      !is_one_of(table.word(), {"config", "cfg", "args", "opt", "opts", "params"})) {
    return false;
  }
  const Expr* made = origin(store, &table);
  if (made == nullptr || made->kind == ExprKind::dict) return false;
  const Call* call = made->call();
  return call == nullptr || (!makes_entries(*call) && !contains_any(call->method, {"load"}));
}

}  // namespace

bool spreads_options(const Store& store, const Call& call) {
  return std::ranges::any_of(call.arguments, [&](const Argument& argument) {
    const bool is_spread =
        argument.unpacked && argument.value->word() == "**" && !argument.value->children().empty();
    const Expr* table = is_spread ? origin(store, argument.value->children()[0]) : nullptr;
    if (!is_vars(table)) return false;
    if (table->call() == nullptr) return is_parsed_object(store, table->children().front());
    return table->call()->arguments.size() == 1 &&
           is_parsed_object(store, table->call()->arguments.front().value);
  });
}

std::string_view parsed_key(const Store& store, const Expr& subscript) {
  const bool has_key = subscript.children().size() == 2 &&
                       subscript.children()[1]->kind == ExprKind::text &&
                       subscript.children()[0]->kind == ExprKind::name;
  if (!has_key) return {};
  const Expr& table = *subscript.children()[0];
  const auto global = store.globals.find(table.full_name());
  const Statement* set = table.binding();
  if (set == nullptr && global != store.globals.end()) set = global->second;
  const bool is_parsed = (set != nullptr && is_vars(set->value)) ||
                         holds_parsed_options(store, table) || may_hold_options(store, table);
  return is_parsed ? subscript.children()[1]->word() : std::string_view();
}

bool is_fallback(const Call& call) {
  // `for group in optimizer.param_groups: group.get("ignore", None)`: data, and no settings.
  const Statement* set = call.receiver == nullptr ? nullptr : call.receiver->binding();
  if (set != nullptr && set->kind == StatementKind::for_) return false;
  return call.method == "get" && call.receiver != nullptr && call.target == nullptr &&
         call.arguments.size() == 2 && call.arguments[0].value->kind == ExprKind::text &&
         call.arguments[1].name.empty() && call.receiver->type->class_def == nullptr;
}

bool is_of_global(const Store& store, const Expr& attribute) {
  if (attribute.full_name().starts_with("torch.") ||
      store.globals.contains(attribute.full_name())) {
    return false;
  }
  const Expr* root = &attribute;
  std::string_view owner = attribute.full_name();
  while (root->kind == ExprKind::attribute && !root->children().empty()) {
    root = root->children()[0];
    owner = owner.substr(0, std::min(owner.size(), owner.rfind('.')));
    if (store.globals.contains(root->full_name())) return true;
    const auto global = store.globals.find(owner);
    const bool is_set =
        global != store.globals.end() && global->second->kind == StatementKind::assignment;
    if (is_set) return true;
  }
  if (attribute.statement == nullptr || root->full_name().empty()) return false;
  // Out of a given file, also one that has it from another.
  bool is_in_file = false;
  for (const File* file : attribute.statement->file->imported) {
    const std::string_view module = file->module;
    const std::string_view whole = root->full_name();
    if (whole == module) return false;
    is_in_file = is_in_file || (whole.size() > module.size() && whole.starts_with(module) &&
                                whole[module.size()] == '.');
  }
  return is_in_file && !store.functions_by_name.contains(root->full_name()) &&
         !store.classes_by_name.contains(root->full_name());
}

}  // namespace rooftile::source
