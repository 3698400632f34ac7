#include "rooftile/script/flow/sources.h"

#include <algorithm>
#include <unordered_set>

#include "rooftile/script/flow/flow.h"

namespace rooftile::script {
namespace {

// Whether it is followed into what it is made of.
bool has_parts(const Instruction& made) {
  return made.op != Op::enter && made.op != Op::closure && made.op != Op::definition;
}

}  // namespace

const source::Expr* Flow::expr_of(NodeId id) const {
  const Node& node = nodes_[id];
  return node.key.kind == NodeKind::value ? instruction(node).expr : nullptr;
}

// What its value is one of, by default; the last one first. Empty where it is not followed.
std::vector<Flow::NodeId> Flow::alternatives(NodeId id) {
  solve(id);
  const Node& node = nodes_[id];
  std::vector<NodeId> found;
  switch (node.rule) {
    case Rule::join:
      for (const Dependency& each : node.dependencies) found.push_back(each.node);
      break;
    case Rule::items:  // behind the list itself
      for (std::size_t i = 1; i < node.dependencies.size(); ++i) {
        found.push_back(node.dependencies[i].node);
      }
      break;
    case Rule::phi: {
      const auto& function = *static_cast<const Function*>(node.key.owner);
      const BlockId to = instruction(node).block;
      std::size_t next = 0;
      for (const BlockId from : function.blocks[to].predecessors) {
        const Reach reach = reach_of_edge(node, next, from, to);
        const NodeId brought = node.dependencies[next++].node;
        if (reach == Reach::always) found.push_back(brought);
      }
      break;
    }
    case Rule::results:
      for (std::size_t i = 0; i + 1 < node.dependencies.size(); i += 2) {
        const bool runs = nodes_[node.dependencies[i].node].reach == Reach::always;
        if (runs) found.push_back(node.dependencies[i + 1].node);
      }
      break;
    default:
      break;
  }
  std::ranges::reverse(found);
  return found;
}

// What it is made of, the last operand first; of a call the receiver last.
std::vector<Flow::NodeId> Flow::parts(NodeId id, SourceStep step) {
  const Key key = nodes_[id].key;
  std::vector<NodeId> found;
  const bool is_value = key.kind == NodeKind::value;
  if (!is_value && key.kind != NodeKind::pass) return found;
  const auto& function = *static_cast<const Function*>(key.owner);
  const Instruction& made = function.values[key.id];
  if (!is_value) found.push_back(node_of(function, key.id, key.context));
  if (!is_value || !has_parts(made)) return found;
  const bool is_call = made.op == Op::call;
  if (is_call) {
    const Instruction& callee = function.values[made.operands[0]];
    if (callee.op == Op::attribute)
      found.push_back(node_of(function, callee.operands[0], key.context));
  }
  const bool is_one =
      step == SourceStep::receiver || (made.op == Op::item && step == SourceStep::go_on);
  const std::size_t first = is_call ? 1 : 0;
  const std::size_t last = is_one ? 1 : made.operands.size();
  for (std::size_t i = last; i > first; --i) {
    found.push_back(node_of(function, made.operands[i - 1], key.context));
  }
  return found;
}

// What it may be and is not followed further. Of a node that is finished.
std::vector<Flow::NodeId> Flow::ends(NodeId id) {
  std::vector<NodeId> found, open{id};
  std::unordered_set<NodeId> seen;
  while (!open.empty()) {
    const NodeId next = open.back();
    open.pop_back();
    if (!seen.insert(next).second) continue;
    const std::vector<NodeId> one_of = alternatives(next);
    open.insert(open.end(), one_of.begin(), one_of.end());
    if (one_of.empty() && !nodes_[next].value.is_never_made()) found.push_back(next);
  }
  return found;
}

bool Flow::find_source(const source::SourceFacts& facts, const Expr& value,
                       const std::function<SourceStep(const Expr&)>& judge,
                       SearchedInVain& in_vain) {
  facts_ = &facts;
  const std::optional<NodeId> start = node_of(&value, nullptr, 0);
  std::vector<NodeId> open;
  if (start) open.push_back(*start);
  std::unordered_set<NodeId> seen;
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    if (in_vain.contains(id) || !seen.insert(id).second) continue;
    const Expr* expr = expr_of(id);
    const SourceStep step = expr == nullptr ? SourceStep::go_on : judge(*expr);
    if (step == SourceStep::found) return true;
    if (step == SourceStep::stop) continue;
    const std::vector<NodeId> one_of =
        step == SourceStep::receiver ? std::vector<NodeId>() : alternatives(id);
    if (one_of.empty() || step == SourceStep::go_wide) {
      const std::vector<NodeId> made_of = parts(id, step);
      open.insert(open.end(), made_of.begin(), made_of.end());
    }
    open.insert(open.end(), one_of.begin(), one_of.end());
  }
  in_vain.merge(seen);
  return false;
}

const std::vector<const source::Expr*>& Flow::origins(const source::SourceFacts& facts,
                                                      const Expr& value) {
  const auto [known, is_new] = origins_.try_emplace(&value);
  std::vector<const Expr*>& found = known->second;
  if (!is_new) return found;
  facts_ = &facts;
  struct Step {
    NodeId node;
    const Expr* last;  // that it was followed from
  };
  std::vector<Step> open;
  if (const auto start = node_of(&value, nullptr, 0)) open.push_back({*start, &value});
  std::unordered_set<NodeId> seen;
  while (!open.empty()) {
    Step step = open.back();
    open.pop_back();
    if (!seen.insert(step.node).second) continue;
    if (const Expr* expr = expr_of(step.node)) step.last = expr;
    const std::vector<NodeId> one_of = alternatives(step.node);
    for (const NodeId each : one_of) open.push_back({each, step.last});
    const bool is_end = one_of.empty() && !nodes_[step.node].value.is_never_made() &&
                        std::ranges::find(found, step.last) == found.end();
    if (is_end) found.push_back(step.last);
  }
  if (found.empty()) found.push_back(&value);
  return found;
}

bool find_source(const source::SourceFacts& facts, const source::Expr& value,
                 const std::function<SourceStep(const source::Expr&)>& judge) {
  SearchedInVain nothing;
  return find_source(facts, value, judge, nothing);
}

bool find_source(const source::SourceFacts& facts, const source::Expr& value,
                 const std::function<SourceStep(const source::Expr&)>& judge,
                 SearchedInVain& in_vain) {
  return flow_of(facts).find_source(facts, value, judge, in_vain);
}

const std::vector<const source::Expr*>& origins(const source::SourceFacts& facts,
                                                const source::Expr& value) {
  return flow_of(facts).origins(facts, value);
}

const source::Expr& origin(const source::SourceFacts& facts, const source::Expr& value) {
  const std::vector<const source::Expr*>& all = origins(facts, value);
  return all.size() == 1 ? *all.front() : value;
}

}  // namespace rooftile::script
