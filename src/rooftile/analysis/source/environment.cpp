#include "rooftile/analysis/source/environment.h"

#include <algorithm>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"
#include "rooftile/workload/source_store.h"

namespace rooftile::source {
namespace {

bool is_text(const Expr* expr, std::string_view text) {
  return expr->kind == ExprKind::text && expr->word() == text;
}

bool is_environment(const Expr* expr) {
  return last_name(expr) == "environ" || last_name(expr) == "ENV";
}

const Expr* assigned(const Statement& statement, std::string_view name) {
  const Expr* target = statement.target;
  if (statement.kind != StatementKind::assignment) return nullptr;
  const bool names_it = target->kind == ExprKind::subscript &&
                        is_environment(target->children().front()) &&
                        is_text(target->children().back(), name);
  return names_it ? statement.value : nullptr;
}

const Expr* passed(const Statement& statement, std::string_view name) {
  const Call* call =
      statement.kind == StatementKind::expression ? statement.value->call() : nullptr;
  if (call == nullptr || call->arguments.size() != 2) return nullptr;
  const bool sets = is_one_of(call->method, {"setdefault", "putenv"});
  return sets && is_text(call->arguments[0].value, name) ? call->arguments[1].value : nullptr;
}

}  // namespace

std::vector<EnvironmentSetting> environment_settings(const SourceFacts& facts,
                                                     std::string_view name) {
  std::vector<EnvironmentSetting> settings;
  for (const auto& file : facts.files) {
    if (!has_text(*file, name) || !trains_on_gpu(facts, *file)) continue;
    for (const Statement* statement : file->statements) {
      const Expr* value = assigned(*statement, name);
      if (value == nullptr) value = passed(*statement, name);
      if (value == nullptr || !is_reached_by_default(facts, *statement)) continue;
      settings.push_back({statement, value});
    }
  }
  return settings;
}

bool is_started_on_one_gpu(const SourceFacts& facts, const File& file) {
  const auto programs = training_programs_of(facts, file);
  return !programs.empty() && std::ranges::all_of(programs, [&](const Program* program) {
    return facts.store().on_one_gpu.contains(program->entry);
  });
}

bool is_started_on_several_gpus(const SourceFacts& facts, const File& file) {
  return std::ranges::any_of(training_programs_of(facts, file), [&](const Program* program) {
    return facts.store().on_several_gpus.contains(program->entry);
  });
}

}  // namespace rooftile::source
