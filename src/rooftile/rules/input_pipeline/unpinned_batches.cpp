#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/sample_size.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"
#include "rooftile/script/flow/sources.h"

namespace rooftile {

namespace input_pipeline_unpinned_batches_in_trace {
std::vector<Finding> check(const RuleInput& input);
}

namespace unpinned_batches {

constexpr std::string_view kDoc = R"md(
## What it finds
- In a script: a `DataLoader` without `pin_memory=True` whose batches a training or evaluation loop, or
  Lightning, copies to a GPU.
- In a trace: copies between pageable host memory and the GPU that keep the GPU from computing: while they run,
  or, to the GPU, because the host waits for them before it launches more.

## Why it costs time
The driver first moves pageable memory into a pinned buffer of its own, piece by piece, and the host
waits meanwhile, even with `non_blocking=True`. Such a copy is slow and never runs beside the step.

## How to fix
`DataLoader(pin_memory=True)` and `.to(device, non_blocking=True)`. Both are needed: without pinning
`non_blocking` changes nothing, and without `non_blocking` the host still waits. A tensor that the host
makes in each step (`torch.ones`, `torch.tensor(list)`) is made on the GPU, or once before the loop. In a
program without PyTorch: `cudaMallocHost` or `cudaHostRegister`, and `cudaMemcpyAsync` on a stream. Results go
into pinned memory that is made once.

## How the saving is estimated
From a trace: the GPU's idle time that follows from the host's wait, by a replay of the recording in which
copies do not hold the host up, and the time in which the GPU only copies: all of it when the next batch is
copied while the step computes (without steps, what the nominal rate of the GPU's link saves), at the low end what
three quarters of that rate save, which pinned copies attain. From a script alone nothing is estimated.

## When not to
- Pinned memory cannot be swapped out; on hosts short of memory it hurts. Say so in a comment on the line.
- Calling `.pin_memory()` in the training loop blocks the host as well. Let the loader do it.
- The dataset lives on the GPU already.
- A program without PyTorch and without steps that copies fewer than ten times at a place: to pin the memory
  takes as long as the copy.
- Batches of token ids, labels, digits or thumbnails of up to 64 pixels a side (CIFAR, SVHN), or of a size
  that is not seen: information.
- Loaders that only an evaluation reads: information, but beside one of training in the same file.
- The loader has no workers: input_pipeline/loader-stall names both changes, and this is information.
- `pin_memory` is computed from `torch.cuda.is_available()`, an option that is on by default, or one
  that chooses the GPU itself (`pin_memory=args.cuda`).
- Frameworks that move the batches on their own.
- A function that makes loaders for a TensorDataset as well, whose tensors may be on the GPU: information.
- A collate function that gives NumPy arrays: the loader pins tensors only.

## Evidence
- PyTorch performance tuning guide, "Enable asynchronous data loading and augmentation".
- PyTorch tutorial, "A guide on good usage of non_blocking and pin_memory()".
- NVIDIA CUDA C++ Best Practices Guide, "Pinned Memory": about 12 GB/s on PCIe 3.0 x16.
- ML Engineering book (S. Bekman), DataLoader benchmark: 0.646 s without, 0.522 s with pinning,
  0.459 s with pinning and non_blocking.
)md";

using namespace source;

// `# pinning is broken with this sampler` on the line that sets the value, or above it.
bool has_note(const Expr* set) {
  if (set == nullptr) return false;
  const std::string_view text = set->statement->file->text;
  const std::size_t begin = text.rfind('\n', set->range.begin) + 1;
  const std::size_t end = std::min(text.find('\n', set->range.end), text.size());
  if (text.substr(begin, end - begin).find('#') != std::string_view::npos) return true;
  if (begin == 0) return false;
  const std::string_view above = text.substr(0, begin - 1);
  const std::string_view line = trim(above.substr(above.rfind('\n') + 1));
  return line.starts_with('#') && contains(line, "pin");
}

bool is_explained(const Call& loader, const Value& pinned) {
  if (pinned.found != pinned.expr && has_note(pinned.found)) return true;
  const std::string_view text = loader.file->text;
  const std::size_t at = text.find("pin_memory", loader.open_paren);
  if (at == std::string_view::npos || at > loader.close_paren) return false;
  const std::size_t end = std::min(text.find('\n', at), text.size());
  return text.substr(at, end - at).find('#') != std::string_view::npos;
}

bool is_own_options(const Argument& argument, const FunctionDef& function) {
  const Expr* starred = argument.value;
  const Parameter& last = function.parameters.back();
  return starred->word() == "**" && last.double_starred &&
         starred->children()[0]->word() == last.name;
}

// `DataLoader(data, **options)` in a function that is called with options, none of them pin_memory.
bool gets_no_pinning(const Call& call, int depth = 0) {
  const FunctionDef* function = call.function;
  const bool may_be = function != nullptr && !function->parameters.empty() &&
                      !function->callers.empty() && depth < kMaxCallDepth;
  if (!may_be || contains(function->file->slice(function->statement->range), "pin_memory")) {
    return false;
  }
  bool is_open = false;
  for (const Argument& argument : call.arguments) {
    if (argument.name == "pin_memory") return false;
    if (!argument.unpacked) continue;
    if (!is_own_options(argument, *function)) return false;
    is_open = true;
  }
  return !is_open || std::ranges::all_of(function->callers, [&](const Call* caller) {
    const bool has_more = std::ranges::any_of(caller->arguments, &Argument::unpacked);
    if (has_more) return gets_no_pinning(*caller, depth + 1);
    return caller->argument("pin_memory") == nullptr;
  });
}

// A parameter for which each caller seen passes False.
bool is_passed_false(const SourceFacts& facts, const Value& pinned) {
  if (!pinned.unknown() || pinned.expr == nullptr) return false;
  const FunctionDef* function = pinned.expr->statement->function;
  const bool is_open =
      function != nullptr && std::ranges::any_of(function->callers, [](const Call* caller) {
        return std::ranges::any_of(caller->arguments, [](const Argument& argument) {
          return argument.unpacked || argument.followed;
        });
      });
  if (is_open) return false;
  return std::ranges::all_of(script::origins(facts, *pinned.expr), [&](const Expr* each) {
    const Value value = facts.value(each);
    return value.is_false() && !is_set_by_default(value);
  });
}

bool is_unpinned(const SourceFacts& facts, const Call& loader) {
  const bool is_graph = loader.name.starts_with("torch_geometric.");
  const Value pinned = facts.argument(loader, "pin_memory", is_graph ? -1 : 7);
  if (loader.argument("pin_memory_device") != nullptr) return false;
  if (loader.unknown_arguments) return gets_no_pinning(loader);
  if (is_set_by_default(pinned)) return false;
  return pinned.absent() || is_passed_false(facts, pinned) ||
         (pinned.is_false() && !is_explained(loader, pinned));
}

// Steps of a program of accelerate that copy batches by hand, as of a loader that `prepare` does
// not get.
bool copies_by_hand(const SourceFacts& facts, const File& file) {
  const auto prepares = [](const Call* call) {
    return call->method == "prepare" && call->receiver != nullptr &&
           call->receiver_type().is(TypeKind::accelerator);
  };
  if (std::ranges::none_of(file.calls, prepares)) return false;
  return std::ranges::any_of(file.calls, [&](const Call* call) {
    return copies_to_device(facts, *call) && is_in_step_loop(facts, *call);
  });
}

// A function that makes loaders for all kinds of data, some of them tensors that may be on the GPU,
// which cannot be pinned.
bool may_read_from_gpu(const Call& loader) {
  const Argument* dataset = loader.argument("dataset", 0);
  const FunctionDef* function = loader.function;
  if (dataset == nullptr || function == nullptr) return false;
  return std::ranges::any_of(function->callers, [&](const Call* caller) {
    const Argument* given = passed_argument(*caller, *function, last_name(dataset->value));
    const Call* made = given == nullptr ? nullptr : resolved(given->value)->call();
    return made != nullptr && made->name == "torch.utils.data.TensorDataset" &&
           std::ranges::any_of(made->arguments, [](const Argument& argument) {
             return argument.value->type->residence != Residence::host;
           });
  });
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings, of_evaluation;
  for (const Call* loader : training_loaders(facts)) {
    if (!is_unpinned(facts, *loader) || has_gpu_samples(facts, *loader)) continue;
    if (collates_to_arrays(*loader)) continue;
    if (is_taken_over(facts, *loader->file) && !copies_by_hand(facts, *loader->file)) continue;
    if (!moves_batches(facts, *loader)) continue;
    Fix fix{
        "Set pin_memory=True, and copy with non_blocking=True: the copy overlaps with the "
        "kernels",
        Exactness::bit_exact};
    const Argument* given = loader->argument("pin_memory", 7);
    if (given == nullptr) {
      add_edit(add_argument(*loader, "pin_memory", "True"), fix);
    } else if (given->value->kind == ExprKind::boolean) {
      add_edit(replace_argument(*loader, *given, "True"), fix);
    }
    fix.safe = !fix.edits.empty();
    Finding finding = finding_at(
        *loader, "pin_memory is off: each batch is copied to the GPU through pageable memory",
        std::move(fix));
    finding.evidence = {Evidence::published(
        "PyTorch performance tuning guide, Enable asynchronous data loading and augmentation")};
    if (!has_large_samples(facts, *loader)) {
      finding.own_level = Level::info;
      finding.evidence.push_back(
          Evidence::to_check("nothing here says that a batch is larger than some 100 KB"));
    }
    // make_loader(data, **options): it is for the callers to pin.
    const bool is_helper = loader->unknown_arguments && loader->function != nullptr &&
                           loader->function->callers.size() > 2;
    if (is_helper || may_read_from_gpu(*loader)) {
      finding.own_level = Level::info;
      finding.evidence.push_back(Evidence::to_check(
          "a function for all kinds of data: tensors of the GPU, as of a TensorDataset, cannot be "
          "pinned"));
    }
    (is_for_evaluation(facts, *loader) ? of_evaluation : findings).push_back(std::move(finding));
  }
  add_of_evaluation(std::move(of_evaluation), findings);
  return findings;
}

}  // namespace unpinned_batches

extern const Rule input_pipeline_unpinned_batches{
    .id = "input_pipeline/unpinned-batches",
    .former_id = "input_pipeline/pageable-copy",
    .level = Level::advice,
    .level_in_traces = Level::warning,
    .cause = Cause::none,
    .summary = "Batches are copied to the GPU from pageable memory (no pin_memory)",
    .doc = unpinned_batches::kDoc,
    .in_traces = input_pipeline_unpinned_batches_in_trace::check,
    .in_scripts = unpinned_batches::find,
    .costs_elsewhere = true};

}  // namespace rooftile
