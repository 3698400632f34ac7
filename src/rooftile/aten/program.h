// ATen operators in the order in which a program ran them, as the operations of a workload.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rooftile/workload/op.h"
#include "rooftile/workload/timeline.h"

namespace rooftile {

// One operator of a program. What it writes is known, unlike in a trace: operators without a row
// in aten_op are described by it where they only fill or move.
struct ProgramCall {
  std::string name;  // "aten::addmm"
  OpArguments arguments;
  std::vector<Extents> results;  // sizes of the tensors it returns
  std::vector<std::string> result_types;
  bool backward = false;
  std::int64_t sequence = -1;  // joins a forward operator and its gradient; -1 = none
  Provenance source;
  std::vector<std::string> reads, writes;  // values: activations, not weights
};

class AtenProgram {
 public:
  void add(ProgramCall call);

  // Layers that repeat, as "h.0" and "h.1", become one with a count and the name "h.*".
  std::vector<Op> take_ops();
  // Operators that are not understood: name -> count.
  const std::map<std::string, std::int64_t>& unknown() const { return unknown_; }
  std::size_t size() const { return ops_.size(); }

 private:
  std::vector<Op> ops_of(const ProgramCall& call);
  std::vector<Op> backward_ops(const ProgramCall& call, std::vector<Op> ops) const;

  std::vector<Op> ops_;
  std::unordered_map<std::int64_t, Op> forward_products_;  // by sequence
  std::map<std::string, std::int64_t> unknown_;
};

// Neighbouring layers that do the same as one, repeated: "h.0" and "h.1" are "h.*". Values that the
// repeats write go by the name that the first one gives them.
std::vector<Op> fold_repeated_layers(std::vector<Op> ops);

}  // namespace rooftile
