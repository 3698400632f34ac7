#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "rooftile/analysis/source/chosen_precision.h"
#include "rooftile/analysis/source/head_training.h"
#include "rooftile/analysis/source/input_sizes.h"
#include "rooftile/analysis/source/layer_queries.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/trained_parts.h"
#include "rooftile/analysis/source/tutorials.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace untuned_algorithms {

constexpr std::string_view kDoc = R"md(
## What it finds
A program that trains a convolutional network on a GPU with inputs of one size, seen in a crop, a
resize, the data set or images that the program draws itself, and leaves `torch.backends.cudnn.benchmark` off. One finding per program.

In traces: kernels of the algorithms that need no workspace (`implicit_convolve_sgemm`,
`wgrad_alg0_engine`, `dgrad_engine`) that take a fifth of the time of convolutions or more, in layers
without a stride or dilation. Information where no shapes were recorded, which tell those apart, and where the
GPU has Tensor Cores for 16 bits, in which other kernels run.

## Why it costs time
cuDNN has several algorithms for each convolution. Without benchmark a heuristic picks one; with it
the first pass measures them, and the fastest serves all later passes of the same size.

## How to fix
`torch.backends.cudnn.benchmark = True` before training.

## How the saving is estimated
Not from the source alone. Compare the step time of both settings after the first epoch.

## When not to
- Each new input size is measured again, which takes seconds: with sizes that vary from batch to
  batch it costs more than it gives. Reported only where one size is seen.
- Runs that must repeat bit by bit: the choice differs from run to run. Not reported where
  the program says deterministic, unless that is under a seed option that is off by default.
- Transformers, whose only convolution is the patch embedding.
- Digits, and networks without a convolution of 64 to 64 channels: information.
- Lightning's Trainer has its own switch, `benchmark`.

## Evidence
- PyTorch performance tuning guide, "Enable cuDNN auto-tuner".
- NVIDIA cuDNN API, `cudnnConvolutionFwdAlgo_t` and its siblings: `IMPLICIT_GEMM` and `ALGO_0` form no
  matrix and need no workspace.
- PyTorch documentation, "Reproducibility", section on cuDNN benchmarking.
)md";

using namespace source;

// `if args.seed is not None:` or `if args.seed:`, where the seed comes from a settings file.
bool asks_for_seed(const SourceFacts& facts, const Statement& statement) {
  const Statement* test = statement.parent;
  if (test == nullptr || test->kind != StatementKind::if_) return false;
  if (test->body.data() != statement.block.data()) return false;  // in the else
  const Expr* asked = test->value;
  if (asked->kind == ExprKind::comparison && asked->word() == "is not")
    asked = asked->children()[0];
  return lower(last_name(asked)).find("seed") != std::string::npos && facts.value(asked).unknown();
}

// `cudnn.deterministic = True`, `cudnn.benchmark = False`: nothing is decided where a run with all
// options at their defaults does not get to it.
bool is_only_for_seeds(const SourceFacts& facts, const Program& program, const File& file,
                       std::string_view line) {
  for (const std::string_view name :
       {"torch.backends.cudnn.benchmark", "torch.backends.cudnn.deterministic"}) {
    for (const Statement* statement : facts.assignments(name)) {
      if (statement->file != &file || file.slice(statement->range) != line) continue;
      // An option of its own: the author left the choice to the user.
      const bool is_chosen = statement->value != nullptr && facts.value(statement->value).unknown();
      if (is_chosen && runs_in(facts, program, *statement)) return false;
      const bool is_on = statement->value == nullptr || statement->value->word() != "False";
      const bool is_tuned = is_on && name.ends_with("benchmark");
      return !runs_in(facts, program, *statement) ||
             (!is_tuned &&
              (asks_for_seed(facts, *statement) || !is_reached_by_default(facts, *statement)));
    }
  }
  return line.starts_with('\'') || line.starts_with('"');  // a text of several lines
}

// Not the sampling of a distribution, or a note on what comes out the same each time.
bool speaks_of_algorithms(std::string_view code) {
  if (contains_any(code, {"cudnn.benchmark"})) return true;
  if (!contains_any(code, {"deterministic"})) return false;
  return contains_any(
      code, {"cudnn", "use_deterministic", "set_deterministic", "-deterministic",
             "torch_deterministic", "cuda_deterministic", "s.deterministic", "t.deterministic",
             "g.deterministic", "'deterministic", "\"deterministic", "seed", "benchmark"});
}

bool decides_in(const SourceFacts& facts, const Program& program, const File& file) {
  if (!mentions(file, {"cudnn"}) && !has_text(file, "deterministic")) return false;
  const std::string whole = code_of(file);
  std::string_view text = whole;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view code = trim(line.substr(0, line.find('#')));
    if (!speaks_of_algorithms(code)) continue;
    if (!is_only_for_seeds(facts, program, file, code)) return true;
  }
  return false;
}

