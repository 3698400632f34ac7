// Blocks, and the variables that they read and write, of one function on its way to SSA form.
#pragma once

#include <initializer_list>
#include <memory>
#include <memory_resource>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rooftile/script/ir/function.h"

namespace rooftile::script {

class SsaBuilder {
 public:
  SsaBuilder(FunctionKind kind, std::string_view name, const Function* outer);

  Function& function() { return *function_; }
  BlockId current() const { return current_; }

  // A block whose predecessors are known once it is sealed.
  BlockId add_block(bool sealed);
  void seal(BlockId block);
  void enter(BlockId block) { current_ = block; }
  // After a return: what comes is never reached, and stands in a block of its own.
  void begin();
  // Ends the current block. What follows without a new block is never reached.
  void jump(BlockId target);
  void branch(ValueId condition, BlockId if_true, BlockId if_false);
  void leave();
  bool is_open() const { return open_[current_]; }  // the current block has no end yet

  ValueId add(Op op, std::string_view word, std::span<const ValueId> operands,
              const source::Expr* expr = nullptr);
  ValueId add(Op op, std::string_view word, std::initializer_list<ValueId> operands,
              const source::Expr* expr = nullptr) {
    return add(op, word, std::span(operands.begin(), operands.size()), expr);
  }
  void write(std::string_view variable, ValueId value);
  // Of a variable that only a part of the function sees; `name` is what inner functions call it.
  void write_hidden(std::string_view variable, std::string_view name, ValueId value);
  ValueId read(std::string_view variable);

  // Removes phis of one value, numbers the values in the order of the blocks, and hands the
  // function over. `forward` gives, by the number that add() and read() gave, the final one.
  std::unique_ptr<Function> finish(std::vector<ValueId>& forward);

 private:
  using Key = std::uint64_t;
  struct OpenPhi {
    std::uint32_t variable;
    ValueId phi;
  };

  static Key key(BlockId block, std::uint32_t variable) {
    return (static_cast<Key>(block) << 32U) | variable;
  }
  std::uint32_t number_of(std::string_view variable);
  ValueId add_in(BlockId block, Op op, std::string_view word, std::span<const ValueId> operands);
  std::span<const ValueId> keep(std::span<const ValueId> operands);
  ValueId find(BlockId block, std::uint32_t variable);
  ValueId unassigned(std::uint32_t variable);
  void fill_phis();
  ValueId final_of(ValueId value);
  bool settle(ValueId phi);
  void drop_phis_of_one_value();

  std::unique_ptr<Function> function_;
  BlockId current_ = 0;
  std::vector<bool> sealed_, open_;
  std::unordered_map<std::string_view, std::uint32_t> variables_;
  std::vector<std::string_view> variable_names_;
  std::vector<std::uint32_t> written_;  // those that the end of the function knows
  std::pmr::monotonic_buffer_resource memory_;
  std::pmr::unordered_map<Key, ValueId> known_{&memory_};
  std::unordered_map<BlockId, std::vector<OpenPhi>> open_phis_;  // of blocks that are not sealed
  std::vector<OpenPhi> unfilled_;
  std::vector<ValueId> phis_;
  std::vector<ValueId> same_as_;  // of a phi that went: what takes its place
};

}  // namespace rooftile::script
