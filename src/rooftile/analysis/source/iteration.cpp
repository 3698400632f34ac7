#include "rooftile/analysis/source/iteration.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/workload/source_store.h"

namespace rooftile::source {
namespace {

constexpr std::size_t kMaxCalls = 4000;
// Calls, and branches around them, that are kept in all: 160 MB.
constexpr std::size_t kMaxKept = 4'000'000;
constexpr std::size_t kMaxBodies = 24;  // of functions, one inside the other

bool leaves_block(std::span<const Statement* const> block) {
  if (block.empty()) return false;
  switch (block.back()->kind) {
    case StatementKind::return_:
    case StatementKind::continue_:
    case StatementKind::break_:
    case StatementKind::raise_:
      return true;
    default:
      return false;
  }
}

Branch branch_of(const Statement& statement, bool otherwise) {
  Branch branch{&statement, otherwise, {}};
  const Expr* condition = statement.value;
  while (condition != nullptr) {
    if (condition->kind == ExprKind::logical && condition->word() == "not") {
      branch.otherwise = !branch.otherwise;
      condition = condition->children().front();
    } else if (condition->kind == ExprKind::comparison && condition->children().size() == 2 &&
               condition->children()[1]->kind == ExprKind::none) {
      if (condition->word() == "is" || condition->word() == "==")
        branch.otherwise = !branch.otherwise;
      condition = condition->children().front();
    } else {
      break;
    }
  }
  if (condition != nullptr) branch.condition = statement.file->slice(condition->range);
  return branch;
}

class Walk {
 public:
  // `kept` counts over all walks.
  Walk(Iteration& iteration, std::size_t& kept) : iteration_(iteration), kept_(kept) {}

  void block(std::span<const Statement* const> statements) {
    const std::size_t depth = branches_.size();
    for (const Statement* statement : statements) {
      if (functions_.empty()) anchor_ = statement;
      this->statement(*statement);
    }
    branches_.resize(depth);
  }

 private:
  void statement(const Statement& statement) {
    if (statement.function_def != nullptr || statement.class_def != nullptr) return;
    const Statement* const outer = anchor_;
    for (const WithItem& item : statement.items) expression(item.context);
    expression(statement.value);
    expression(statement.target);
    switch (statement.kind) {
      case StatementKind::if_:
        alternatives(statement);
        break;
      case StatementKind::match_:
        for (const Statement* one : statement.body) {
          under({&statement, false, statement.file->slice(one->range)}, one->body);
        }
        break;
      case StatementKind::try_:
        block(statement.body);
        for (const Statement* handler : statement.otherwise) {
          if (!handler->word.starts_with("except")) block(handler->body);
        }
        break;
      default:
        block(statement.body);
        block(statement.otherwise);
    }
    anchor_ = outer;
  }

  // What follows an if whose body leaves the block runs only when the condition does not hold.
  void alternatives(const Statement& statement) {
    const Branch yes = branch_of(statement, false);
    const Branch no = branch_of(statement, true);
    under(yes, statement.body);
    under(no, statement.otherwise);
    if (leaves_block(statement.body)) {
      branches_.push_back(no);
    } else if (leaves_block(statement.otherwise)) {
      branches_.push_back(yes);
    }
  }

  void under(const Branch& branch, std::span<const Statement* const> body) {
    branches_.push_back(branch);
    block(body);
    branches_.pop_back();
  }

  void expression(const Expr* expr) {
    if (expr == nullptr || expr->kind == ExprKind::lambda) return;
    for (const Expr* child : expr->children()) expression(child);
    if (expr->call() == nullptr || iteration_.calls.size() >= kMaxCalls) return;
    if (kept_ >= kMaxKept) return;
    iteration_.calls.push_back({expr->call(), branches(), anchor_});
    ++kept_;
    follow(expr->call()->target);
  }

  void follow(const FunctionDef* function) {
    if (function == nullptr || functions_.size() >= kMaxBodies) return;
    if (std::find(functions_.begin(), functions_.end(), function) != functions_.end()) return;
    functions_.push_back(function);
    block(function->body);
    functions_.pop_back();
  }

  // Those around the call; calls side by side share them.
  std::span<const Branch> branches() {
    if (iteration_.branches.empty() || iteration_.branches.back() != branches_) {
      iteration_.branches.push_back(branches_);
      kept_ += branches_.size();
    }
    return iteration_.branches.back();
  }

  Iteration& iteration_;
  std::size_t& kept_;
  std::vector<Branch> branches_;
  std::vector<const FunctionDef*> functions_;
  const Statement* anchor_ = nullptr;
};

struct Iterations {
  std::unordered_map<const void*, Iteration> by_block;
  std::optional<std::vector<std::reference_wrapper<const Iteration>>> training;
  std::size_t kept = 0;

