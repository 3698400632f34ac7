#include <fmt/format.h>

#include <cmath>

#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {

namespace input_pipeline_loader_stall_in_source {
std::vector<Finding> find(const source::SourceFacts& facts);
}

namespace input_pipeline_loader_stall_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
- In a trace: the GPU has nothing to do because the next batch is not there yet. The host waits in the data
  loader, the GPU finishes what it has and idles.
- In a script: a `DataLoader` of PyTorch with `num_workers` absent or 0, in a program that trains on a GPU.

## Why it costs time
Without worker processes the batch is read, decoded and transformed by the process that launches the
kernels, one after the other with the step. With workers the loader still stalls the step when all
of them together prepare fewer batches than the GPU takes.

## How to fix
Without workers: `num_workers` of at least the loading time over the rest of the step, which the finding in a
trace computes, with `pin_memory=True` and `persistent_workers=True`. Without a trace: about the cores per
GPU, for example 8 on a machine with 64 cores and 8 GPUs. Without workers the main process pins too, so pinning
alone hides little. With workers: more of them while there are free
cores, faster or fewer transforms, decoded samples on a fast disk, or transforms on the GPU.

Where a batch takes less than a millisecond, that is what handing it over takes, with or without workers: a
tensor of the whole data set, from which batches are taken by index, needs no loader.

## How the saving is estimated
From a trace: the GPU's idle time that follows from the host's waiting in the loader, by a replay of the
recording in which every batch is there at once. Nothing is counted for waiting during which the GPU still had
work. Without a replay the low end is half of the idle time. The ceiling in the message is the step
with the expected saving removed. From a script alone nothing is estimated.

## When not to
- A few recorded steps right after the start are slower: workers fill their queues first.
- With worker processes random augmentation draws other numbers; the order of batches stays.
- More workers than free cores slow each other down, and each holds its own copy of the data set.
- Data in memory gains nothing from processes. Not reported in scripts: TensorDataset, lists, tensors, splits
  of these, a `__getitem__` that only indexes, mini-batches of an in-memory graph dataset, samples that live
  on the GPU.
- A program that runs on the CPU with its defaults, a trial under the main guard of a library's file, a notebook
  whose network nothing shows to be large: information.
- A loader that is made anew for each client of each round, and digits in a notebook or an example: information.
- IterableDataset and `batch_size=None`, which do their own batching, are not reported in scripts.

## Evidence
- PyTorch Performance Tuning Guide, "Enable asynchronous data loading and augmentation".
- ML Engineering book (S. Bekman), DataLoader benchmark: 5.39 s with no worker, 0.84 s with three.
)md";

// Workers that prepare a batch as often as the step takes one.
int count_workers(Seconds load_per_batch, Seconds rest_of_step) {
  constexpr double kMostWorkers = 64;  // beyond it workers are not the answer
  const double workers = std::ceil(load_per_batch / rest_of_step);
  return workers >= 1 && workers <= kMostWorkers ? static_cast<int>(workers) : 0;
}

// What a worker's batch takes the training process, about: the replay of an ideal loader leaves as
// much.
constexpr Seconds kHandover = milliseconds(1);

bool is_handover(const LoaderUse& loader) {
  return loader.waiting < kHandover * static_cast<double>(loader.count);
}

// `saved` is of the window.
Fix propose(const TraceSummary& trace, const LoaderUse& loader, Seconds saved) {
  const double batches = static_cast<double>(loader.count);
  const Seconds each = loader.waiting / batches;
  const Seconds needed = (trace.time.span - saved) / batches;
  if (is_handover(loader)) {
    return {
        fmt::format("Take batches by index from a tensor of the whole data set, on the GPU where "
                    "it fits, or larger batches: the {} for each are what a loader takes to "
                    "hand one over, and more workers do not shorten that",
                    time_text(each)),
        Exactness::changes_training};
  }
  if (loader.in_process) {
    const int workers = count_workers(each, needed);
    const std::string count = workers > 0 ? fmt::format("num_workers={} at least", workers)
                                          : std::string("and make the transforms cheaper");
    return {fmt::format("Load in worker processes, {}: one batch takes {}, the rest of the step {}",
                        count, time_text(each), time_text(needed)),
            Exactness::changes_training};
  }
  // What was ready before the recording, or during a pause, makes the loader look faster than it
  // is.
  const Seconds now = std::max(loader.interval, trace.time.span / batches);
  return {fmt::format("Deliver a batch every {} instead of every {}: {:.1f} times the workers, or "
                      "transforms that much cheaper",
                      time_text(needed), time_text(now), now / needed),
          Exactness::changes_training};
}

Finding describe(const TraceSummary& trace, const LoaderUse& loader) {
  const Range<Seconds> gain = is_handover(loader)
                                  ? gain_of_idle_time(loader.exposed)
                                  : gain_of_idle_time(trace, Remedy::ideal_loader, loader.exposed);
  const Seconds step = pass_time(trace);
  Finding finding = about_site(
      trace, loader.site,
      fmt::format("the GPU waits {} for the next batch{}; {} the {} is {:.2f}x as fast: {} "
                  "instead of {}",
                  cost_text(trace, loader.exposed),
                  loader.in_process ? ", which the training process loads itself" : "",
                  is_handover(loader) ? "without a loader" : "with an ideal loader",
                  trace.steps.durations.empty() ? "program" : "step", speedup(trace, gain.expected),
                  time_text(step - per_step(trace, gain.expected)), time_text(step)),
      propose(trace, loader, gain.expected), gain);
  // At the start of an epoch workers are behind by all of their first batches.
  constexpr std::int64_t kFew = 5;
  if (!loader.in_process && loader.count < kFew && !is_handover(loader)) {
    finding.message += fmt::format(
        "; only {} batches were recorded: at the start of an epoch the "
        "workers are still filling their queues",
        loader.count);
    finding.saving->low = Seconds();
  }
  finding.location.node = loader.name;
  finding.count = loader.count;
  finding.evidence = {Evidence::measured(
      fmt::format("{} loader calls hold the host up for {}; the GPU idles for {} because of them",
                  loader.count, time_text(loader.waiting), time_text(loader.exposed)))};
  return finding;
}

std::vector<TraceCase> judge(const TraceSummary& trace) {
  std::vector<TraceCase> cases;
  for (const LoaderUse& loader : trace.loaders) {
    if (loader.count <= 0 || loader.exposed >= trace.time.span) continue;
    if (!is_visible(trace, loader.exposed)) continue;
    add_if_visible(trace, loader.name, describe(trace, loader), cases);
  }
  return cases;
}

std::vector<Finding> check(std::span<const TraceSummary> ranks) {
  return judge_ranks(ranks, judge);
}

}  // namespace input_pipeline_loader_stall_rule

extern const Rule input_pipeline_loader_stall{
    .id = "input_pipeline/loader-stall",
    .former_id = "input_pipeline/no-workers",
    .level = Level::advice,
    .level_in_traces = Level::warning,
    .cause = Cause::none,
    .typical = Typical::half,
    .summary = "GPU waits for the data loader",
    .doc = input_pipeline_loader_stall_rule::kDoc,
    .in_any_trace = input_pipeline_loader_stall_rule::check,
    .in_scripts = input_pipeline_loader_stall_in_source::find,
    .costs_elsewhere = true,
    .covers = "input_pipeline/unpinned-batches"};

}  // namespace rooftile