// `cudnn.enabled = False`, but for an option that is off by default.
bool switches_cudnn_off(const SourceFacts& facts, const Program& program) {
  const auto assignments = facts.assignments("torch.backends.cudnn.enabled");
  return std::ranges::any_of(assignments, [&](const Statement* statement) {
    return program.has(*statement->file) && !facts.value(statement->value).is_true() &&
           is_reached_by_default(facts, *statement);
  });
}

// Trainer(benchmark=True), seed_all(0, benchmark=False): a truth, not the name of a data set.
bool passes_benchmark(const SourceFacts& facts, const File& file) {
  if (!has_text(file, "benchmark=")) return false;
  return std::ranges::any_of(file.calls, [&](const Call* call) {
    const Argument* given = call->argument("benchmark");
    if (given == nullptr) return false;
    const Value value = facts.value(given->value);
    return value.is_true() || value.is_false();
  });
}

// Whether the author decided already, either way, or a library does.
bool decides_algorithms(const SourceFacts& facts, const Program& program) {
  const bool has_framework = mentions(
      program, {"cudnn_benchmark", "lightning", "pytorch_lightning", "fastai", "mmengine"});
  if (has_framework || trains_by_mmcv(program) || switches_cudnn_off(facts, program)) return true;
  const bool decides =
      std::any_of(program.files.begin(), program.files.end(),
                  [&](const File* one) { return decides_in(facts, program, *one); });
  if (decides) return true;
  return std::any_of(program.files.begin(), program.files.end(),
                     [&](const File* file) { return passes_benchmark(facts, *file); });
}

bool binds_torch_before(const File& file, const Statement& last) {
  for (const Statement* statement : file.body) {
    for (const ImportedName& name : statement->imports) {
      if (name.local == "torch" && name.full_name == "torch") return true;
    }
    if (statement == &last) break;
  }
  return false;
}

Finding finding_for(const Program& program, const TrainedLayer& trained, const SizeSign& size) {
  const SizedLayer& layer = trained.layer;
  const File& file = *training_file(program);
  const Statement* import = last_import(file);
  Fix fix{"Set torch.backends.cudnn.benchmark = True before training", Exactness::exact_arithmetic};
  if (import != nullptr && binds_torch_before(file, *import)) {
    add_edit(insert_line_after(*import, "torch.backends.cudnn.benchmark = True"), fix);
  }
  const std::string message = fmt::format(
      "input size is fixed but cudnn.benchmark is off: cuDNN picks the algorithms of the "
      "convolutions{} heuristically",
      trained.is_certain ? " (" + layer.text + ")" : "");
  const Statement* at = import != nullptr ? import : file.body.front();
  Finding finding = finding_at(*at, message, std::move(fix));
  finding.evidence = {
      Evidence::found(fmt::format("one size: {} at {}", size.text, place_text(*size.call, file))),
      Evidence::found("cudnn.benchmark is set nowhere in the program"),
      Evidence::published("PyTorch performance tuning guide, Enable cuDNN auto-tuner")};
  if (trained.is_certain) {
    finding.evidence.insert(
        finding.evidence.begin(),
        Evidence::found(fmt::format("{} at {}", layer.text, place_text(*layer.call, file))));
  }
  return finding;
}

// Digits, and layers of a few channels, take so little that the choice does not show.
bool matters(const SourceFacts& facts, const Program& program, const TrainedLayer& trained) {
  constexpr std::int64_t kWide = 64;
  if (is_tutorial(facts, program)) return false;
  if (!is_convolution(*trained.layer.call)) return true;  // a network of a library
  return std::ranges::any_of(program.files, [&](const File* file) {
    return std::ranges::any_of(file->calls, [&](const Call* call) {
      const auto sizes = is_convolution(*call) ? wide_convolution(facts, program, *call)
                                               : std::optional<LayerSizes>();
      return sizes && sizes->first.value_or(kWide) >= kWide &&
             sizes->second.value_or(kWide) >= kWide;
    });
  });
}

// A transformer, whose only convolution may be the patch embedding; single tensors; a head.
bool trains_something_else(const SourceFacts& facts, const Program& program) {
  const bool may_be_transformer =
      has_attention(program) && !trains_plain_convolution(facts, program);
  return may_be_transformer || trains_tensors_only(program) ||
         runs_linear_layers_only(facts, program);
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::vector<const File*> told;
  for (const Program* program : training_programs(facts)) {
    const File* file = training_file(*program);
    if (file == nullptr || file->body.empty() || program->training_loops.empty()) continue;
    if (std::find(told.begin(), told.end(), file) != told.end()) continue;
    if (!runs_training(*program) || leaves_training_to_another(facts, *program)) continue;
    if (decides_algorithms(facts, *program)) continue;
    if (trains_something_else(facts, *program)) continue;
    const auto layer = trained_layer(facts, *program, main_convolution);
    if (!layer) continue;
    // It sets both flags of cuDNN.
    if (!calls_in(facts, *program, {"monai.utils.set_determinism"}).empty()) continue;
    const auto size = fixed_input_size(facts, *program);
    if (!size || varying_input_size(facts, *program)) continue;
    told.push_back(file);
    findings.push_back(finding_for(*program, *layer, *size));
    if (!matters(facts, *program, *layer)) findings.back().own_level = Level::info;
  }
  return findings;
}

