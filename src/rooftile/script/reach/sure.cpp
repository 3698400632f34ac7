#include "rooftile/script/reach/sure.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <unordered_map>
#include <vector>

#include "rooftile/base/text.h"
#include "rooftile/script/reach/conditions.h"
#include "rooftile/script/reach/passes.h"
#include "rooftile/script/reach/path.h"
#include "rooftile/script/reach/programs.h"
#include "rooftile/script/reach/refused.h"
#include "rooftile/script/reach/unused.h"
#include "rooftile/script/reach/ways_up.h"
#include "rooftile/workload/source_store.h"
#include "rooftile/workload/source_walks.h"

namespace rooftile::source {
namespace {

struct SureToRun {
  std::vector<const Expr*> texts;  // that no comparison asks for
  std::unordered_map<std::string_view, bool> given;
  std::unordered_map<const void*, bool> known;  // by FunctionDef or ClassDef
  std::unordered_map<const ClassDef*, std::vector<const ClassDef*>> derived;
};

const std::vector<const ClassDef*>& derived_from(const SourceFacts& facts, const ClassDef& def) {
  auto& derived = facts.store().kept<SureToRun>().derived;
  if (derived.empty()) {
    for (const auto& file : facts.files) {
      for (const ClassDef* other : file->classes) {
        derived[other];
        for (const Expr* base : other->bases) {
          if (base->type->class_def != nullptr) derived[base->type->class_def].push_back(other);
        }
      }
    }
  }
  return derived[&def];
}

// `help="sum, max or concat"` tells what could be given.
bool is_help(const Expr& text) {
  const Call* call = text.parent == nullptr ? nullptr : text.parent->call();
  const Argument* help = call == nullptr ? nullptr : call->argument("help");
  return help != nullptr && help->value == &text;
}

void add_texts(const Expr* expr, std::vector<const Expr*>& texts) {
  visit(expr, [&](const Expr& part) {
    if (is_help(part)) return false;
    if (part.kind == ExprKind::text && part.word().size() > 1 && !part.word().starts_with('-'))
      texts.push_back(&part);
    return part.kind != ExprKind::comparison;
  });
}

// All texts of the files, those of classes' decorators left out.
const std::vector<const Expr*>& texts_of(const SourceFacts& facts) {
  auto& texts = facts.store().kept<SureToRun>().texts;
  if (!texts.empty()) return texts;
  for (const auto& file : facts.files) {
    for (const Statement* statement : file->statements) {
      const bool is_documentation =
          statement->kind == StatementKind::expression && statement->value->kind == ExprKind::text;
      if (is_documentation) continue;
      for_own_expressions(*statement, [&](const Expr* expr) { add_texts(expr, texts); });
      if (statement->function_def == nullptr) continue;
      for (const Parameter& each : statement->function_def->parameters) {
        add_texts(each.default_value, texts);
      }
    }
  }
  return texts;
}

// Whether a default, a setting or the name of a settings file gives the text somewhere:
// "resnet50", "configs/resnet50.json".
bool is_given(const SourceFacts& facts, std::string_view text) {
  auto& known = facts.store().kept<SureToRun>().given;
  const auto [place, is_new] = known.try_emplace(text, false);
  if (!is_new) return place->second;
  const bool is_in_code = std::ranges::any_of(
      texts_of(facts), [&](const Expr* each) { return contains(each->word(), text); });
  const auto& configurations = facts.store().configurations;
  const auto& settings = facts.store().kept<NamedInSettings>().texts;
  return known[text] = is_in_code || settings.contains(std::string(text)) ||
                       std::ranges::any_of(configurations, [&](const auto& each) {
                         return contains(each->text, text);
                       });
}

// `name == "resnet"`, where something gives that name: one of the runs.
bool asks_for_given_text(const SourceFacts& facts, const Expr& condition) {
  return any_inside(&condition, [&](const Expr& part) {
    return part.kind == ExprKind::text && is_given(facts, part.word());
  });
}

// `@register_model(name="unet")`
std::vector<std::string_view> registered_names(const ClassDef& def) {
  std::vector<const Expr*> texts;
  for (const Expr* each : def.decorators) add_texts(each, texts);
  std::vector<std::string_view> names;
  for (const Expr* each : texts) names.push_back(each->word());
  return names;
}

// What asks for the kind of an object: which one it is was picked elsewhere.
bool asks_for_kind(const Expr& condition) {
  return find_inside(&condition, [](const Expr& part) {
           return part.call() != nullptr && part.call()->name == "isinstance";
         }) != nullptr;
}

bool tests_for_none(const Expr& condition) {
  return find_inside(&condition, [](const Expr& part) {
           return part.kind == ExprKind::comparison && part.children().size() == 2 &&
                  part.children()[1]->kind == ExprKind::none;
         }) != nullptr;
}

// `name == "resnet"`, `name in ("a", "b")`
bool compares_with_text(const Expr& condition) {
  return find_inside(&condition, [](const Expr& part) {
           return part.kind == ExprKind::comparison && part.children().size() == 2 &&
                  find_inside(part.children()[1], [](const Expr& one) {
                    return one.kind == ExprKind::text;
                  }) != nullptr;
         }) != nullptr;
}

// What a call says, of files or of the machine, is no setting.
bool asks_by_call(const Expr& condition) {
  return find_inside(&condition, [](const Expr& part) {
           return part.call() != nullptr && part.call()->name != "isinstance" &&
                  !is_one_of(part.call()->method,
                             {"lower", "upper", "startswith", "endswith", "get", "getattr", "len"});
         }) != nullptr;
}

// `epoch >= warmup`, `len(labels) > 0`: a schedule or a size.
bool asks_for_order(const Expr& condition) {
  return find_inside(&condition, [](const Expr& part) {
           return part.kind == ExprKind::comparison &&
                  is_one_of(part.word(), {"<", ">", "<=", ">="});
         }) != nullptr;
}

// Whether the guard picks by something that no default and no caller tells.
bool is_open_choice(const SourceFacts& facts, const Guard& guard) {
  const bool may_pick = guard.kind == GuardKind::option || guard.kind == GuardKind::condition;
  if (!may_pick || guard.expr == nullptr || is_about_launch(guard)) return false;
  // What a constructor asks stays as it is.
  const FunctionDef* function = guard.expr->statement->function;
  const bool is_setting =
      guard.kind == GuardKind::option || (function != nullptr && function->name == "__init__");
  const bool picks = is_setting ? !tests_for_none(*guard.expr) && !asks_by_call(*guard.expr) &&
                                      !asks_for_order(*guard.expr)
                                : asks_for_kind(*guard.expr) || compares_with_text(*guard.expr);
  return picks && !is_choice_of_run(facts, guard) && !is_known_by_default(facts, guard) &&
         (guard.negated || !asks_for_given_text(facts, *guard.expr));
}

// The default names another one: `if joining == "concat":`
bool is_other_choice(const SourceFacts& facts, const Guard& guard) {
  const bool may_pick = guard.kind == GuardKind::option || guard.kind == GuardKind::condition;
  return may_pick && guard.expr != nullptr && compares_with_text(*guard.expr) &&
         !is_about_launch(guard) && !is_choice_of_run(facts, guard) &&
         is_other_by_default(facts, guard);
}

bool is_made(const SourceFacts& facts, const ClassDef& def);

bool is_run(const SourceFacts& facts, const FunctionDef& function);

// The branch before `elif name == "unet":`, where something gives that name.
bool is_left_by_other_choice(const SourceFacts& facts, const Guard& guard, const Path& path) {
  if (!guard.negated || guard.expr == nullptr || !compares_with_text(*guard.expr)) return false;
  const auto asked = [](const Expr& condition) {
    return condition.statement->file->slice(condition.children()[0]->range);
  };
  return std::ranges::any_of(path, [&](const PathStep& step) {
    const Expr* other = step.loop == nullptr && !step.guard.negated ? step.guard.expr : nullptr;
    return other != nullptr && other->kind == ExprKind::comparison &&
           guard.expr->kind == ExprKind::comparison && asked(*other) == asked(*guard.expr) &&
           asks_for_given_text(facts, *other);
  });
}

bool is_path_sure(const SourceFacts& facts, const Path& path, const FunctionDef* function) {
  const bool is_open = std::ranges::any_of(path, [&](const PathStep& step) {
    return step.loop == nullptr && !is_left_by_other_choice(facts, step.guard, path) &&
           (is_open_choice(facts, step.guard) || is_other_choice(facts, step.guard));
  });
  return !is_open && (function == nullptr || is_run(facts, *function));
}

bool is_sure(const SourceFacts& facts, const Call& call) {
  return !call.file->is_test && is_reached_by_default(facts, call) &&
         is_path_sure(facts, path_to(facts, call), call.function);
}

// All it derives from is given, or asks nothing of its methods by their names.
bool has_own_bases(const ClassDef& def) {
  return std::ranges::all_of(def.bases, [](const Expr* base) {
    const ClassDef* own = base->type->class_def;
    return own != nullptr ||
           is_one_of(base->full_name(), {"torch.nn.Module", "object", "abc.ABC"}) ||
           is_one_of(base->word(), {"object", "ABC"});
  });
}

// A method that nothing calls, in a class whose bases call none by its name.
bool is_left_over(const SourceFacts& facts, const FunctionDef& method) {
  const bool may_be = !method.name.starts_with("__") && method.decorators.empty() &&
                      !is_one_of(method.name, {"forward", "backward", "jvp", "extra_repr"});
  return may_be && has_own_bases(*method.class_def) && !is_named_elsewhere(facts, method);
}

// Where both stand under one `if`, in its two branches, the place of that step in the path of `a`.
std::optional<std::size_t> branch_between(const Path& a, const Path& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Guard& guard = a[i].guard;
    if (a[i].loop != nullptr || guard.statement == nullptr) continue;
    const bool is_other = std::ranges::any_of(b, [&](const PathStep& step) {
      return step.loop == nullptr && step.guard.statement == guard.statement &&
             step.guard.expr == guard.expr && step.guard.negated != guard.negated;
    });
    if (is_other) return i;
  }
  return std::nullopt;
}

// `if args.mp: spawn(main) else: main()`
bool is_started_either_way(const SourceFacts& facts, const std::vector<const Call*>& calls) {
  constexpr std::size_t kMost = 16;  // that are compared
  for (std::size_t i = 0; i < std::min(calls.size(), kMost); ++i) {
    const Call& call = *calls[i];
    if (call.file->is_test) continue;
    Path path = path_to(facts, call);
    for (std::size_t other = 0; other < std::min(calls.size(), kMost); ++other) {
      const auto branch = branch_between(path, path_to(facts, *calls[other]));
      if (!branch) continue;
      path.erase(path.begin() + static_cast<std::ptrdiff_t>(*branch));
      return is_path_sure(facts, path, call.function);
    }
  }
  return false;
}

bool works_out_run(const SourceFacts& facts, const FunctionDef& function) {
  if (is_refused(facts, function)) return false;
  if (function.outer != nullptr) return is_run(facts, *function.outer);
  if (function.class_def != nullptr && !is_made(facts, *function.class_def)) return false;
  if (function.callers.empty()) {  // a library calls it, or it is handed over
    return function.class_def == nullptr || !is_left_over(facts, function);
  }
  std::vector<const Call*> calls = starts_of(facts, function);
  calls.insert(calls.end(), function.callers.begin(), function.callers.end());
  return std::ranges::any_of(calls, [&](const Call* call) { return is_sure(facts, *call); }) ||
         is_started_either_way(facts, calls);
}

const FunctionDef* constructor_of(const ClassDef& def) {
  for (const ClassDef* each : lineage(&def)) {
    if (const FunctionDef* init = each->method("__init__")) return init;
  }
  return nullptr;
}

// A settings file names it, or some call that is sure to run makes it or what derives from it.
// Where no call is seen that makes it, each of what the user may choose from is a run.
bool works_out_made(const SourceFacts& facts, const ClassDef& def) {
  const FunctionDef* init = constructor_of(def);
  if (init != nullptr && is_refused(facts, *init)) return false;
  const auto& calls = facts.calls(def.full_name);
  if (facts.store().kept<NamedInSettings>().names.contains(def.name)) return true;
  const auto makes = [&](const Call* call) { return is_sure(facts, *call); };
  if (std::ranges::any_of(calls, makes)) return true;
  const auto& derived = derived_from(facts, def);
  if (std::ranges::any_of(derived, [&](const ClassDef* each) { return is_made(facts, *each); })) {
    return true;
  }
  const auto names = registered_names(def);
  const bool is_named = names.empty() || std::ranges::any_of(names, [&](std::string_view name) {
                          return is_given(facts, name);
                        });
  return calls.empty() && derived.empty() && is_named && may_be_made(facts, def);
}

// While it is worked out it counts as not sure: what leads round to itself is met from outside.
template <class Def, class WorkOut>
bool known_or(const SourceFacts& facts, const Def& def, const WorkOut& work_out) {
  auto& known = facts.store().kept<SureToRun>().known;
  const auto [place, is_new] = known.try_emplace(&def, false);
  if (!is_new) return place->second;
  const bool is_it = work_out(facts, def);
  return known[&def] = is_it;
}

bool is_made(const SourceFacts& facts, const ClassDef& def) {
  return known_or(facts, def, works_out_made);
}

bool is_run(const SourceFacts& facts, const FunctionDef& function) {
  return known_or(facts, function, works_out_run);
}

// A file that no script imports, beside scripts that train.
bool is_beside_scripts(const SourceFacts& facts, const File& file) {
  const auto has_entry = [](const Program* program) { return program->entry != nullptr; };
  // A script that hands its step to a library is a program without a loop of its own.
  return is_for_others(facts, file) &&
         std::ranges::none_of(file.functions, &FunctionDef::is_training_step) &&
         std::ranges::any_of(training_programs(facts), has_entry);
}

// `a = input()` in a step: it waits for a key.
bool waits_for_keys(const File& file) {
  return std::ranges::any_of(file.calls, [](const Call* call) {
    if (call->name != "input") return false;
    const Statement* loop = loop_around(call->statement);
    return loop != nullptr && loop->loop != nullptr && loop->loop->role == LoopRole::training_step;
  });
}

// `print x`: no GPU of today runs the PyTorch that runs this Python.
bool is_python_2(const File& file) {
  return std::ranges::any_of(
      file.statements, [](const Statement* each) { return each->kind == StatementKind::print; });
}

bool runs_python_2(const SourceFacts& facts, const File& file) {
  const auto programs = facts.programs_of(file);
  return !programs.empty() && std::ranges::all_of(programs, [](const Program* program) {
    return std::ranges::any_of(program->files, [](const File* one) { return is_python_2(*one); });
  });
}

}  // namespace

bool is_sure_to_run(const SourceFacts& facts, const Statement& statement) {
  const File& file = *statement.file;
  if (is_beside_scripts(facts, file) || runs_python_2(facts, file) || waits_for_keys(file)) {
    return false;
  }
  return is_path_sure(facts, path_to(facts, statement), statement.function);
}

bool is_left_by_default(const SourceFacts& facts, const Statement& statement) {
  return std::ranges::any_of(path_to(facts, statement), [&](const PathStep& step) {
    return step.loop == nullptr && is_other_choice(facts, step.guard);
  });
}

bool is_sure_to_run(const SourceFacts& facts, const File& file, std::size_t line) {
  const Statement* statement = statement_in(file, line);
  return statement == nullptr || is_sure_to_run(facts, *statement);
}

}  // namespace rooftile::source
