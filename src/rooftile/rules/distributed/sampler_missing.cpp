#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace sampler_missing {

constexpr std::string_view kDoc = R"md(
## What it finds
A program that trains with `DistributedDataParallel`, whose training `DataLoader` has no sampler.

## Why it costs time
Each process reads the whole dataset: the epoch takes as long as on one GPU, and without shuffling
all GPUs compute the same gradients.

## How to fix
`sampler=DistributedSampler(dataset)` in place of `shuffle=True`, and `sampler.set_epoch(epoch)`
in each epoch.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step
time says what there is to gain.

## When not to
- IterableDataset, datasets or file lists that are split by rank.
- Frameworks that put a sampler in: accelerate, Lightning, transformers.
- Loaders for evaluation.
- Programs that start no group of processes: a base class wraps for others.

## Evidence
- PyTorch tutorial, "Getting Started with Distributed Data Parallel"; documentation of
  `DistributedSampler`.
)md";

using namespace source;

// Data sets of libraries with a length and items; webdataset and its like are streams that each
// process reads as it is told.
bool has_known_items(const Call& made_by) {
  for (const std::string_view package : {"torchvision.datasets.", "torchaudio.datasets."}) {
    if (made_by.name.starts_with(package)) return true;
  }
  return is_one_of(made_by.name, {"torch.utils.data.TensorDataset", "torch.utils.data.Subset",
                                  "torch.utils.data.ConcatDataset", "datasets.load_dataset"});
}

// `def __getitem__(self, _): return self.random_slice()` draws what each process draws, whatever
// index it is asked for.
bool draws_at_random(const ClassDef& def) {
  const FunctionDef* item = def.method("__getitem__");
  if (item == nullptr || item->parameters.size() != 2) return false;
  const std::string_view index = item->parameters[1].name;
  bool uses = false;
  for_statements(item->body, [&](const Statement& statement) {
    for_own_expressions(statement,
                        [&](const Expr* expr) { uses = uses || uses_variable(expr, index); });
  });
  return !uses && contains(def.file->slice(def.statement->range), "random");
}

bool is_split_by_rank(const Call& loader) {
  const auto has_word = [](std::string_view text) {
    return contains_any(text, {"rank", "shard", "world_size", "replicas", "replica_", "Iterable"});
  };
  if (has_word(loader.file->slice(loader.expr->range))) return true;
  const Expr* dataset = dataset_of(loader);
  if (dataset == nullptr) return true;
  const File& file = *dataset->statement->file;
  if (has_word(file.slice(dataset->range))) return true;
  const ClassDef* def = dataset->type->class_def;
  const Call* made_by = dataset->type->made_by;
  if (made_by != nullptr && has_word(made_by->file->slice(made_by->expr->range))) return true;
  if (def == nullptr) return made_by == nullptr || !has_known_items(*made_by);
  const bool iterates = def->method("__iter__") != nullptr && def->method("__getitem__") == nullptr;
  return iterates || draws_at_random(*def) || has_word(def->file->slice(def->statement->range));
}

// A sampler for several processes that some file makes; an import alone divides nothing.
bool makes_distributed_sampler(const Program& program) {
  return std::ranges::any_of(program.files, [](const File* file) {
    return std::ranges::any_of(file->calls, [](const Call* call) {
      return contains(call->method, "Sampler") && contains(call->method, "Distributed");
    });
  });
}

bool trains_with_ddp(const SourceFacts& facts, const File& file) {
  for (const Program* program : training_programs_of(facts, file)) {
    if (makes_distributed_sampler(*program) || has_training_framework(*program)) return false;
    // It puts a sampler in: make_private().
    if (mentions(*program, {"opacus"})) return false;
    // A base class that several programs share may wrap where this one starts no processes.
    if (!mentions(*program, {"init_process_group", "init_dist", "init_distributed"})) continue;
    const auto wraps = calls_in(facts, *program, {"torch.nn.parallel.DistributedDataParallel"});
    if (!wraps.empty()) return true;
  }
  return false;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* loader : training_loaders(facts)) {
    const bool has_sampler = !facts.argument(*loader, "sampler", 3).absent() ||
                             !facts.argument(*loader, "batch_sampler", 4).absent();
    if (has_sampler || loader->unknown_arguments) continue;
    const auto loops = loops_over(facts, *loader);
    const bool trains = std::any_of(loops.begin(), loops.end(), [](const Loop* loop) {
      return loop->role == LoopRole::training_step;
    });
    if (!trains || !trains_with_ddp(facts, *loader->file)) continue;
    if (is_split_by_rank(*loader)) continue;
    const Expr* dataset = loader->arguments.front().value;
    const std::string name = code_text(*loader->file, dataset);
    Finding finding = finding_at(
        *loader, fmt::format("every process trains on all of `{}`: no sampler divides it", name),
        {fmt::format("Pass sampler=DistributedSampler({}) in place of shuffle=True, and call "
                     "set_epoch(epoch) on it in each epoch",
                     name),
         Exactness::changes_training});
    finding.evidence = {Evidence::published(
        "PyTorch documentation, torch.utils.data.distributed.DistributedSampler")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace sampler_missing

extern const Rule distributed_sampler_missing{
    .id = "distributed/sampler-missing",
    .level = Level::error,
    .cause = Cause::none,
    .summary = "Every process trains on the same batches (no DistributedSampler)",
    .doc = sampler_missing::kDoc,
    .in_scripts = sampler_missing::find};

}  // namespace rooftile
