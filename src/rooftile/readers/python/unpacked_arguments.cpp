// DataLoader(dataset, **kwargs) with kwargs = {"num_workers": 4} above.
#include <algorithm>
#include <optional>

#include "rooftile/base/text.h"
#include "rooftile/readers/python/derive.h"
#include "rooftile/workload/source_entries.h"

namespace rooftile::source {
namespace {

constexpr int kMaxDepth = 7;
constexpr std::size_t kMaxItems = 256;
// Bounds for generated files: statements looked at for one call, and calls of a file.
constexpr std::size_t kMaxStatements = 200'000;
constexpr std::size_t kMaxCalls = 2'000;
constexpr std::size_t kMaxGivers = 8;  // callers that are asked for what they pass

class Follower {
 public:
  explicit Follower(const Call& call) : call_(call) {}

  // Whether all items of the dictionary are known.
  bool follow(const Expr& unpacked, int depth = 0) {
    if (depth > kMaxDepth || items_.size() > kMaxItems) return false;
    if (unpacked.kind == ExprKind::dict) return take_literal(unpacked, depth);
    if (unpacked.kind == ExprKind::call && makes_dictionary(*unpacked.call())) {
      return take_call(*unpacked.call(), depth);
    }
    if (unpacked.kind == ExprKind::call && unpacked.call()->target != nullptr) {
      return follow_function(*unpacked.call()->target, depth);
    }
    if (unpacked.kind == ExprKind::conditional) {
      // {"num_workers": 1} if use_cuda else {}
      return follow(*unpacked.children()[0], depth + 1) &&
             follow(*unpacked.children()[2], depth + 1);
    }
    if (unpacked.kind == ExprKind::attribute && unpacked.binding() != nullptr) {
      // self.options = {"num_workers": 1}, once
      const Expr* set = assigned_value(*unpacked.binding(), unpacked.word());
      return set != nullptr && set->kind == ExprKind::dict && take_literal(*set, depth);
    }
    return unpacked.kind == ExprKind::name && !is_elsewhere_ &&
           follow_variable(unpacked.word(), depth);
  }

  std::vector<Argument> take() { return std::move(items_); }
  // What another branch than the last gives.
  std::vector<Argument> take_alternatives() { return std::move(alternatives_); }
  // Whether two branches, of which one runs, set an item.
  bool differs() const { return differs_; }

  const Expr* item(std::string_view name) const {
    const auto known = std::ranges::find(items_, name, &Argument::name);
    return known == items_.end() ? nullptr : known->value;
  }

 private:
  // `if not args.cpu: options["pin_memory"] = True`, and False in its else: either may be it.
  static bool excludes(const Statement* first, const Statement* second) {
    for (const Statement* at = second; at != nullptr; at = at->parent) {
      const Statement* outer = at->parent;
      if (outer == nullptr || outer->kind != StatementKind::if_ || first == nullptr) continue;
      const bool is_else = at->block.data() == outer->otherwise.data();
      const bool has_first = std::ranges::any_of(
          outer->body, [&](const Statement* inner) { return is_within(*first, *inner); });
      if (is_else && has_first) return true;
    }
    return false;
  }

  void keep_alternatives(const Statement& next) {
    for (const Argument& item : items_) {
      if (excludes(item.value->statement, &next)) alternatives_.push_back(item);
    }
  }

  void add(std::string_view name, const Expr* value) {
    const auto known = std::ranges::find(items_, name, &Argument::name);
    if (known != items_.end()) {
      known->value = value;
      return;
    }
    Argument argument;
    argument.name = name;
    argument.value = value;
    argument.range = value->range;
    argument.followed = true;
    items_.push_back(argument);
  }

  // options["workers"] = 4
  void set_item(std::string_view name, const Statement& statement) {
    const Expr* before = item(name);
    differs_ = differs_ || (before != nullptr && excludes(before->statement, &statement));
    add(name, statement.value);
  }

  // options.setdefault("workers", 4)
  void set_default(const Call& call) {
    if (call.arguments.size() != 2) return;
    const Expr& key = *call.arguments[0].value;
    if (key.kind == ExprKind::text && item(key.word()) == nullptr) {
      add(key.word(), call.arguments[1].value);
    }
  }

  bool take_literal(const Expr& dict, int depth) {
    bool all = true;
    for (std::size_t i = 0; i + 1 < dict.children().size(); i += 2) {
      const Expr& key = *dict.children()[i];
      if (key.kind == ExprKind::text) {
        add(key.word(), dict.children()[i + 1]);
      } else if (dict.children()[i + 1]->kind == ExprKind::starred) {
        all = follow(*dict.children()[i + 1]->children()[0], depth + 1) && all;
      } else {
        all = false;
      }
    }
    return all;
  }

