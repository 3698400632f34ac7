#include <fmt/format.h>

#include <string_view>

#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace input_pipeline_loader_stall_in_source {

using namespace source;

struct Workers {
  bool is_missing = false;
  const Expr* default_value = nullptr;  // that says 0, written elsewhere
};

Workers workers_of(const SourceFacts& facts, const Call& loader) {
  const bool is_graph = loader.name.starts_with("torch_geometric.");
  const Value value = facts.argument(loader, "num_workers", is_graph ? -1 : 5);
  if (value.absent()) return {true, nullptr};
  if (!value.is(0)) return {};
  return {true, value.found != value.expr ? value.found : nullptr};
}

// Where a 0 is written that is not written here: "by default (config.py:8)".
std::string origin_text(const Call& loader, const Workers& workers) {
  const Statement* set = workers.default_value->statement;
  return set == nullptr ? "by default"
                        : fmt::format("by default ({})", place_text(*set, *loader.file));
}

Finding finding_for(const SourceFacts& facts, const Call& loader, const Workers& workers) {
  const bool is_pinned = is_set_by_default(facts.argument(loader, "pin_memory"));
  const bool is_old = facts.runs_before({1, 7});  // which has no persistent_workers
  const std::string_view with = is_old      ? (is_pinned ? "" : ", with pin_memory=True")
                                : is_pinned ? ", with persistent_workers=True"
                                            : ", with persistent_workers=True and pin_memory=True";
  Fix fix{
      fmt::format("Set num_workers to the cores per GPU, e.g. num_workers=8{}: batches are then "
                  "made while the GPU computes",
                  with),
      Exactness::changes_training};
  const Argument* given = loader.argument("num_workers", 5);
  if (given == nullptr) {
    add_edit(add_argument(loader, "num_workers", "8"), fix);
  } else if (given->value->kind == ExprKind::integer) {
    add_edit(replace_argument(loader, *given, "8"), fix);
  }
  const std::string how = given == nullptr ? "num_workers is 0 when not given"
                          : workers.default_value != nullptr
                              ? "num_workers is 0 " + origin_text(loader, workers)
                              : "num_workers=0";
  Finding finding = finding_at(
      loader, fmt::format("{}: the DataLoader runs in the main process, and the GPU waits", how),
      std::move(fix));
  const Expr* dataset = loader.arguments.empty() ? nullptr : loader.arguments.front().value;
  finding.evidence = {
      Evidence::found(fmt::format("reads `{}`", code_text(*loader.file, dataset))),
      Evidence::published(
          "PyTorch performance tuning guide, Enable asynchronous data loading and augmentation")};
  return finding;
}

// `num_workers = 0` of a class of settings that is made with `num_workers=4`.
bool is_given_to_settings(const SourceFacts& facts, const Workers& workers) {
  const Statement* set =
      workers.default_value == nullptr ? nullptr : workers.default_value->statement;
  const Statement* owner = set == nullptr ? nullptr : set->parent;
  if (owner == nullptr || owner->class_def == nullptr || set->target == nullptr) return false;
  const auto made = facts.calls(owner->class_def->full_name);
  return std::ranges::any_of(made, [&](const Call* call) {
    const Argument* given = call->argument(last_name(set->target));
    return given != nullptr && !facts.value(given->value).is(0);
  });
}

int count_loops(const Statement* statement) {
  int loops = 0;
  for (; statement != nullptr && statement->kind != StatementKind::function;
       statement = statement->parent) {
    const bool is_loop =
        statement->kind == StatementKind::for_ || statement->kind == StatementKind::while_;
    loops += is_loop ? 1 : 0;
  }
  return loops;
}

// Made in a loop in a loop, as for each client of each round, itself or by the object that makes
// it: workers start for a few batches.
bool is_made_again_and_again(const Call& loader) {
  constexpr int kMany = 2;
  if (count_loops(loader.statement) >= kMany) return true;
  const FunctionDef* maker = loader.function;
  if (maker == nullptr) return false;
  // `self.loaders = self.make_loaders(data)` of the constructor
  for (const Call* caller : maker->callers) {
    const FunctionDef* outer = caller->function;
    const bool is_own =
        outer != nullptr && outer->name == "__init__" && outer->class_def == maker->class_def;
    if (is_own) maker = outer;
  }
  return maker->name == "__init__" && std::ranges::any_of(maker->callers, [](const Call* caller) {
           return count_loops(caller->statement) >= kMany;
         });
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings, of_evaluation;
  for (const Call* loader : training_loaders(facts)) {
    const Workers workers = workers_of(facts, *loader);
    const bool is_given = loader->argument("num_workers") != nullptr;
    if (!workers.is_missing || (loader->unknown_arguments && !is_given)) continue;
    if (needs_no_workers(facts, *loader) || is_given_to_settings(facts, workers)) continue;
    auto& of_kind = is_for_evaluation(facts, *loader) ? of_evaluation : findings;
    of_kind.push_back(finding_for(facts, *loader, workers));
    if (is_made_again_and_again(*loader)) of_kind.back().own_level = Level::info;
  }
  add_of_evaluation(std::move(of_evaluation), findings);
  return findings;
}

}  // namespace input_pipeline_loader_stall_in_source

}  // namespace rooftile
