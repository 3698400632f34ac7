#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/evaluated_models.h"
#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace unused_parameter_search {

constexpr std::string_view kDoc = R"md(
## What it finds
`find_unused_parameters=True` as a literal, for a model in which no reason for it is seen.

## Why it costs time
After each forward the whole graph is walked on the host to find parameters without a gradient.

## How to fix
Remove the argument. If training then fails with an error about unused parameters, take those out
of the model, or out of DDP with `requires_grad_(False)` before wrapping.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step
time says what there is to gain.

## When not to
- Models with branches that depend on the data, layer drop, frozen or unused parts.
- A comment at the call that says why.
- An option whose default is False.

## Evidence
- PyTorch documentation, `DistributedDataParallel`, find_unused_parameters: it adds overhead.
)md";

using namespace source;

// Whether the line above the place holds nothing but a comment.
bool is_below_comment(std::string_view text, std::size_t begin) {
  const std::size_t above = text.substr(0, begin).find_last_not_of(" \t\n");
  const std::size_t line = text.rfind('\n', above);
  const std::size_t first = text.find_first_not_of(" \t", line + 1);
  return first != std::string_view::npos && first < begin && text[first] == '#';
}

// A comment on the line of the argument, above it or above the statement; those of other arguments
// explain them.
bool has_comment(const Call& call, const Argument& search) {
  const std::string_view text = call.file->text;
  const std::size_t at = search.range.begin;
  const std::size_t begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
  const std::size_t end = std::min(text.find('\n', at), text.size());
  if (text.substr(begin, end - begin).find('#') != std::string_view::npos) return true;
  return is_below_comment(text, begin) || is_below_comment(text, call.statement->range.begin);
}

bool has_branches(const ClassDef& def) {
  const FunctionDef* forward = def.method("forward");
  if (forward == nullptr) return false;
  return any_statement(forward->body, [&](const Statement& statement) {
    const bool is_branch = statement.kind == StatementKind::if_;
    const bool tests_none = is_branch && statement.value->kind == ExprKind::comparison &&
                            statement.value->word().starts_with("is");
    return is_branch && !tests_none;
  });
}

// A softmax or a loss without weights: nothing that DDP would look for.
bool keeps_weights(const Layer& layer) {
  const Type& type = *layer.made_by->expr->type;
  return !type.is(TypeKind::loss) && !has_no_weights(type);
}

bool has_unused_layers(const ClassDef& def) {
  return std::any_of(def.layers.begin(), def.layers.end(), [&](const Layer& layer) {
    const bool is_plain = layer.attribute.find('.') == std::string_view::npos && !layer.conditional;
    return is_plain && keeps_weights(layer) &&
           std::none_of(def.methods.begin(), def.methods.end(), [&](const FunctionDef* method) {
             if (method->name == "__init__") return false;
             const std::string_view text = def.file->slice(method->statement->range);
             return text.find(layer.attribute) != std::string_view::npos;
           });
  });
}

// `for p in teacher.parameters(): p.requires_grad = False`, where another variable is wrapped and
// nothing that the function sets it to has the teacher inside.
bool freezes_another(const Statement& freeze, const Expr& wrapped) {
  const Statement* loop = loop_around(&freeze);
  const Call* over = loop == nullptr ? nullptr : loop->value->call();
  const bool is_plain = over != nullptr && over->method == "parameters" &&
                        over->receiver != nullptr && over->receiver->kind == ExprKind::name &&
                        wrapped.kind == ExprKind::name && freeze.file == wrapped.statement->file &&
                        freeze.function == wrapped.statement->function;
  if (!is_plain || over->receiver->word() == wrapped.word()) return false;
  const auto& statements = freeze.file->statements;
  return std::ranges::none_of(statements, [&](const Statement* each) {
    return each->kind == StatementKind::assignment && last_name(each->target) == wrapped.word() &&
           uses_variable(each->value, over->receiver->word());
  });
}

// `self.teacher`, where `self.model` is wrapped and nothing that it is set to has the teacher
// inside.
bool is_apart_from(const Expr& frozen, const Expr& wrapped, const File& file) {
  const auto is_variable = [](const Expr& expr) {
    return expr.kind == ExprKind::name || expr.kind == ExprKind::attribute;
  };
  const std::string_view name = last_name(&frozen);
  const bool is_known = is_variable(frozen) && is_variable(wrapped) && !name.empty() &&
                        &file == wrapped.statement->file && name != last_name(&wrapped);
  return is_known && std::ranges::none_of(file.statements, [&](const Statement* each) {
           return each->kind == StatementKind::assignment && each->value != nullptr &&
                  last_name(each->target) == last_name(&wrapped) &&
                  find_in_text(file.slice(each->value->range), name) != std::string::npos;
         });
}

