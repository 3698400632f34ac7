// Where the host asks for a value that the GPU computes, and so waits for it.
#pragma once

#include <string_view>
#include <vector>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Whether the expression is a tensor that lives on a GPU, as far as seen: there by its type, or
// made with gradients, which in a program that trains on a GPU is there as well.
bool is_gpu_value(const Expr* expr);

struct HostRead {
  const Statement* statement = nullptr;
  const Expr* expr = nullptr;  // the whole read: loss.item(), the condition of an if
  const Call* call = nullptr;  // null where no call does it
};

// In text order: item(), tolist(), cpu(), numpy(), float(), int() and bool() of GPU tensors, print
// and formatting of them, conditions on their values, loss.data[0]. What guards them is not judged
// here. They live as long as the facts.
const std::vector<HostRead>& host_reads(const SourceFacts& facts, const File& file);

// Whether the call waits for the GPU: a read as above or a synchronisation. `waits_for_gpu` also
// where what it runs does.
bool waits_itself(const SourceFacts& facts, const Call& call);
bool waits_for_gpu(const SourceFacts& facts, const Call& call);

// A read of the host's clock: time.time(), time.perf_counter() and the like.
bool is_clock(const Call& call);
bool reads_clock(const Statement& statement);

}  // namespace rooftile::source
