#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"
#include "rooftile/script/reach/reach.h"

namespace rooftile {
namespace variable_lengths_unprepared {

constexpr std::string_view kDoc = R"md(
## What it finds
A collate function of a training loader that pads to the longest sample of the batch
(`pad_sequence`, `padding=True`), with no backward outside of the training loop, as of a step at the
maximum length before it.

## Why it costs time
A batch longer than all before does not fit the cached blocks: memory is allocated again, and the
old blocks stay as fragments.

## How to fix
One forward and backward at the maximum length before the loop, without an optimizer step:

```python
longest = torch.zeros(batch_size, max_length, dtype=torch.long, device=device)
model(longest).sum().backward()   # with the real loss where that takes memory of its own
optimizer.zero_grad(set_to_none=True)
for batch in loader: ...
```

All blocks that shorter batches need are then cut from the ones of this step. Or start with
`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`, or pad to a few fixed lengths.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step
time says what there is to gain.

## When not to
- Lengths that are sorted into buckets.
- Plenty of memory is free: the allocator then keeps all blocks, and the steps that allocate become rare.

## Evidence
- PyTorch performance tuning guide, "Pre-allocate memory in case of variable input length".
)md";

using namespace source;

const Call* padding_call(const SourceFacts& facts, const FunctionDef& collate) {
  for (const Call* call : collate.calls) {
    if (call->name == "torch.nn.utils.rnn.pad_sequence") return call;
    const Value padding = facts.argument(*call, "padding");
    if (call->argument("padding") != nullptr &&
        (padding.is("longest") || (padding.kind == ValueKind::boolean && padding.is_true()))) {
      return call;
    }
  }
  return nullptr;
}

// Segments that grow, buckets of lengths, or a step before the loop.
bool is_prepared(const SourceFacts& facts, const Program& program) {
  const auto names = [](const File* file) {
    return contains_any(file->text, {"expandable_segments", "ucket", "pad_to_multiple_of"});
  };
  if (std::ranges::any_of(program.files, names)) return true;
  return std::ranges::any_of(facts.method_calls("backward"), [&](const Call* call) {
    if (!program.has(*call->file) || call->receiver == nullptr) return false;
    return all_ways(facts, *call, [](const Way& way) { return way.is_open(); });
  });
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::unordered_set<const Call*> seen;
  for (const Call* loader : training_loaders(facts)) {
    const Argument* given = loader->argument("collate_fn", 6);
    const FunctionDef* collate = given == nullptr ? nullptr : given->value->type->function;
    if (collate == nullptr || is_for_evaluation(facts, *loader)) continue;
    const Call* call = padding_call(facts, *collate);
    if (call == nullptr || !seen.insert(call).second) continue;
    const auto programs = training_programs_of(facts, *loader->file);
    const bool is_ready = std::ranges::any_of(
        programs, [&](const Program* program) { return is_prepared(facts, *program); });
    if (is_ready) continue;
    Finding finding = finding_at(
        *call,
        "batches are padded to their longest sample: each new maximum allocates again, and leaves "
        "the blocks of shorter ones as fragments",
        {"Before the loop run model(torch.zeros(batch_size, max_length, ...)).sum().backward() and "
         "optimizer.zero_grad(), or start with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
         Exactness::bit_exact});
    finding.evidence = {
        Evidence::found(fmt::format("loader at {}", place_text(*loader, *call->file))),
        Evidence::published("PyTorch performance tuning guide, Pre-allocate memory in case of "
                            "variable input length")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace variable_lengths_unprepared

extern const Rule gpu_memory_variable_lengths_unprepared{
    .id = "gpu_memory/variable-lengths-unprepared",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "Batches of growing length make the allocator reallocate",
    .doc = variable_lengths_unprepared::kDoc,
    .in_scripts = variable_lengths_unprepared::find};

}  // namespace rooftile