// Kernels of the algorithms that need no workspace, which heuristics fall back to; cuDNN's oldest.
bool is_fallback(const OpUse*, const KernelUse& kernel) {
  return contains_any(kernel.name,
                      {"implicit_convolve_sgemm", "wgrad_alg0_engine", "detail::dgrad_engine"});
}

bool is_convolution(const OpUse* use, const KernelUse& kernel) {
  const bool is_of_operator = use != nullptr && contains(use->name, "conv");
  return kernel.facts.kernel_class == KernelClass::convolution ||
         (is_of_operator && is_matrix_kernel(kernel));
}

constexpr std::int64_t kFewestChannels = 16;  // of the input; an image's three are fewer

// Strided and dilated layers and those of few channels have no faster algorithm. Empty where the
// layer's sizes are not recorded.
std::optional<bool> has_other_algorithms(const OpUse* use) {
  const Convolution* conv =
      use != nullptr && use->op ? std::get_if<Convolution>(&use->op->body) : nullptr;
  if (conv == nullptr) return std::nullopt;
  const auto is_one = [](std::int64_t size) { return size == 1; };
  return conv->groups == 1 && std::ranges::all_of(conv->stride, is_one) &&
         std::ranges::all_of(conv->dilation, is_one) &&
         !std::ranges::all_of(conv->kernel, is_one) && conv->c >= kFewestChannels;
}

bool may_be_mended(const OpUse* use, const KernelUse& kernel) {
  return is_fallback(use, kernel) && has_other_algorithms(use).value_or(true);
}

// The fallbacks multiply in fp32, and the GPU has Tensor Cores for 16 bits: advice of its own.
bool runs_faster_in_16_bits(const RuleInput& input, const TraceSummary& trace) {
  const Device& device = input.device();
  return !trace.is_foreign &&
         (device.has_tensor_cores(Dtype::bf16) || device.has_tensor_cores(Dtype::fp16));
}

constexpr double kWeighs = 0.2;  // of the time of the convolutions

std::map<std::string, Seconds> times_by_kernel(const TraceSummary& trace,
                                               const KernelTest& wanted) {
  std::map<std::string, Seconds> times;
  for (const OpUse& use : trace.ops) {
    for (const KernelUse& kernel : use.kernels) {
      if (wanted(&use, kernel)) {
        times[short_kernel_name(kernel.name)] += kernel.time * table_part(trace);
      }
    }
  }
  for (const KernelUse& kernel : trace.orphans) {
    if (wanted(nullptr, kernel)) {
      times[short_kernel_name(kernel.name)] += kernel.time * table_part(trace);
    }
  }
  return times;
}

std::vector<TraceCase> judge(const RuleInput& input, const TraceSummary& trace) {
  const std::vector<UseGroup> groups = group_by_shape(trace, may_be_mended);
  const Seconds time = time_of_kernels(trace, may_be_mended);
  const Seconds all = time_of_kernels(trace, is_convolution);
  if (time < kWeighs * all || !is_visible(trace, time)) return {};
  Finding finding = about_group(
      trace, groups.front(),
      fmt::format("cuDNN's fallback algorithms take {} of the time of convolutions: {} of {}",
                  share_text(time / all), cost_text(trace, time), time_text(per_step(trace, all))),
      {"Set torch.backends.cudnn.benchmark = True where input sizes repeat, and leave cuDNN memory "
       "for its workspace",
       Exactness::exact_arithmetic});
  for (const auto& [name, of_kernel] : times_by_kernel(trace, may_be_mended)) {
    finding.evidence.push_back(
        Evidence::measured(fmt::format("{} takes {}", name, cost_text(trace, of_kernel))));
  }
  note_pace(trace, finding);
  const Seconds gained = trace.kernel_time_share.value_or(1) * time;
  if (!is_visible(trace, gained)) finding.own_level = Level::info;
  if (!trace.has_shapes) {
    finding.own_level = Level::info;
    finding.message +=
        "; strided layers have no faster algorithm, and without record_shapes=True nothing tells "
        "them "
        "apart";
  } else if (runs_faster_in_16_bits(input, trace)) {
    finding.own_level = Level::info;
    finding.message += "; convolutions in 16 bits (precision/amp-off) run other kernels";
  }
  return {{"", std::move(finding)}};
}

std::vector<Finding> check_traces(const RuleInput& input) { return judge_ranks(input, judge); }

}  // namespace untuned_algorithms

extern const Rule conv_untuned_algorithms{
    .id = "conv/untuned-algorithms",
    .level = Level::advice,
    .cause = Cause::none,
    .typical = Typical::tenth,
    .summary = "Input size is fixed, but cudnn.benchmark is off",
    .doc = untuned_algorithms::kDoc,
    .in_traces = untuned_algorithms::check_traces,
    .in_scripts = untuned_algorithms::find};

}  // namespace rooftile
