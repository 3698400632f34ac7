// What values of scripts are, worked out over the SSA graphs of all files (script/ir) and the calls
// between their functions.
//
// Each value, block and attribute is a node that depends on others: a phi on what its predecessors
// bring, a parameter on what callers pass, a call on what its function returns. Nodes are met in
// the order of a depth-first search from what is wanted, their strongly connected components one
// after the other (Tarjan 1972): a node without a cycle is worked out once, the nodes of a cycle
// (loops, recursion) until none rises. Values only rise, and the lattice is low (known_value.h);
// after kMaxRounds rounds what is left of a cycle may be anything. So the work is linear in the
// nodes that are needed.
//
// A function's results are worked out for each call of it, with what that call passes (k = 1). In
// calls inside of it parameters are what all callers pass.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rooftile/script/flow/known_value.h"
#include "rooftile/script/flow/sources.h"
#include "rooftile/script/ir/lower.h"
#include "rooftile/workload/source_store.h"

namespace rooftile::script {

// The graphs of files, made when they are needed first, and what is found in them by name.
class Graphs {
 public:
  Unit& of(const source::File& file);
  std::optional<ValuePlace> place(const source::Expr& expr);
  const Function* body(const source::FunctionDef& def) { return of(*def.file).body(def); }
  const Function* body(const source::ClassDef& def) { return of(*def.file).body(def); }
  // What functions of the file give global and nonlocal names.
  using SharedStores = std::unordered_map<std::string_view, std::vector<ValuePlace>>;
  const SharedStores& shared_stores(const source::File& file);
  // The targets of assignments to x.attribute, whatever x is.
  const std::vector<const source::Expr*>& stores(const source::SourceFacts& facts,
                                                 std::string_view attribute);
  // Text that no script holds, as long as the facts live.
  std::string_view keep(std::string text) { return texts_.emplace_back(std::move(text)); }

 private:
  std::deque<std::string> texts_;
  std::unordered_map<const source::File*, Unit> units_;
  std::unordered_map<const source::File*, SharedStores> shared_stores_;
  std::unordered_map<std::string_view, std::vector<const source::Expr*>> stores_;
  std::size_t files_with_stores_ = 0;
};

class Flow {
 public:
  explicit Flow(Graphs& graphs) : graphs_(graphs) {}

  // What an expression evaluates to in its function, whoever calls that, or where one call enters
  // it. The facts are the same for all, and do not change in between; they may move.
  const KnownValue& value(const source::SourceFacts& facts, const source::Expr& expr,
                          const source::Call* entered_by = nullptr);
  // As in sources.h.
  bool find_source(const source::SourceFacts& facts, const source::Expr& value,
                   const std::function<SourceStep(const source::Expr&)>& judge,
                   SearchedInVain& in_vain);
  const std::vector<const source::Expr*>& origins(const source::SourceFacts& facts,
                                                  const source::Expr& value);

 private:
  using Expr = source::Expr;
  using NodeId = std::uint32_t;

  enum class NodeKind : std::uint8_t {
    value,      // of an instruction
    block,      // whether it is reached
    attribute,  // of the objects of a class of the given files
    variable,   // of a module
    results,    // of a function
    pass,       // over a value: an item of it
  };

  struct Key {
    NodeKind kind = NodeKind::value;
    const void* owner = nullptr;  // Function or ClassDef
    std::uint32_t id = 0;         // value, block, or word
    std::uint32_t context = 0;    // a call, from whose arguments parameters come; 0: from all calls

    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };

  // How a node comes out of those that it depends on.
  enum class Rule : std::uint8_t {
    join,       // any of them
    phi,        // pairs of a block and what it brings
    block,      // pairs of a predecessor and its condition
    results,    // pairs of a block and what is returned there
    operation,  //
    convert,    // int(), float(), bool(), str()
    reduce,     // min(), max(), abs(), len()
    format,     // an f-string
    items,      // of the list that the first is: those that an unpacking or a loop takes
    index,      // of the passes of a loop, as many as the first says
  };

  // What a block brings.
  enum class Reach : std::uint8_t { never, if_configured, always };

  struct Dependency {
    NodeId node = 0;
    Certainty at_least = Certainty::literal;
  };

  struct Node {
    Key key;
    Rule rule = Rule::join;
    Reach reach = Reach::never;  // of a block
    bool may_depend_on_more = false;
    std::uint32_t index = 0, low = 0;  // of the search; 0: not met
    bool is_open = false;              // its component is not finished
    KnownValue value;
    std::vector<Dependency> dependencies;
  };

  // The search (flow.cpp).
  NodeId node(const Key& key);
  NodeId node_of(const Function& function, ValueId value, std::uint32_t context);
  std::optional<NodeId> node_of(const Expr* expr, const Function* from, std::uint32_t context);
  void solve(NodeId root);
  void finish_component(NodeId root, std::vector<NodeId>& open);
  bool update(NodeId id);
  std::uint32_t context_of(const source::Call& call);
  std::uint32_t word_id(std::string_view word);

