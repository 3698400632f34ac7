// The search of flow.h.
#include "rooftile/script/flow/flow.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace rooftile::script {
namespace {

// Of a cycle until its values are given up. Most settle in three.
constexpr int kMaxRounds = 16;

}  // namespace

Unit& Graphs::of(const source::File& file) { return units_.try_emplace(&file, file).first->second; }

std::optional<ValuePlace> Graphs::place(const source::Expr& expr) {
  const source::Statement* statement = expr.statement;
  return statement == nullptr ? std::nullopt : of(*statement->file).place(expr);
}

const Graphs::SharedStores& Graphs::shared_stores(const source::File& file) {
  const auto [place, is_new] = shared_stores_.try_emplace(&file);
  SharedStores& stores = place->second;
  if (!is_new) return stores;
  std::unordered_set<const source::FunctionDef*> sharing;
  for (const source::Statement* each : file.statements) {
    const bool shares = each->kind == source::StatementKind::global_ && each->function != nullptr;
    if (!shares || !sharing.insert(each->function).second) continue;
    const Function* body = of(file).body(*each->function);
    for (ValueId value = 0; body != nullptr && value < body->values.size(); ++value) {
      const Instruction& made = body->values[value];
      if (made.op == Op::store_free) stores[made.word].push_back({body, made.operands[0]});
    }
  }
  return stores;
}

const std::vector<const source::Expr*>& Graphs::stores(const source::SourceFacts& facts,
                                                       std::string_view attribute) {
  const auto add = [this](const auto& self, const source::Expr* target) -> void {
    if (target == nullptr) return;
    if (target->kind == source::ExprKind::attribute) stores_[target->word()].push_back(target);
    const bool has_parts = target->kind == source::ExprKind::tuple ||
                           target->kind == source::ExprKind::list ||
                           target->kind == source::ExprKind::starred;
    if (!has_parts) return;
    for (const source::Expr* part : target->children()) self(self, part);
  };
  for (; files_with_stores_ < facts.files.size(); ++files_with_stores_) {
    for (const source::Statement* each : facts.files[files_with_stores_]->statements) {
      if (each->value == nullptr && each->items.empty()) continue;  // `self.x: int`
      add(add, each->target);
      for (const source::WithItem& item : each->items) add(add, item.target);
    }
  }
  return stores_[attribute];
}

std::size_t Flow::KeyHash::operator()(const Key& key) const {
  std::size_t hash = std::hash<const void*>{}(key.owner);
  for (const std::uint32_t part : {static_cast<std::uint32_t>(key.kind), key.id, key.context}) {
    hash = (hash ^ part) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 29U;
  }
  return hash;
}

Flow::NodeId Flow::node(const Key& key) {
  const auto next = static_cast<NodeId>(nodes_.size());
  const auto [place, is_new] = by_key_.try_emplace(key, next);
  if (is_new) nodes_.emplace_back().key = key;
  return place->second;
}

Flow::NodeId Flow::node_of(const Function& function, ValueId value, std::uint32_t context) {
  return node({NodeKind::value, &function, value, context});
}

// A context is about the parameters of one function.
std::optional<Flow::NodeId> Flow::node_of(const Expr* expr, const Function* from,
                                          std::uint32_t context) {
  if (expr == nullptr) return std::nullopt;
  const std::optional<ValuePlace> place = graphs_.place(*expr);
  if (!place) return std::nullopt;
  return node_of(*place->function, place->value, place->function == from ? context : 0);
}

std::uint32_t Flow::word_id(std::string_view word) {
  const auto next = static_cast<std::uint32_t>(words_.size());
  const auto [place, is_new] = word_ids_.try_emplace(word, next);
  if (is_new) words_.push_back(word);
  return place->second;
}

