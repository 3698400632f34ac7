// The values of SourceFacts: looked up in what flow.h works out.
#include "rooftile/script/flow/flow.h"
#include "rooftile/script/flow/queries.h"

namespace rooftile {
namespace {

// Graphs never change; values do as long as the facts are read.
struct KnownValues {
  script::Graphs graphs;
  std::unique_ptr<script::Flow> flow;
};

}  // namespace

script::Graphs& script::graphs_of(const source::SourceFacts& facts) {
  return facts.store().kept<KnownValues>().graphs;
}

script::Flow& script::flow_of(const source::SourceFacts& facts) {
  auto& known = facts.store().kept<KnownValues>();
  if (known.flow == nullptr || !facts.store().is_complete) {
    known.flow = std::make_unique<script::Flow>(known.graphs);
  }
  return *known.flow;
}

script::KnownValue script::known_value(const source::SourceFacts& facts, const source::Expr& expr,
                                       const source::Call* entered_by) {
  return flow_of(facts).value(facts, expr, entered_by);
}

namespace source {

Value SourceFacts::value(const Expr* expr) const {
  Value value;
  if (expr != nullptr) value = script::literal_constant(*expr);
  if (expr != nullptr && !value.known()) {
    const Value* only = script::flow_of(*this).value(*this, *expr).only();
    const bool is_lambda =
        only != nullptr && only->found != nullptr && only->found->kind == ExprKind::lambda;
    if (only != nullptr && !is_lambda) value = *only;
  }
  value.expr = expr;
  return value;
}

Value SourceFacts::argument(const Call& call, std::string_view name, int position) const {
  const Argument* given = call.argument(name, position);
  if (given != nullptr) return value(given->value);
  Value missing;
  missing.kind = call.unknown_arguments ? ValueKind::unknown : ValueKind::absent;
  return missing;
}

}  // namespace source
}  // namespace rooftile