  bool take_call(const Call& call, int depth) {
    bool all = true;
    for (const Argument& argument : call.arguments) {
      if (argument.followed || !argument.name.empty()) {
        add(argument.name, argument.value);
      } else if (argument.unpacked) {
        all = !argument.value->children().empty() &&
              follow(*argument.value->children()[0], depth + 1) && all;
      } else {
        all = follow(*argument.value, depth + 1) && all;
      }
    }
    return all;
  }

  // loader_options(), a function of the project: what it returns, if in one place.
  bool follow_function(const FunctionDef& function, int depth) {
    const Statement* last = function.body.empty() ? nullptr : function.body.back();
    if (last == nullptr || last->kind != StatementKind::return_ || last->value == nullptr) {
      return false;
    }
    if (is_elsewhere_ || count_returns(function.body) != 1) return false;
    is_elsewhere_ = true;
    const bool is_known = follow_returned(function, *last, depth);
    is_elsewhere_ = false;
    return is_known;
  }

  bool follow_returned(const FunctionDef& function, const Statement& last, int depth) {
    if (last.value->kind == ExprKind::dict) return take_literal(*last.value, depth + 1);
    if (last.value->kind != ExprKind::name) return false;
    const Before end{function.file, &function, last.range.begin};
    return read_variable(end, last.value->word(), depth + 1).value_or(false);
  }

  static int count_returns(std::span<const Statement* const> block) {
    int returns = 0;
    for (const Statement* statement : block) {
      if (statement->function_def != nullptr) continue;
      returns += statement->kind == StatementKind::return_ ? 1 : 0;
      returns += count_returns(statement->body);
      returns += count_returns(statement->otherwise);
    }
    return returns;
  }

  bool follow_variable(std::string_view variable, int depth) {
    const auto found =
        read_variable({call_.file, call_.function, call_.expr->range.begin}, variable, depth);
    if (found) return *found;
    const FunctionDef* function = call_.function;
    const bool is_given = function == nullptr ||
                          std::ranges::find(function->parameters, variable, &Parameter::name) !=
                              function->parameters.end();
    if (is_given) return follow_parameter(variable, depth);
    // Set at the top of the file, above or below the function.
    const auto end = static_cast<std::uint32_t>(call_.file->text.size());
    return read_variable({call_.file, nullptr, end}, variable, depth).value_or(false);
  }

  struct Before {
    const File* file = nullptr;
    const FunctionDef* function = nullptr;
    std::uint32_t place = 0;
  };

  // Whether all of it is known; empty where the variable is not set before that place.
  std::optional<bool> read_variable(const Before& end, std::string_view variable, int depth) {
    bool found = false;
    bool all = true;
    for (const Statement* statement : end.file->statements) {
      if (statement->range.begin >= end.place) break;
      if (++looked_at_ > kMaxStatements) return false;
      if (statement->function != end.function) continue;
      if (statement->kind == StatementKind::assignment && statement->value != nullptr) {
        const Expr& target = *statement->target;
        if (is_variable(target, variable)) {
          keep_alternatives(*statement);
          all = follow(*statement->value, depth + 1);
          found = true;
        } else if (is_item_of(target, variable)) {
          const Expr& key = *target.children()[1];
          if (key.kind == ExprKind::text) set_item(key.word(), *statement);
        } else if (is_member_of(target, variable)) {
          set_item(target.word(), *statement);
        }
      } else if (const Call* update = change_of(*statement, variable, "update")) {
        all = take_call(*update, depth + 1) && all;
      } else if (const Call* usual = change_of(*statement, variable, "setdefault")) {
        set_default(*usual);
      }
    }
    return found ? std::optional(all) : std::nullopt;
  }

  // `**kwargs` of the function itself: what its callers pass beyond the named parameters, where
  // all pass the same.
  bool follow_parameter(std::string_view variable, int depth) {
    const FunctionDef* function = call_.function;
    if (function == nullptr || depth >= kMaxDepth) return false;
    if (function->callers.empty() || function->callers.size() > kMaxGivers) return false;
    const auto& parameters = function->parameters;
    const auto parameter = std::ranges::find(parameters, variable, &Parameter::name);
    bool all = true;
    std::vector<Argument> common;
    for (const Call* caller : function->callers) {
      Follower one(call_);
      all = (parameter->double_starred ? one.follow_rest(*caller, depth)
                                       : one.follow_passed(*caller, variable, depth)) &&
            all;
      if (caller == function->callers.front()) common = one.items_;
      if (!are_equal(common, one.items_)) return false;
    }
    for (const Argument& item : common) add(item.name, item.value);
    return all;
  }

  static bool are_equal(std::span<const Argument> first, std::span<const Argument> second) {
    const auto text = [](const Argument& item) {
      return item.value->statement->file->slice(item.value->range);
    };
    return std::ranges::equal(first, second, [&](const Argument& a, const Argument& b) {
      return a.name == b.name && (a.value == b.value || (!text(a).empty() && text(a) == text(b)));
    });
  }

