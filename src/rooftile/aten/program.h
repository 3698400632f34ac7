// ATen operators in the order in which a program runs them, as the operations of a workload.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "rooftile/aten/call.h"
#include "rooftile/workload/op.h"

namespace rooftile {

class AtenProgram {
 public:
  // What became of the call. One that is unknown is an `other` with the bytes of its tensors, and
  // counted.
  CallKind add(AtenCall call);

  // With names: the path of the module where the operation is its only one of the pass, or its only
  // layer, else with the operation behind ("h.0:add"), and a number where that repeats. Layers that
  // repeat, as "h.0" and "h.1", become one with a count and the name "h.*".
  std::vector<Op> take_ops();
  // What is left out or not understood: reason -> count.
  const std::map<std::string, std::int64_t>& skipped() const { return skipped_; }

 private:
  std::vector<Op> backward_ops(const AtenCall& call, std::vector<Op> ops) const;
  std::vector<Op> unknown_op(const AtenCall& call);
  void place(const AtenCall& call, std::vector<Op> ops);
  void count(std::string reason);

  std::vector<Op> ops_;
  std::unordered_map<std::int64_t, Op> forward_products_;  // by sequence
  std::map<std::string, std::int64_t> skipped_;
};

// Neighbouring layers that do the same as one, repeated: "h.0" and "h.1" are "h.*". Values that the
// repeats write go by the name that the first one gives them.
std::vector<Op> fold_repeated_layers(std::vector<Op> ops);

}  // namespace rooftile
