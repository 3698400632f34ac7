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
  Fix fix{fmt::format("Set num_workers to the cores per GPU, e.g. num_workers=8, with "
                      "persistent_workers=True{}: batches are then made while the GPU computes",
                      is_pinned ? "" : " and pin_memory=True"),
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

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings, of_evaluation;
  for (const Call* loader : training_loaders(facts)) {
    const Workers workers = workers_of(facts, *loader);
    const bool is_given = loader->argument("num_workers") != nullptr;
    if (!workers.is_missing || (loader->unknown_arguments && !is_given)) continue;
    if (needs_no_workers(facts, *loader) || is_given_to_settings(facts, workers)) continue;
    auto& of_kind = is_for_evaluation(facts, *loader) ? of_evaluation : findings;
    of_kind.push_back(finding_for(facts, *loader, workers));
  }
  add_of_evaluation(std::move(of_evaluation), findings);
  return findings;
}

}  // namespace input_pipeline_loader_stall_in_source

}  // namespace rooftile
