// Loops over the steps of a sequence: which values are known before the loop, and which come from
// the step before.
#pragma once

#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

class TimeLoop {
 public:
  explicit TimeLoop(const Statement& loop);  // a `for`

  // Nothing that an earlier step computed is in it.
  bool is_known_before(const Expr* expr) const;
  // It differs from step to step.
  bool varies(const Expr* expr) const;
  // What the loop assigns to the variable, text order.
  std::vector<const Expr*> assigned_to(std::string_view variable) const;

  const Statement& statement() const { return loop_; }

 private:
  void collect();
  void collect_target(const Expr& target, const Expr* value);
  void find_known();

  const Statement& loop_;
  std::map<std::string_view, std::vector<const Expr*>> assigned_;  // null: changed in place
  std::set<std::string_view> known_;                               // of the assigned ones
  std::vector<std::string_view> steps_;                            // the loop's variables
  std::vector<std::string_view> varying_;                          // known and from those
};

// The `for` loops of the file inside functions of modules that are no loops over batches.
std::vector<const Statement*> time_loops(const File& file);

// `for _ in range(20): y = model(x); x = append(x, y)`: each pass needs what the one before gave.
bool feeds_itself(const Loop& loop);

}  // namespace rooftile::source
