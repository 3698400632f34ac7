// What a program does with a value that the host has read from the GPU.
#pragma once

#include <vector>

#include "rooftile/analysis/source/host_reads.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

enum class UseKind : std::uint8_t {
  log,       // shown, summed up or kept for later
  tensors,   // the GPU computes with it again
  check,     // decides whether the run ends or says something: assert, `if isnan(loss): raise`
  decision,  // decides what Python does next
  size,      // a size, a number of passes, a bound
  index,     // of a list, dictionary or tensor
  host,      // a function for the host works on it
  unknown,   // goes where it is not followed
};

struct ValueUse {
  UseKind kind = UseKind::unknown;
  const Expr* expr = nullptr;  // the last one that it was followed to
  const Call* call = nullptr;  // of `host`, what takes it
};

// Where the value ends up: followed up through expressions, names, attributes of an object,
// arguments and results of the project's functions. Empty where nothing is made of it.
std::vector<ValueUse> uses_of(const SourceFacts& facts, const HostRead& read);

// Whether the step could do without the read: what is logged or checked can be read now and then,
// what goes back to the GPU need not leave it.
bool can_do_without(const SourceFacts& facts, const HostRead& read);

}  // namespace rooftile::source