  // What one caller passes beyond the named parameters.
  bool follow_rest(const Call& caller, int depth) {
    const auto& parameters = call_.function->parameters;
    Follower there(caller);
    bool all = true;
    for (const Argument& argument : caller.arguments) {
      if (argument.unpacked) {
        all = argument.value->word() == "**" &&
              there.follow(*argument.value->children()[0], depth + 1) && all;
      } else if (!argument.name.empty()) {
        there.add(argument.name, argument.value);
      }
    }
    for (const Argument& item : there.take()) {
      const bool is_named =
          std::ranges::find(parameters, item.name, &Parameter::name) != parameters.end();
      if (!is_named) add(item.name, item.value);
    }
    return all;
  }

  // A dictionary that the caller passes, by name, or as an entry of a `**config` of its own.
  bool follow_passed(const Call& caller, std::string_view variable, int depth) {
    Follower there(caller);
    const Argument* given = passed_argument(caller, *call_.function, variable);
    const Expr* passed = given == nullptr ? nullptr : given->value;
    for (const Argument& argument : caller.arguments) {
      if (passed != nullptr || !argument.unpacked || argument.value->word() != "**") continue;
      Follower config(caller);
      config.follow(*argument.value->children()[0], depth + 1);
      passed = config.item(variable);
    }
    if (passed == nullptr) return false;
    const bool all = there.follow(*passed, depth + 1);
    for (const Argument& item : there.take()) add(item.name, item.value);
    return all;
  }

  // dict(a=1), EasyDict(a=1)
  static bool makes_dictionary(const Call& call) {
    return call.name == "dict" || is_one_of(call.method, {"edict", "EasyDict", "AttrDict",
                                                          "ConfigDict", "Munch", "DotMap"});
  }

  static bool is_variable(const Expr& expr, std::string_view variable) {
    return expr.kind == ExprKind::name && expr.word() == variable;
  }

  static bool is_member_of(const Expr& target, std::string_view variable) {
    return target.kind == ExprKind::attribute && is_variable(*target.children()[0], variable);
  }

  static bool is_item_of(const Expr& target, std::string_view variable) {
    return target.kind == ExprKind::subscript && target.children().size() == 2 &&
           is_variable(*target.children()[0], variable);
  }

  static const Call* change_of(const Statement& statement, std::string_view variable,
                               std::string_view method) {
    if (statement.kind != StatementKind::expression) return nullptr;
    const Call* call = statement.value->call();
    const bool matches = call != nullptr && call->method == method && call->receiver != nullptr &&
                         is_variable(*call->receiver, variable);
    return matches ? call : nullptr;
  }

  const Call& call_;
  std::vector<Argument> items_, alternatives_;
  std::size_t looked_at_ = 0;
  bool differs_ = false;
  bool is_elsewhere_ = false;  // in a function that the call's arguments come from
};

void follow(Call& call, Arena& arena) {
  std::vector<Argument> all;
  bool unknown = false;
  for (const Argument& argument : call.arguments) {
    if (argument.followed) continue;
    all.push_back(argument);
    if (!argument.unpacked) continue;
    const Expr& value = *argument.value;
    Follower follower(call);
    const bool known =
        value.word() == "**" && follower.follow(*value.children()[0]) && !follower.differs();
    unknown = unknown || !known;
    for (Argument& item : follower.take()) all.push_back(item);
    for (Argument& item : follower.take_alternatives()) all.push_back(item);
  }
  call.arguments = arena.copy(std::span<const Argument>(all));
  call.unknown_arguments = unknown;
}

}  // namespace

void follow_unpacked_arguments(SourceFacts& facts) {
  for (const auto& file : facts.files) {
    std::size_t followed = 0;
    for (const Call* call : file->calls) {
      if (!call->unknown_arguments || ++followed > kMaxCalls) continue;
      follow(const_cast<Call&>(*call), facts.store().arena);
    }
  }
}

void index_calls(SourceFacts& facts) {
  Store& store = facts.store();
  for (const auto& file : facts.files) {
    std::vector<const Call*> calls = file->calls;
    std::ranges::sort(calls, {}, [](const Call* call) { return call->expr->range.begin; });
    file->calls = calls;
    for (const Call* call : calls) {
      if (!call->name.empty()) store.calls_by_name[call->name].push_back(call);
      if (!call->method.empty()) store.calls_by_method[call->method].push_back(call);
      const Type& made = *call->expr->type;
      if (call->name.empty() && made.made_by == call) {
        for (const ClassDef* def : made.classes()) {
          store.calls_by_name[def->full_name].push_back(call);
        }
      }
      if (made.made_by == call) store.calls_by_kind[made.kind].push_back(call);
      if (call->function != nullptr) {
        const_cast<FunctionDef*>(call->function)->calls.push_back(call);
      }
    }
  }
}

}  // namespace rooftile::source
