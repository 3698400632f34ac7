// How statements are reached: from which loops, how often, under which options.
//
// All paths to a function that agree in what matters here are one Way. A function's ways come from
// its callers: those that lead to the call, under what the call passes (k = 1), with the guards and
// loops around the call added. Functions whose callers are all known are worked out first; within a
// cycle of calls the ways of its members are joined until no new one comes. That ends: a way is a
// step loop, a few switches and at most one condition, so that there are finitely many; and a set
// only gains ways, or replaces one by another that lets more pass.
#pragma once

#include <vector>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// What keeps it from running on each pass of the step loop, or of each call where there is no loop.
enum class Shut : std::uint8_t {
  no,         // nothing, or what nearly all passes get by
  condition,  // one condition on values alone
  yes,
};

struct Way {
  const Loop* step_loop = nullptr;  // the innermost one
  // An evaluation function, Lightning's training_step and the like count without a loop.
  LoopRole role = LoopRole::other;
  // The method of a module, optimizer or the like that the way starts in, whose caller is not seen.
  const FunctionDef* start = nullptr;
  const Expr* autocast = nullptr;  // the innermost one around
  bool is_autocast_off = false;    // by a condition on the switch that turns it on
  bool gradients_off = false;
  bool passes_forward = false;        // of a module
  bool forward_is_off = false;        // where it is called, or all of it, runs without gradients
  bool is_in_inner_loop = false;      // inside of the step loop
  std::uint8_t is_between_steps = 0;  // calls from a hook of Lightning down, itself counted

  // What stands against it; less is better.
  Shut shut = Shut::no;
  const Expr* condition = nullptr;  // of Shut::condition
  const Statement* branch = nullptr;
  bool negated = false;
  bool is_shut_for_good = false;  // also on passes that meet the conditions on values
  bool is_conditional = false;    // some condition stands inside of the step loop
  bool is_for_inference = false;  // the else of `if self.training:`
  bool is_off_by_default = false;
  bool is_off_when_launched = false;  // the same, on one GPU or several as the conditions want it

  bool trains() const { return role == LoopRole::training_step; }
  bool evaluates() const { return role == LoopRole::evaluation_step; }
  bool is_open() const { return role == LoopRole::other && step_loop == nullptr; }
  // On each pass of a training step, whatever the options.
  bool in_each_training_step() const { return trains() && !is_conditional; }

  bool operator==(const Way&) const = default;
};

// No way: nothing that is seen runs it, or the calls that lead there pass what keeps it from
// running.
using Ways = std::vector<Way>;

const Ways& ways_to(const SourceFacts& facts, const Statement& statement);
const Ways& ways_to(const SourceFacts& facts, const Call& call);
// Whether what stands in the line, of File::text, runs in some program. What only a switch makes
// that is off by default does not.
bool is_reached(const SourceFacts& facts, const File& file, std::size_t line);
// Whether only switches that are off by default lead to the line; a name that chooses one of
// several is none.
bool is_off_by_default(const SourceFacts& facts, const File& file, std::size_t line);

template <class Node, class Test>
bool any_way(const SourceFacts& facts, const Node& node, const Test& test) {
  for (const Way& way : ways_to(facts, node)) {
    if (test(way)) return true;
  }
  return false;
}
// Whether there are ways, and all of them are such.
template <class Node, class Test>
bool all_ways(const SourceFacts& facts, const Node& node, const Test& test) {
  const Ways& ways = ways_to(facts, node);
  for (const Way& way : ways) {
    if (!test(way)) return false;
  }
  return !ways.empty();
}
// Whether some way leads through a training step on each pass, whatever the options.
template <class Node>
bool in_each_training_step(const SourceFacts& facts, const Node& node) {
  return any_way(facts, node, [](const Way& way) { return way.in_each_training_step(); });
}
template <class Node>
bool without_gradients(const SourceFacts& facts, const Node& node) {
  return all_ways(facts, node, [](const Way& way) { return way.gradients_off; });
}

}  // namespace rooftile::source
