#include <fmt/format.h>

#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace gpu_memory_allocator_churn_in_source {

using namespace source;

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* call : launched_calls(facts, {"torch.cuda.empty_cache"})) {
    const bool trains = is_hot(facts, *call);
    if (!trains && !is_in_evaluation_loop(facts, *call)) continue;
    Fix fix{
        "Remove it: PyTorch uses its cached blocks again; against fragmentation set "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        Exactness::bit_exact};
    if (call->statement->value == call->expr) add_edit(remove_statement(*call->statement), fix);
    Finding finding = finding_at(
        *call,
        fmt::format("the cache of GPU memory is emptied in every {} step, and filled again by "
                    "cudaMalloc, which waits for the GPU",
                    trains ? "training" : "evaluation"),
        std::move(fix));
    finding.evidence = {Evidence::published("PyTorch CUDA semantics note, Memory management")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace gpu_memory_allocator_churn_in_source

}  // namespace rooftile