  // What nodes depend on (dependencies.cpp, call_dependencies.cpp).
  void connect(NodeId id);
  void connect_value(NodeId id);
  bool connect_index(NodeId id, const Function& function, const Instruction& iterated);
  void connect_block(NodeId id);
  void connect_phi(NodeId id, const Function& function, const Instruction& phi);
  void connect_parameter(NodeId id, const Function& function, const Instruction& made);
  void connect_beside(NodeId id, const Function& lambda);
  void connect_caller(NodeId id, const source::Call& caller, const source::FunctionDef& def,
                      const source::Parameter& parameter, Certainty usual);
  void connect_default(NodeId id, const source::FunctionDef& def,
                       const source::Parameter& parameter, Certainty at_least);
  void connect_free(NodeId id, const Function& function, std::string_view word);
  void connect_name(NodeId id, const Function& function, const Instruction& made);
  void connect_full_name(NodeId id, const Expr& expr);
  bool connect_global(NodeId id, std::string_view full_name);
  void connect_attribute(NodeId id, const Instruction& made);
  bool connect_property(NodeId id, const source::ClassDef& def, std::string_view word);
  bool connect_class_attribute(NodeId id, const source::ClassDef& def, std::string_view word);
  void connect_attribute_cell(NodeId id);
  void connect_fields(NodeId id, const source::ClassDef& def, std::string_view word);
  void connect_variable(NodeId id);
  void connect_item(NodeId id, const Function& function, const Instruction& made);
  void join_option(NodeId id, Value value);
  void connect_option(NodeId id, const source::Option& option);
  void connect_call(NodeId id, const Function& function, ValueId value);
  bool connect_library_call(NodeId id, const Function& function, const Instruction& made);
  std::optional<NodeId> comprehended(NodeId list);
  std::optional<NodeId> part_of_pass(NodeId iterated, std::string_view place);
  bool connect_unwritten(NodeId id, NodeId whole, std::string_view place);
  void connect_results(NodeId id);
  void connect_more(NodeId id);
  void connect_items(NodeId id, const Value& list, std::string_view place);
  NodeId pass_of(NodeId value);
  void connect_called(NodeId id, const source::FunctionDef& def, std::uint32_t context);
  const source::Option* configured(const Expr& expr) const;
  std::vector<const source::FunctionDef*> overrides(const source::FunctionDef& def);

  void depend(NodeId id, NodeId on, Certainty at_least = Certainty::literal);
  void depend(NodeId id, const Expr* expr, Certainty at_least);
  void may_be_anything(NodeId id) { nodes_[id].value = KnownValue::anything(); }
  void is_constant(NodeId id, const Value& constant) {
    nodes_[id].value = KnownValue::of(constant);
  }

  // What they come to (transfer.cpp).
  KnownValue joined(const Node& node, std::size_t from = 0) const;
  KnownValue of_phi(const Node& node) const;
  KnownValue of_results(const Node& node) const;
  KnownValue of_operation(const Node& node) const;
  KnownValue of_conversion(const Node& node);
  KnownValue of_reduction(const Node& node) const;
  KnownValue of_format(const Node& node);
  KnownValue of_index(const Node& node) const;
  Reach reach_of_block(const Node& node) const;
  Reach reach_of_edge(const Node& node, std::size_t& next, BlockId from, BlockId to) const;
  const Instruction& instruction(const Node& node) const;

  // Where they come from (sources.cpp).
  std::vector<NodeId> alternatives(NodeId id);
  std::vector<NodeId> ends(NodeId id);
  std::vector<NodeId> parts(NodeId id, SourceStep step);
  const Expr* expr_of(NodeId id) const;

  const source::SourceFacts* facts_ = nullptr;
  Graphs& graphs_;
  std::deque<Node> nodes_;
  std::unordered_map<Key, NodeId, KeyHash> by_key_;
  std::unordered_map<const Expr*, std::vector<const Expr*>> origins_;  // asked for so far
  std::vector<const source::Call*> contexts_{nullptr};
  std::unordered_map<const source::Call*, std::uint32_t> context_by_call_;
  std::vector<std::string_view> words_;
  std::unordered_map<std::string_view, std::uint32_t> word_ids_;
  std::unordered_map<const source::ClassDef*, std::vector<const source::ClassDef*>> derived_;
  bool has_derived_ = false;
  std::uint32_t searched_ = 0;
};

// Of the facts, made as they are asked for.
Graphs& graphs_of(const source::SourceFacts& facts);
Flow& flow_of(const source::SourceFacts& facts);

}  // namespace rooftile::script
