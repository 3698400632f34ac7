// Calls of ATen operators, as exported graphs list them (composite ones before PyTorch takes them
// apart) and captures record them, with their results.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/aten/schema.h"
#include "rooftile/workload/op.h"

namespace rooftile {

struct AtenCall {
  std::string library = "aten";
  std::string name;                           // "conv2d"
  std::string overload;                       // "default", "input"; empty where unknown
  std::vector<AtenValue> arguments, results;  // in the order of the operator's schema
  bool backward = false;
  std::int64_t sequence = -1;  // joins a forward operator and its gradient; -1 = none
  Provenance source;
  std::vector<std::string> reads, writes;  // values: activations, not weights
};

// What becomes of a call. work: it has operations; view: its results are argument 0 in another
// shape; free: it touches no tensor; unknown: nothing says what it costs.
enum class CallKind { work, view, free, unknown };

struct CallWork {
  CallKind kind = CallKind::unknown;
  std::vector<Op> ops;  // of work; without names
};

// What runs when eager PyTorch makes the call, by the table calls.inc; an operator that is not in
// it is what aten_ops() says.
CallWork work_of(const AtenCall& call);

// Of "c10::Half" and the other types of recordings.
std::optional<Dtype> aten_dtype(std::string_view type);
// Of one element, also of a complex one.
std::optional<double> aten_element_bytes(std::string_view type);

// Whether the call writes into its argument 0: "add_".
bool is_in_place(const AtenCall& call);

}  // namespace rooftile