const KnownValue& Flow::value(const source::SourceFacts& facts, const Expr& expr,
                              const source::Call* entered_by) {
  facts_ = &facts;
  static const KnownValue anything = KnownValue::anything();
  const std::optional<ValuePlace> place = graphs_.place(expr);
  const bool is_entered = entered_by != nullptr && entered_by->target != nullptr && place &&
                          place->function->def == entered_by->target;
  const std::uint32_t context = is_entered ? context_of(*entered_by) : 0;
  const std::optional<NodeId> found =
      node_of(&expr, is_entered ? place->function : nullptr, context);
  if (!found) return anything;
  solve(*found);
  return nodes_[*found].value;
}

void Flow::depend(NodeId id, NodeId on, Certainty at_least) {
  nodes_[id].dependencies.push_back({on, at_least});
}

// On an expression of whatever function, for all calls of that.
void Flow::depend(NodeId id, const Expr* expr, Certainty at_least) {
  const std::optional<NodeId> found = node_of(expr, nullptr, 0);
  if (!found) return may_be_anything(id);
  depend(id, *found, at_least);
}

void Flow::solve(NodeId root) {
  struct Frame {
    NodeId node;
    std::size_t next = 0;
  };
  std::vector<Frame> frames;
  std::vector<NodeId> open;
  const auto meet = [&](NodeId id) {
    nodes_[id].index = nodes_[id].low = ++searched_;
    nodes_[id].is_open = true;
    open.push_back(id);
    frames.push_back({id});
    connect(id);
  };
  if (nodes_[root].index == 0) meet(root);
  while (!frames.empty()) {
    const NodeId id = frames.back().node;
    Node& mine = nodes_[id];
    if (frames.back().next < mine.dependencies.size()) {
      const NodeId on = mine.dependencies[frames.back().next++].node;
      if (nodes_[on].index == 0) {
        meet(on);
      } else if (nodes_[on].is_open) {
        mine.low = std::min(mine.low, nodes_[on].index);
      }
    } else if (std::exchange(mine.may_depend_on_more, false)) {
      connect_more(id);
    } else {
      frames.pop_back();
      if (!frames.empty()) {
        Node& outer = nodes_[frames.back().node];
        outer.low = std::min(outer.low, mine.low);
      }
      if (mine.low == mine.index) finish_component(id, open);
    }
  }
}

void Flow::finish_component(NodeId root, std::vector<NodeId>& open) {
  const auto first = std::ranges::find(open.rbegin(), open.rend(), root).base() - 1;
  // What was met last depends least on the others.
  std::vector<NodeId> members(std::make_reverse_iterator(open.end()),
                              std::make_reverse_iterator(first));
  open.erase(first, open.end());
  bool rises = true;
  for (int round = 0; rises && round < kMaxRounds; ++round) {
    rises = false;
    for (const NodeId id : members) rises = update(id) || rises;
    rises = rises && members.size() > 1;
  }
  for (const NodeId id : members) {
    nodes_[id].is_open = false;
    if (rises) nodes_[id].value = KnownValue::anything();
    if (rises) nodes_[id].reach = Reach::always;
  }
}

bool Flow::update(NodeId id) {
  Node& mine = nodes_[id];
  switch (mine.rule) {
    case Rule::join:
      return mine.value.join(joined(mine));
    case Rule::phi:
      return mine.value.join(of_phi(mine));
    case Rule::results:
      return mine.value.join(of_results(mine));
    case Rule::operation:
      return mine.value.join(of_operation(mine));
    case Rule::convert:
      return mine.value.join(of_conversion(mine));
    case Rule::reduce:
      return mine.value.join(of_reduction(mine));
    case Rule::format:
      return mine.value.join(of_format(mine));
    case Rule::index:
      return mine.value.join(of_index(mine));
    case Rule::items:  // after the list itself
      return mine.value.join(joined(mine, 1));
    case Rule::block:
      break;
  }
  const Reach reach = std::max(mine.reach, reach_of_block(mine));
  return std::exchange(mine.reach, reach) != reach;
}

}  // namespace rooftile::script
