#include "rooftile/rules/recurrent/unbatched_input_projection_in_source.h"

#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/time_loop.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace unbatched_in_source {

using namespace source;

const Type& callee_type(const Call& call) {
  static const Type unknown;
  const bool has_type = !call.expr->children().empty() && call.expr->children()[0]->type != nullptr;
  return has_type ? *call.expr->children()[0]->type : unknown;
}

bool is_linear(const Call& call) {
  const Type& type = callee_type(call);
  return type.made_by != nullptr && type.made_by->name == "torch.nn.Linear";
}

bool is_product(const Call& call) {
  return is_linear(call) || call.name == "torch.nn.functional.linear" ||
         call.name == "torch.matmul" || call.name == "torch.mm";
}

bool is_gate(const Call& call) { return call.method == "sigmoid" || call.method == "tanh"; }

bool has_gate(const std::vector<const Call*>& calls) {
  return std::any_of(calls.begin(), calls.end(), [](const Call* call) { return is_gate(*call); });
}

// Products in the loop itself: one of the step's input, one of what the step before gave.
const Call* written_out(const TimeLoop& loop, const std::vector<const Call*>& calls) {
  const Call* of_input = nullptr;
  bool of_state = false;
  for (const Call* call : calls) {
    if (!is_product(*call) || call->arguments.empty()) continue;
    const Expr* input = call->arguments[0].value;
    if (!loop.is_known_before(input)) {
      of_state = true;
    } else if (loop.varies(input) && of_input == nullptr) {
      of_input = call;
    }
  }
  return of_state && has_gate(calls) ? of_input : nullptr;
}

// Whether the function has a product of exactly the parameter of this index.
bool multiplies(const FunctionDef& forward, std::size_t parameter) {
  if (parameter >= forward.parameters.size()) return false;
  return std::any_of(forward.calls.begin(), forward.calls.end(), [&](const Call* call) {
    if (!is_product(*call) || call->arguments.empty()) return false;
    const Expr* input = call->arguments[0].value;
    return input->kind == ExprKind::name && input->binding() == nullptr &&
           input->word() == forward.parameters[parameter].name;
  });
}

// An own cell with separate products of input and state, called with an input known before.
const Call* own_cell(const TimeLoop& loop, const std::vector<const Call*>& calls) {
  for (const Call* call : calls) {
    const ClassDef* def = callee_type(*call).class_def;
    if (def == nullptr || !def->is_module || call->arguments.size() < 2) continue;
    const FunctionDef* forward = def->method("forward");
    if (forward == nullptr || !has_gate(forward->calls)) continue;
    const Expr* input = call->arguments[0].value;
    const bool steps = loop.is_known_before(input) && loop.varies(input) &&
                       !loop.is_known_before(call->arguments[1].value);
    if (steps && multiplies(*forward, 1)) return call;
  }
  return nullptr;
}

Finding finding_for(const Statement& loop, const Call& call) {
  const Expr* input = call.arguments[0].value;
  Finding finding = finding_at(
      call,
      fmt::format(
          "the product with `{}` runs once for each time step, though no step depends on it",
          code_text(*call.file, input)),
      {"Multiply the whole sequence by the input weights before the loop, and take a slice of the "
       "result in each step",
       Exactness::exact_arithmetic});
  finding.evidence = {
      fmt::format("loop at {}; its input does not depend on an earlier step",
                  place_text(loop, *call.file)),
      "NVIDIA Recurrent Layers User's Guide: the input products of all time steps can be combined"};
  return finding;
}

}  // namespace unbatched_in_source

std::vector<Finding> step_by_step_projections(const source::SourceFacts& facts) {
  using namespace unbatched_in_source;
  std::vector<Finding> findings;
  for (const auto& file : facts.files) {
    if (!mentions(*file, {"Linear", "linear", "matmul", "mm"})) continue;
    if (!trains_on_gpu(facts, *file)) continue;
    for (const Statement* statement : time_loops(*file)) {
      const TimeLoop loop(*statement);
      const std::vector<const Call*> calls = calls_inside(*statement);
      const Call* found = written_out(loop, calls);
      if (found == nullptr) found = own_cell(loop, calls);
      if (found != nullptr) findings.push_back(finding_for(*statement, *found));
    }
  }
  return findings;
}

}  // namespace rooftile
