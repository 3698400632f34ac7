#include "rooftile/script/ir/ssa_builder.h"

#include <algorithm>

namespace rooftile::script {
namespace {

// Of one function. Code made to be large ends in unknown values.
constexpr std::size_t kMaxValues = std::size_t{1} << 20U;

// Copies what instructions point to into the function, under the final numbers.
void gather_operands(Function& function, std::span<const ValueId> forward) {
  std::size_t count = 0;
  for (const Instruction& each : function.values) count += each.operands.size();
  function.operands.reserve(count);
  for (Instruction& each : function.values) {
    const std::size_t begin = function.operands.size();
    for (const ValueId operand : each.operands) {
      function.operands.push_back(forward[operand]);
    }
    each.operands = std::span<const ValueId>(function.operands).subspan(begin);
  }
}

}  // namespace

SsaBuilder::SsaBuilder(FunctionKind kind, std::string_view name, const Function* outer)
    : function_(std::make_unique<Function>()) {
  function_->kind = kind;
  function_->name = name;
  function_->outer = outer;
  add_block(true);
}

BlockId SsaBuilder::add_block(bool sealed) {
  function_->blocks.emplace_back();
  sealed_.push_back(sealed);
  open_.push_back(true);
  return static_cast<BlockId>(function_->blocks.size() - 1);
}

void SsaBuilder::begin() {
  if (!open_[current_]) enter(add_block(true));
}

void SsaBuilder::jump(BlockId target) {
  if (!open_[current_]) return;
  function_->blocks[current_].next = target;
  function_->blocks[target].predecessors.push_back(current_);
  open_[current_] = false;
}

void SsaBuilder::branch(ValueId condition, BlockId if_true, BlockId if_false) {
  if (!open_[current_]) return;
  jump(if_true);
  function_->blocks[current_].condition = condition;
  function_->blocks[current_].otherwise = if_false;
  function_->blocks[if_false].predecessors.push_back(current_);
}

void SsaBuilder::leave() { open_[current_] = false; }

ValueId SsaBuilder::add_in(BlockId block, Op op, std::string_view word,
                           std::span<const ValueId> operands) {
  const auto id = static_cast<ValueId>(function_->values.size());
  Instruction& made = function_->values.emplace_back();
  made.op = op;
  made.block = block;
  made.word = word;
  made.operands = keep(operands);
  same_as_.push_back(id);
  return id;
}

std::span<const ValueId> SsaBuilder::keep(std::span<const ValueId> operands) {
  if (operands.empty()) return {};
  auto* place = static_cast<ValueId*>(memory_.allocate(operands.size_bytes(), alignof(ValueId)));
  std::uninitialized_copy(operands.begin(), operands.end(), place);
  return {place, operands.size()};
}

ValueId SsaBuilder::add(Op op, std::string_view word, std::span<const ValueId> operands,
                        const source::Expr* expr) {
  begin();
  const ValueId id = add_in(current_, op, word, operands);
  function_->values[id].expr = expr;
  function_->blocks[current_].instructions.push_back(id);
  return id;
}

std::uint32_t SsaBuilder::number_of(std::string_view variable) {
  const auto next = static_cast<std::uint32_t>(variables_.size());
  const auto [place, is_new] = variables_.try_emplace(variable, next);
  if (is_new) variable_names_.push_back(variable);
  return place->second;
}

void SsaBuilder::write(std::string_view variable, ValueId value) {
  write_hidden(variable, variable, value);
  written_.push_back(number_of(variable));
}

void SsaBuilder::write_hidden(std::string_view variable, std::string_view name, ValueId value) {
  begin();
  known_[key(current_, number_of(variable))] = value;
  function_->definitions.push_back({name, value});
}

ValueId SsaBuilder::read(std::string_view variable) {
  begin();
  const ValueId found = find(current_, number_of(variable));
  fill_phis();
  return found;
}

// A name that nothing has assigned before is one of an outer function or of the module.
ValueId SsaBuilder::unassigned(std::uint32_t variable) {
  const ValueId id = add_in(0, Op::free, variable_names_[variable], {});
  function_->blocks[0].instructions.push_back(id);
  return id;
}

// Up through blocks with one predecessor; a phi where several meet, which is filled later.
ValueId SsaBuilder::find(BlockId block, std::uint32_t variable) {
  std::vector<BlockId> passed;
  ValueId found = kNone;
  while (found == kNone) {
    const auto known = known_.find(key(block, variable));
    if (known != known_.end()) {
      found = known->second;
      break;
    }
    passed.push_back(block);
    const std::vector<BlockId>& from = function_->blocks[block].predecessors;
    if (sealed_[block] && from.size() == 1) {
      block = from.front();
      continue;
    }
    if (sealed_[block] && from.empty()) {
      found = block == 0 ? unassigned(variable) : add_in(block, Op::undefined, {}, {});
      if (block != 0) function_->blocks[block].instructions.push_back(found);
    } else if (function_->values.size() >= kMaxValues) {
      found = add_in(0, Op::unknown, {}, {});
      function_->blocks[0].instructions.push_back(found);
    } else {
      found = add_in(block, Op::phi, variable_names_[variable], {});
      phis_.push_back(found);
      if (sealed_[block]) {
        unfilled_.push_back({variable, found});
      } else {
        open_phis_[block].push_back({variable, found});
      }
    }
  }
  for (const BlockId each : passed) known_[key(each, variable)] = found;
  return found;
}

void SsaBuilder::fill_phis() {
  while (!unfilled_.empty()) {
    const OpenPhi open = unfilled_.back();
    unfilled_.pop_back();
    const BlockId block = function_->values[open.phi].block;
    std::vector<ValueId> operands;
    for (std::size_t i = 0; i < function_->blocks[block].predecessors.size(); ++i) {
      operands.push_back(find(function_->blocks[block].predecessors[i], open.variable));
    }
    function_->values[open.phi].operands = keep(operands);
  }
}

void SsaBuilder::seal(BlockId block) {
  sealed_[block] = true;
  const auto open = open_phis_.find(block);
  if (open == open_phis_.end()) return;
  unfilled_.insert(unfilled_.end(), open->second.begin(), open->second.end());
  open_phis_.erase(open);
  fill_phis();
}

ValueId SsaBuilder::final_of(ValueId value) {
  ValueId last = value;
  while (same_as_[last] != last) last = same_as_[last];
  while (same_as_[value] != last) value = std::exchange(same_as_[value], last);
  return last;
}

// Whether a phi has one value but itself, and so went.
bool SsaBuilder::settle(ValueId phi) {
  if (same_as_[phi] != phi) return false;
  ValueId only = kNone;
  for (const ValueId operand : function_->values[phi].operands) {
    const ValueId value = final_of(operand);
    if (value == phi || value == only) continue;
    if (only != kNone) return false;
    only = value;
  }
  if (only == kNone) return false;  // in code that is never reached
  same_as_[phi] = only;
  return true;
}

// To and fro: those that a phi depends on stand before it, or behind it in loops.
void SsaBuilder::drop_phis_of_one_value() {
  for (bool is_changed = true; is_changed; std::ranges::reverse(phis_)) {
    is_changed = false;
    for (const ValueId phi : phis_) is_changed = settle(phi) || is_changed;
  }
}

std::unique_ptr<Function> SsaBuilder::finish(std::vector<ValueId>& forward) {
  fill_phis();
  // What each name is at the end, where the end is reached.
  const bool keeps_names =
      function_->kind == FunctionKind::module || function_->kind == FunctionKind::class_body;
  std::vector<bool> seen(variable_names_.size());
  for (std::size_t i = 0; keeps_names && i < written_.size(); ++i) {
    const std::uint32_t variable = written_[i];
    if (seen[variable]) continue;
    seen[variable] = true;
    function_->at_exit.push_back({variable_names_[variable], find(current_, variable)});
    fill_phis();
  }
  drop_phis_of_one_value();
  std::vector<std::vector<ValueId>> phis(function_->blocks.size());
  for (const ValueId phi : phis_) {
    if (same_as_[phi] == phi) phis[function_->values[phi].block].push_back(phi);
  }
  forward.assign(function_->values.size(), kNone);
  std::vector<Instruction> ordered;
  for (BlockId id = 0; id < function_->blocks.size(); ++id) {
    std::vector<ValueId>& own = function_->blocks[id].instructions;
    std::ranges::sort(phis[id]);
    own.insert(own.begin(), phis[id].begin(), phis[id].end());
    for (ValueId& value : own) {
      forward[value] = static_cast<ValueId>(ordered.size());
      ordered.push_back(function_->values[value]);
      value = forward[value];
    }
  }
  for (ValueId value = 0; value < forward.size(); ++value) {
    if (forward[value] == kNone) forward[value] = forward[final_of(value)];
  }
  for (Block& block : function_->blocks) {
    if (block.condition != kNone) block.condition = forward[block.condition];
  }
  for (NamedValue& each : function_->definitions) each.value = forward[each.value];
  for (NamedValue& each : function_->at_exit) each.value = forward[each.value];
  for (ValueId& value : function_->results) value = forward[value];
  function_->values = std::move(ordered);
  gather_operands(*function_, forward);
  return std::move(function_);
}

}  // namespace rooftile::script
