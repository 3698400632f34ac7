#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/layer_queries.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/time_loop.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace unrolled_loop_in_source {

using namespace source;

// The constructor of the layer that is called; null where it is unknown.
const Call* made_by(const Call& call) { return call.expr->children()[0]->type->made_by; }

// x[t], x[:, t] or x[t:t + 1], not a longer piece.
bool is_one_step(const Expr& input) {
  return !any_inside(&input, [](const Expr& part) {
    if (part.kind != ExprKind::slice || part.children().size() != 2) return false;
    const Expr* start = part.children()[0];
    const Expr* stop = part.children()[1];
    const bool is_next = stop->kind == ExprKind::binary && stop->word() == "+" &&
                         stop->children()[0]->word() == start->word() &&
                         stop->children()[1]->word() == "1";
    return !is_next;
  });
}

// The state is what the cell gave a step before, and nothing else sets it: no norm, no zoneout.
bool only_feeds_itself(const TimeLoop& loop, const Call& cell, const Expr& state) {
  bool has_state = false, is_plain = true;
  visit(&state, [&](const Expr& part) {
    // One step of the gradient at a time: no whole layer does that.
    if (part.call() != nullptr && part.call()->method.starts_with("detach")) is_plain = false;
    const std::string_view name = last_name(&part);
    for (const Expr* value : name.empty() ? std::vector<const Expr*>{} : loop.assigned_to(name)) {
      has_state = true;
      is_plain = is_plain && value != nullptr && value->call() == &cell;
    }
    return true;
  });
  return has_state && is_plain;
}

bool is_unrolled(const TimeLoop& loop, const Call& call) {
  const Call* made = made_by(call);
  if (made == nullptr || call.arguments.size() != 2) return false;
  const bool is_layer = is_recurrent_layer(*made);
  if (!is_layer && !is_recurrent_cell(*made)) return false;
  const Expr* input = call.arguments[0].value;
  if (!loop.is_known_before(input) || !loop.varies(input)) return false;
  if (is_layer && !is_one_step(*input)) return false;
  return only_feeds_itself(loop, call, *call.arguments[1].value);
}

std::string_view whole_layer(const Call& made) {
  const std::string_view name = made.method;
  return name.ends_with("Cell") ? name.substr(0, name.size() - 4) : name;
}

Finding finding_for(const Statement& loop, const Call& call) {
  const Call& made = *made_by(call);
  Finding finding = finding_at(
      call,
      fmt::format("{} runs step by step in a Python loop, though the inputs of all steps are known "
                  "before it",
                  made.method),
      {fmt::format("Use one nn.{} over the whole sequence; gate order and biases are the same, "
                   "dropout must match",
                   whole_layer(made)),
       Exactness::exact_arithmetic});
  finding.evidence = {
      Evidence::found(fmt::format("{} made at {}, loop at {}", made.method,
                                  place_text(made, *call.file), place_text(loop, *call.file))),
      Evidence::found(fmt::format("`{}` does not depend on an earlier step",
                                  code_text(*call.file, call.arguments[0].value))),
      Evidence::published("cuDNN combines the input GEMMs over time",
                          "NVIDIA Recurrent Layers User's Guide")};
  return finding;
}

}  // namespace unrolled_loop_in_source

std::vector<Finding> unrolled_cells_in_source(const source::SourceFacts& facts) {
  using namespace unrolled_loop_in_source;
  std::vector<Finding> findings;
  for (const auto& file : facts.files) {
    if (!mentions(*file, {"LSTMCell", "GRUCell", "RNNCell", "LSTM", "GRU", "RNN"})) continue;
    if (!trains_on_gpu(facts, *file)) continue;
    for (const Statement* statement : time_loops(*file)) {
      const TimeLoop loop(*statement);
      for (const Call* call : calls_inside(*statement)) {
        if (!is_unrolled(loop, *call)) continue;
        findings.push_back(finding_for(*statement, *call));
        break;
      }
    }
  }
  return findings;
}

}  // namespace rooftile
