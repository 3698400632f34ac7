#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/input_sizes.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace distributed_unbalanced_lengths_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A loader of a program under `DistributedDataParallel` that pads each batch to its longest sample and deals
samples to the ranks by number, without buckets, a batch sampler or a budget of tokens.

## Why it costs time
In every step all ranks wait for the one with the longest batch. Lengths drawn at random differ from rank to
rank in each step, and the more ranks there are, the longer the longest one is.

## How to fix
Give every rank the same number of tokens: a batch sampler that sorts samples of a window by length, cuts
batches at a budget of tokens and deals neighbours to the ranks of one step. Samplers that do this are
`LengthGroupedSampler` of transformers (`group_by_length=True`), `max_tokens` of fairseq, and
`DynamicBatchSampler` of SpeechBrain.

## How the saving is estimated
Not from the source alone. Recordings of several ranks (`rooftile check rank*.json.gz`) show how long each
waits for the others: `distributed/rank-imbalance`.

## When not to
- Samples of nearly one length, or packed to one.
- One rank.

## Evidence
- PyTorch documentation, `torch.utils.data.distributed.DistributedSampler`: deals indices, whatever the samples
  are.
- fairseq documentation, `--max-tokens`: batches by the number of tokens.
)md";

using namespace source;

// Something in the program orders samples by length, or cuts batches by it.
bool balances(const Program& program) {
  return mentions(program,
                  {"bucket", "buckets", "Bucket", "BucketSampler", "BatchSampler", "batch_sampler",
                   "group_by_length", "LengthGroupedSampler", "max_tokens", "sort_by_length",
                   "sort_key", "sorted", "argsort", "pack", "packing"});
}

Finding finding_for(const SizeSign& size, const Call& wrap) {
  Finding finding = finding_at(
      *size.call,
      fmt::format("{}, and ranks get samples by number: each step lasts as long as the longest "
                  "batch of all ranks",
                  size.text),
      {"Batch by a budget of tokens: sort a window of samples by length, and deal neighbours to "
       "the "
       "ranks of one step",
       Exactness::changes_training});
  finding.evidence = {
      Evidence::found(
          fmt::format("DistributedDataParallel at {}", place_text(wrap, *size.call->file))),
      Evidence::found("no bucket, batch sampler or budget of tokens anywhere in the program"),
      Evidence::to_check(
          "settle it with recordings of several ranks: rooftile check rank*.json.gz")};
  return finding;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  const auto wraps = launched_calls(facts, {"torch.nn.parallel.DistributedDataParallel"});
  for (const Program* program : training_programs(facts)) {
    const auto wrap =
        std::ranges::find_if(wraps, [&](const Call* call) { return program->has(*call->file); });
    if (wrap == wraps.end() || balances(*program)) continue;
    const auto size = padded_to_longest(facts, *program);
    if (size) findings.push_back(finding_for(*size, **wrap));
  }
  return findings;
}

}  // namespace distributed_unbalanced_lengths_rule

extern const Rule distributed_unbalanced_lengths{
    .id = "distributed/unbalanced-lengths",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "Ranks get batches of different lengths, and the fast ones wait",
    .doc = distributed_unbalanced_lengths_rule::kDoc,
    .in_scripts = distributed_unbalanced_lengths_rule::find};

}  // namespace rooftile
