#include "rooftile/script/reach/programs.h"

#include <algorithm>

#include "rooftile/base/text.h"
#include "rooftile/script/reach/reach.h"
#include "rooftile/script/reach/ways_up.h"
#include "rooftile/workload/source_walks.h"

namespace rooftile::source {

std::optional<bool> truth_on_gpu(const Expr* condition, int depth) {
  const Expr* asked = resolved(condition);
  if (asked == nullptr || depth > 4) return std::nullopt;
  if (asked->call() != nullptr && asked->call()->name == "torch.cuda.is_available") return true;
  if (asked->kind == ExprKind::logical && asked->word() == "not") {
    const auto inner = truth_on_gpu(asked->children().front(), depth + 1);
    return inner ? std::optional(!*inner) : std::nullopt;
  }
  const bool compares = asked->kind == ExprKind::comparison && asked->children().size() == 2 &&
                        is_one_of(asked->word(), {"==", "!="}) &&
                        asked->children()[1]->kind == ExprKind::text;
  if (!compares || !is_one_of(last_name(asked->children()[0]), {"device", "type"})) {
    return std::nullopt;
  }
  const std::string_view device = asked->children()[1]->word();
  if (device.starts_with("cuda")) return asked->word() == "==";
  return device == "cpu" ? std::optional(asked->word() == "!=") : std::nullopt;
}

namespace {

bool is_training(const Program& program) {
  return program.trains_on_gpu && (program.entry == nullptr || !program.entry->is_test);
}

}  // namespace

std::vector<const Program*> training_programs(const SourceFacts& facts) {
  std::vector<const Program*> programs;
  for (const Program& program : facts.programs) {
    if (is_training(program)) programs.push_back(&program);
  }
  return programs;
}

bool runs_in(const SourceFacts& facts, const Program& program, const Statement& statement) {
  return leads_there(facts, statement, [&](const Guard& guard) {
    return guard.kind == GuardKind::main && !guard.negated && guard.statement != nullptr &&
           guard.statement->file != program.entry;
  });
}

std::vector<const Program*> training_programs_of(const SourceFacts& facts, const File& file) {
  if (file.is_test) return {};
  std::vector<const Program*> programs = facts.programs_of(file);
  std::erase_if(programs, [](const Program* program) { return !is_training(*program); });
  return programs;
}

bool trains_on_gpu(const SourceFacts& facts, const File& file) {
  return !training_programs_of(facts, file).empty();
}

bool works_on_gpu(const SourceFacts& facts, const File& file) {
  if (trains_on_gpu(facts, file)) return true;
  return !file.is_test && std::ranges::any_of(facts.programs_of(file), &Program::infers_on_gpu);
}

bool is_evaluation_script(const File& file) {
  const std::size_t folder = file.path.rfind('/');
  const std::string name = lower(file.path.substr(folder == std::string::npos ? 0 : folder + 1));
  return contains_any(name, {"test", "eval", "valid", "score", "metric", "bench", "profile"});
}

bool is_reached_by_default(const SourceFacts& facts, const Statement& statement) {
  return any_way(facts, statement, [](const Way& way) { return !way.is_off_by_default; });
}

bool is_reached_by_default(const SourceFacts& facts, const Call& call) {
  return any_way(facts, call, [](const Way& way) { return !way.is_off_by_default; });
}

}  // namespace rooftile::source
