#include "rooftile/analysis/source/weight.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

#include "rooftile/analysis/source/layer_queries.h"
#include "rooftile/analysis/source/trained_parts.h"
#include "rooftile/analysis/source/tutorials.h"
#include "rooftile/base/text.h"
#include "rooftile/script/reach/programs.h"
#include "rooftile/script/reach/reach.h"
#include "rooftile/script/reach/refused.h"
#include "rooftile/script/reach/superseded.h"
#include "rooftile/script/reach/sure.h"
#include "rooftile/script/reach/unused.h"
#include "rooftile/workload/source_store.h"

namespace rooftile::source {
namespace {

struct Weights {
  std::unordered_map<const Program*, bool> large, on_cpu;
};

// One that a run with the defaults is sure to make.
std::optional<SizedLayer> large_layer(const SourceFacts& facts, const Program& program,
                                      const Accepts& accepts) {
  return tensor_core_sized_layer(facts, program, [&](const Call& made) {
    return accepts(made) && is_sure_to_run(facts, *made.statement);
  });
}

// A call that puts something on a GPU by its own words: `.cuda()`, `torch.device("cuda")`.
bool names_gpu(const Call& call) {
  if (call.method == "cuda" && call.receiver != nullptr) return true;
  return std::ranges::any_of(call.arguments, [](const Argument& argument) {
    return argument.value->kind == ExprKind::text && argument.value->word().starts_with("cuda");
  });
}

// Every place that names a GPU is behind a switch that is off by default, and no library picks one.
bool is_on_cpu(const SourceFacts& facts, const Program& program) {
  auto& known = facts.store().kept<Weights>().on_cpu;
  const auto [place, is_new] = known.try_emplace(&program, false);
  if (!is_new || program.entry == nullptr) return place->second;
  bool has_switch = false;
  for (const Call* call : program.entry->calls) {
    if (call->expr->type->is(TypeKind::accelerator) || call->expr->type->is(TypeKind::trainer)) {
      return false;
    }
    if (!names_gpu(*call)) continue;
    if (is_reached_by_default(facts, *call)) return false;
    has_switch = true;
  }
  return place->second = has_switch;
}

// Programs that train on a GPU and run the line.
std::vector<const Program*> programs_at(const SourceFacts& facts, const File& file,
                                        const Statement* statement) {
  auto programs = training_programs_of(facts, file);
  std::erase_if(programs, [&](const Program* program) {
    return statement != nullptr && !runs_in(facts, *program, *statement);
  });
  return programs;
}

bool is_example(const File& file) {
  return contains_any(lower("/" + file.path), {"/example", "/tutorial", "/demo"});
}

template <class Test>
bool all(const std::vector<const Program*>& programs, const Test& test) {
  return !programs.empty() &&
         std::ranges::all_of(programs, [&](const Program* each) { return test(*each); });
}

}  // namespace

bool trains_large_network(const SourceFacts& facts, const Program& program) {
  auto& known = facts.store().kept<Weights>().large;
  const auto [place, is_new] = known.try_emplace(&program, false);
  if (!is_new) return place->second;
  bool is_large = trained_layer(facts, program, large_layer).has_value();
  // Of networks to choose from the search follows one: another may be the default's.
  if (!is_large && trained_layer(facts, program, tensor_core_sized_layer)) {
    is_large = large_layer(facts, program, [](const Call& made) {
                 return !made.expr->type->frozen;
               }).has_value();
  }
  return known[&program] = is_large;
}

std::string_view reason_for_little(const SourceFacts& facts, const File& file, std::size_t line,
                                   Cost cost) {
  if (is_off_by_default(facts, file, line))
    return "only a switch that is off by default leads here";
  if (!is_sure_to_run(facts, file, line)) {
    return "it is not sure that a run with the defaults gets here";
  }
  if (is_superseded(facts, file)) {
    return "another program of the project has taken the place of this one";
  }
  if (training_programs_of(facts, file).empty()) return {};
  const auto programs = programs_at(facts, file, statement_in(file, line));
  if (programs.empty()) return "no program that trains runs this part of the file";
  if (all(programs, [&](const Program& each) { return lacks_module(facts, each); })) {
    return "the program imports a module that the project lacks";
  }
  if (all(programs, [&](const Program& each) { return !takes_steps(each); })) {
    return "the program takes no training step";
  }
  if (all(programs, [&](const Program& each) { return is_on_cpu(facts, each); })) {
    return "with its defaults the program runs on the CPU";
  }
  const bool is_lesson =
      all(programs, [&](const Program& each) { return is_tutorial(facts, each); });
  if (is_lesson && (cost == Cost::of_step || file.is_notebook || is_example(file))) {
    return "a lesson on digits, whose steps are short";
  }
  const bool is_large = std::ranges::any_of(
      programs, [&](const Program* each) { return trains_large_network(facts, *each); });
  if (!is_large && (cost == Cost::of_step || file.is_notebook)) {
    return "nothing shows that the network is large, and small ones have short steps";
  }
  return {};
}

}  // namespace rooftile::source