// `def switch_off(model): for p in model.parameters(): p.requires_grad = False`, which all callers
// hand another network than the wrapped one.
bool freezes_what_others_pass(const Statement& freeze, const Expr& wrapped) {
  const FunctionDef* helper = freeze.function;
  const Statement* loop = loop_around(&freeze);
  const Call* over = loop == nullptr ? nullptr : loop->value->call();
  const bool is_plain = helper != nullptr && !helper->callers.empty() && over != nullptr &&
                        over->method == "parameters" && over->receiver != nullptr &&
                        over->receiver->kind == ExprKind::name &&
                        over->receiver->binding() == nullptr;
  return is_plain && std::ranges::all_of(helper->callers, [&](const Call* caller) {
           const Argument* given = passed_argument(*caller, *helper, over->receiver->word());
           return given != nullptr && is_apart_from(*given->value, wrapped, *caller->file);
         });
}

// A helper that nothing of the program calls or hands over.
bool is_idle_helper(const Program& program, const FunctionDef* function) {
  const bool may_be = function != nullptr && function->class_def == nullptr &&
                      function->outer == nullptr && function->decorators.empty() &&
                      function->callers.empty();
  return may_be && std::ranges::none_of(program.files, [&](const File* file) {
           if (!has_text(*file, function->name)) return false;
           const std::size_t first = find_in_text(file->text, function->name);
           return file != function->file ||
                  find_in_text(file->text, function->name, first + 1) != std::string::npos;
         });
}

// A parameter of what is wrapped is frozen somewhere, or layers are dropped or drawn.
bool freezes(const Program& program, const Expr& wrapped) {
  for (const File* file : program.files) {
    const bool sets = std::ranges::any_of(file->statements, [&](const Statement* each) {
      return freezes_parameter(*each) && !is_idle_helper(program, each->function) &&
             !freezes_another(*each, wrapped) && !freezes_what_others_pass(*each, wrapped);
    });
    if (sets) return true;
    if (has_any_text(*file, {"requires_grad_(False)", "layerdrop", "set_sample_config", "supernet",
                             "Supernet"})) {
      return true;
    }
  }
  return false;
}

// DDP and what is named for it: wrappers that hand all on, from files that are not given or not.
std::vector<const Call*> wrapping_calls(const SourceFacts& facts) {
  std::vector<const Call*> calls =
      launched_calls(facts, {"torch.nn.parallel.DistributedDataParallel"});
  for (const auto& file : facts.files) {
    for (const Call* call : file->calls) {
      const bool is_other = call->method.starts_with("DistributedDataParallel") &&
                            !call->name.starts_with("torch.") && !call->name.empty() &&
                            !call->name.starts_with("apex.") &&
                            call->argument("find_unused_parameters") != nullptr;
      if (!is_other) continue;
      const auto launched = launched_calls(facts, {call->name});
      if (std::ranges::find(launched, call) != launched.end()) calls.push_back(call);
    }
  }
  return calls;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* call : wrapping_calls(facts)) {
    const Argument* search = call->argument("find_unused_parameters", 7);
    if (search == nullptr || search->value->kind != ExprKind::boolean) continue;
    if (!facts.argument(*call, "find_unused_parameters", 7).is_true() ||
        has_comment(*call, *search))
      continue;
    const ClassDef* def = call->arguments.front().value->type->class_def;
    if (def != nullptr && (has_branches(*def) || has_unused_layers(*def))) continue;
    const auto programs = training_programs_of(facts, *call->file);
    if (std::any_of(programs.begin(), programs.end(), [&](const Program* program) {
          return freezes(*program, *call->arguments.front().value);
        })) {
      continue;
    }
    Fix fix{"Remove find_unused_parameters=True, since all parameters seem to be used",
            Exactness::bit_exact};
    add_edit(remove_argument(*call, *search), fix);
    Finding finding = finding_at(
        *call, "DDP walks the whole graph after each forward to look for unused parameters",
        std::move(fix));
    finding.evidence = {
        def != nullptr ? Evidence::found(fmt::format("forward of {} has no branch", def->name))
                       : Evidence::found("no frozen or dropped layers are seen in the program"),
        Evidence::published(
            "PyTorch documentation, DistributedDataParallel, find_unused_parameters")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace unused_parameter_search

extern const Rule distributed_unused_parameter_search{
    .id = "distributed/unused-parameter-search",
    .level = Level::info,
    .cause = Cause::none,
    .summary = "DDP searches for unused parameters in every step",
    .doc = unused_parameter_search::kDoc,
    .in_scripts = unused_parameter_search::find};

}  // namespace rooftile