  Iteration& of(std::span<const Statement* const> block) {
    const auto [found, is_new] = by_block.try_emplace(block.data());
    if (is_new) Walk(found->second, kept).block(block);
    return found->second;
  }
};

std::vector<std::reference_wrapper<const Iteration>> find_training_iterations(
    const SourceFacts& facts, Iterations& known) {
  std::vector<std::reference_wrapper<const Iteration>> iterations;
  std::unordered_set<const Call*> seen;
  const auto add = [&](std::span<const Statement* const> block) -> Iteration& {
    Iteration& iteration = known.of(block);
    iterations.emplace_back(iteration);
    for (const IteratedCall& one : iteration.calls) seen.insert(one.call);
    return iteration;
  };
  for (const Loop* loop : facts.loops(LoopRole::training_step)) {
    if (loop->file->is_test) continue;
    Iteration& iteration = add(loop->statement->body);
    iteration.loop = loop;
    iteration.function = loop->function;
    iteration.file = loop->file;
  }
  for (const Call* backward : facts.method_calls("backward")) {
    const FunctionDef* function = backward->function;
    if (function == nullptr || backward->file->is_test || seen.contains(backward)) continue;
    Iteration& iteration = add(function->body);
    iteration.function = function;
    iteration.file = backward->file;
  }
  return iterations;
}

}  // namespace

const Iteration& iteration_of(const SourceFacts& facts, std::span<const Statement* const> block) {
  return facts.store().kept<Iterations>().of(block);
}

const std::vector<std::reference_wrapper<const Iteration>>& training_iterations(
    const SourceFacts& facts) {
  auto& known = facts.store().kept<Iterations>();
  if (!known.training) known.training = find_training_iterations(facts, known);
  return *known.training;
}

namespace {

// The side of the condition that the call stands in; empty where a function that is called there
// has it.
std::span<const Statement* const> side_with(const Statement& condition, const Call& call) {
  for (const auto side : {condition.body, condition.otherwise}) {
    for (const Statement* statement : side) {
      if (is_within(*call.statement, *statement)) return side;
    }
  }
  return {};
}

// Whether `first` stands in a branch that ends in `break`, `continue` or a return, and `second`
// behind it in the same function: also where the branch is inside of others.
bool leaves_before(const IteratedCall& first, const IteratedCall& second) {
  for (const Branch& branch : first.branches) {
    const Statement& condition = *branch.statement;
    if (condition.kind != StatementKind::if_ || condition.function != second.call->function) {
      continue;
    }
    const Statement& later = *second.call->statement;
    if (later.range.begin < condition.range.end) continue;
    const auto side = side_with(condition, *first.call);
    if (!leaves_block(side)) continue;
    const StatementKind end = side.back()->kind;
    const bool ends_pass = end == StatementKind::break_ || end == StatementKind::continue_;
    const Statement* loop = ends_pass ? loop_around(&condition) : nullptr;
    if (!ends_pass || (loop != nullptr && is_within(later, *loop))) return true;
  }
  return false;
}

}  // namespace

bool exclude_each_other(const IteratedCall& a, const IteratedCall& b) {
  if (leaves_before(a, b) || leaves_before(b, a)) return true;
  for (const Branch& x : a.branches) {
    for (const Branch& y : b.branches) {
      if (x.statement == y.statement && x.condition != y.condition) return true;  // two cases
      const bool is_same = x.statement == y.statement || x.condition == y.condition;
      if (is_same && x.otherwise != y.otherwise) return true;
    }
  }
  return false;
}

std::vector<Branch> extra_conditions(const IteratedCall& a, const IteratedCall& b) {
  std::vector<Branch> extra;
  for (const Branch& branch : a.branches) {
    const auto is_same = [&](const Branch& other) {
      return other.otherwise == branch.otherwise &&
             (other.statement == branch.statement || other.condition == branch.condition);
    };
    if (std::none_of(b.branches.begin(), b.branches.end(), is_same)) extra.push_back(branch);
  }
  return extra;
}

bool is_accumulation_test(const Branch& branch) {
  if (branch.statement->kind != StatementKind::if_) return false;
  std::string condition = lower(branch.condition);
  const Expr* test = resolved(branch.statement->value);  // `update = i % n == 0`, then `if update:`
  if (test->kind == ExprKind::comparison) {
    condition += lower(test->statement->file->slice(test->range));
  }
  return contains_any(condition, {"%", "accum", "sync_grad", "update_freq", "do_update",
                                  "is_update", "update_grad", "is_last_micro"});
}

}  // namespace rooftile::source
