// What a change at a place in a script weighs: whether a run of the program can feel it.
#pragma once

#include <cstddef>
#include <string_view>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Whether the network that a run of the program with the defaults trains is seen to be large.
bool trains_large_network(const SourceFacts& facts, const Program& program);

// What a change makes cheaper.
enum class Cost {
  of_step,  // what the network computes, or the launches for it: felt where the network is large
  of_run,   // data, memory, waits: felt in any training that is more than a demonstration
};

// Why the change gains next to nothing: no run gets to the line, or those that do are small or run
// on a CPU. Empty where it may gain something.
std::string_view reason_for_little(const SourceFacts& facts, const File& file, std::size_t line,
                                   Cost cost);

}  // namespace rooftile::source
