#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "rooftile/analysis/source/against_autocast.h"
#include "rooftile/analysis/source/chosen_precision.h"
#include "rooftile/analysis/source/head_training.h"
#include "rooftile/analysis/source/iteration.h"
#include "rooftile/analysis/source/layer_queries.h"
#include "rooftile/analysis/source/model_size.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/trained_parts.h"
#include "rooftile/analysis/source/tutorials.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"
#include "rooftile/script/reach/default_settings.h"

namespace rooftile {

namespace precision_amp_off_in_trace {
std::vector<Finding> check(const RuleInput& input);
}

namespace precision_amp_off_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
In a script: a program that trains a model with layers large enough for Tensor Cores on a GPU, and nowhere uses
or offers mixed precision, 16-bit weights or TF32. Large enough are convolutions from and to 64
channels, layers of 512 features, and models of torchvision, timm, transformers and the like. One
finding per training loop, however many programs run it.

In a trace: GEMMs and convolutions that are all fp32, on CUDA cores or as TF32, when they take a tenth of the
time or more and the GPU has Tensor Cores for 16 bits.

## Why it costs time
In fp32, GEMMs run on CUDA cores: 19.5 TFLOPS on an A100, against 312 in bf16 and half of that in TF32.
Activations take twice the memory and bandwidth.

## How to fix
`with torch.autocast("cuda", dtype=torch.bfloat16):` around the forward and a loss of the library, backward
outside. bf16 has 8 bits: an output that is a value (a coordinate, a sample of audio) and a loss of one's own
stay in fp32. On GPUs before Ampere, and for LSTM and GRU, which cuDNN runs in fp16 under autocast, use
`torch.float16` and a `GradScaler`. TF32 alone is one line on Ampere and
later: `torch.set_float32_matmul_precision("high")`.

## How the saving is estimated
From a trace. Operators with recorded shapes: the measured time less what the time model predicts in 16 bits.
Others: up to three quarters of the time on CUDA cores and half of TF32, three quarters of each likely, nothing
certain; of kernels that run for half a millisecond and more on CUDA cores what the peak rates say, with Tensor Cores at
60 % of theirs, 80 % at most.
Of batch norms, activations, sums, pooling and changes of layout up to half the time, as they move half the
bytes; three tenths likely in networks of convolutions, a tenth in others, which keep norms in fp32. Other
kernels are left as they are. What other kernels or the host hide is taken off. From a script alone nothing
is estimated.

## When not to
- Small models and those that wait for data or launches gain little before that is repaired; a trace shows it.
  Where less than half of the kernel time saved shortens the step, and the step by less than a tenth: information.
- Scientific code, eigenvalue solvers and some losses need fp32. Float64 and second-order derivatives in
  scripts: not reported. Nor are reinforcement learning and adversarial training.
- Tutorials on MNIST, unless it is one of several data sets to choose from.
- Frozen networks, those inside of losses, and those that nothing builds: not what is trained.
- Programs that train only a linear head, on features computed without gradients or frozen.
- An option for it exists, even if it is off by default. Those that a library's trainer brings along count where a
  settings file or a documented command sets the precision.
- Networks with depthwise convolutions, which wait for memory more than for arithmetic: information.
- An `autograd.Function` of the project that calls an extension, and programs that invert matrices, as for
  coordinates of cameras: information. There autocast goes around the other parts.
- Networks around Fourier transforms, which take no bf16: information.

## Evidence
- PyTorch, "Automatic Mixed Precision package", op reference: what autocast runs in 16 bits and in fp32.
- PyTorch performance tuning guide, "Use Mixed Precision and AMP": up to 3 times as fast on Volta and newer.
- PyTorch, `aten/src/ATen/cudnn/AutocastRNN.cpp`: weights and inputs of recurrent layers become fp16.
- PyTorch recipe "Automatic Mixed Precision": what to expect, and where nothing is gained.
- NVIDIA, GTC 2019 S9998: ResNet-50 on one V100, 355 images/s in fp32, 710 with AMP.
- PyTorch CUDA semantics note, TF32: 10240 x 10240 on an A100 takes 0.11 s in fp32, 0.016 s in TF32.
- NVIDIA A100 datasheet: peak rates.
)md";

using namespace source;

// The optimizer that the call hands to an own function that steps it; null for other calls.
const Expr* optimizer_handed_over(const Call& call) {
  const bool steps = call.target != nullptr && std::ranges::any_of(call.target->calls, [](auto* c) {
                       return c->method == "step";
                     });
  if (!steps) return nullptr;
  for (const Argument& argument : call.arguments) {
    const bool is_named = argument.value->type->is(TypeKind::unknown) &&
                          last_name(argument.value).find("optim") != std::string_view::npos;
    if (is_named || argument.value->type->is(TypeKind::optimizer)) return argument.value;
  }
  return nullptr;
}

bool optimizes_tensors(const Expr& optimizer) {
  return optimizer.type->made_by != nullptr && is_optimizer_of_tensors(*optimizer.type->made_by);
}

bool steps_network(const Call& call) {
  const Expr* receiver = call.receiver;
  return call.method == "step" && receiver != nullptr && receiver->type->is(TypeKind::optimizer) &&
         !optimizes_tensors(*receiver);
}

// One function may make both, `g = make_optimizer(netG)` and `d = make_optimizer(netD)`.
bool is_same_optimizer(const Expr& a, const Expr& b) {
  const Call* made = a.type->made_by;
  const bool is_by_function =
      made != nullptr && made->function != nullptr && made->function != a.statement->function;
  const bool is_named_apart =
      !last_name(&a).empty() && !last_name(&b).empty() && last_name(&a) != last_name(&b);
  return is_same_object(&a, &b) && !(is_by_function && is_named_apart);
}

// Two that one class or one file makes, each under a name of its own: not one of several kinds that
// a function returns, nor that of a tool in some other file.
bool has_two_optimizers(const SourceFacts& facts, const Program& program, const ClassDef* of) {
  std::vector<std::pair<const void*, std::string_view>> made;
  for (const Call* call : constructions_in(facts, program, TypeKind::optimizer)) {
    const ClassDef* def = call->function == nullptr ? nullptr : call->function->class_def;
    if (of != nullptr && def != of) continue;
    if (!runs_by_default(facts, program, *call->file)) continue;
    const void* place = def != nullptr ? static_cast<const void*>(def) : call->file;
    const bool is_set = call->statement->target != nullptr;
    const bool is_returned = call->statement->kind == StatementKind::return_;
    std::string_view name;
    if (is_set) name = call->file->slice(call->statement->target->range);
    if (is_returned && call->function != nullptr) name = call->function->name;
    for (const auto& [other_place, other_name] : made) {
      if (other_place == place && other_name != name) return true;
    }
    made.emplace_back(place, name);
  }
  return false;
}

// Of Lightning's modules in the program, each with a training step of its own, none is trained by
// one optimizer.
bool has_adversarial_classes(const SourceFacts& facts, const Program& program) {
  for (const File* file : program.files) {
    for (const ClassDef* def : file->classes) {
      if (!def->is_lightning_module || def->method("training_step") == nullptr) continue;
      if (!has_two_optimizers(facts, program, def)) return false;
    }
  }
  return has_two_optimizers(facts, program, nullptr);
}

// What a pass of the loop calls in a run with the default settings.
std::vector<const Call*> calls_by_default(const SourceFacts& facts, const Program& program,
                                          const Loop& loop) {
  std::vector<const Call*> calls;
  for (const IteratedCall& one : iteration_of(facts, loop.statement->body).calls) {
    if (runs_by_default(facts, program, *one.call->file)) calls.push_back(one.call);
  }
  return calls;
}

// Any two optimizers that step in the pass, but for those that share its only backward, as of an
// encoder and a decoder.
bool steps_two_optimizers(const std::vector<const Call*>& calls) {
  const Expr* first = nullptr;
  const Expr* given = nullptr;
  const auto backwards = std::ranges::count(calls, "backward", &Call::method);
  bool has_run_backward = false;
  for (const Call* call : calls) {
    has_run_backward = has_run_backward || call->method == "backward";
    if (const Expr* optimizer = optimizer_handed_over(*call)) {
      if (given != nullptr && last_name(given) != last_name(optimizer)) return true;
      given = optimizer;
    }
    if (!steps_network(*call)) continue;
    if (backwards == 1 && has_run_backward) continue;
    if (first != nullptr && !is_same_optimizer(*first, *call->receiver)) return true;
    first = call->receiver;
  }
  return false;
}

// A generator and a discriminator.
bool is_adversarial(const SourceFacts& facts, const Program& program) {
  const bool steps_two = std::ranges::any_of(program.training_loops, [&](const Loop* loop) {
    return steps_two_optimizers(calls_by_default(facts, program, *loop));
  });
  return steps_two ||
         (mentions(program, {"netD", "netG", "discriminator", "Discriminator", "generator_loss"}) &&
          has_adversarial_classes(facts, program));
}

// Where a library calls the training step: the model's call in it, or its first one.
const Call* call_in_step(const SourceFacts& facts, const Program& program) {
  for (const File* file : program.files) {
    for (const FunctionDef* function : file->functions) {
      const ClassDef* def = function->class_def;
      const bool is_hook =
          function->name == "training_step" && def != nullptr && def->is_lightning_module;
      if ((!function->is_training_step && !is_hook) || function->calls.empty()) continue;
      if (is_hook && has_two_optimizers(facts, program, def)) continue;
      const auto forward = std::ranges::find_if(function->calls, [](const Call* call) {
        return call->name == "torch.nn.Module.__call__" ||
               is_one_of(call->method, {"model", "forward"});
      });
      return forward != function->calls.end() ? *forward : function->calls.front();
    }
  }
  return nullptr;
}

bool has_recurrent_layer(const SourceFacts& facts, const Program& program) {
  const TrainedParts& parts = trained_parts(facts, program);
  const auto layers = calls_in(facts, program, {"torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN"});
  return std::ranges::any_of(layers, [&](const Call* layer) { return is_part(parts, *layer); });
}

std::string remedy(const SourceFacts& facts, const Program& program, const Device* gpu) {
  const bool has_bf16 = gpu == nullptr || gpu->has_tensor_cores(Dtype::bf16);
  const bool is_recurrent = has_recurrent_layer(facts, program);
  const std::string_view how =
      is_recurrent ? "torch.float16), and step through torch.amp.GradScaler(\"cuda\"): cuDNN runs "
                     "LSTM and GRU in fp16 there, whatever dtype is given"
      : has_bf16   ? "torch.bfloat16): bf16 needs no loss scaling"
                   : "torch.float16), and step through torch.amp.GradScaler(\"cuda\")";
  return fmt::format(
      "Run the forward pass under torch.autocast(\"cuda\", dtype={}; outputs that are values "
      "rather than class scores, and a hand-written loss, stay in fp32",
      how);
}

Finding finding_for(const SourceFacts& facts, const Program& program, const TrainedLayer& trained,
                    const Device* gpu) {
  const SizedLayer& layer = trained.layer;
  const Fix fix{remedy(facts, program, gpu), Exactness::changes_numerics};
  const std::string message = fmt::format(
      "{} is trained in fp32: the Tensor Cores multiply bf16 and fp16 several times as fast",
      trained.model_text());
  const TrainingPlace place = training_place(facts, program);
  const Call* forward = place.loop == nullptr ? call_in_step(facts, program) : place.forward;
  Finding finding = forward != nullptr      ? finding_at(*forward, message, fix)
                    : place.loop != nullptr ? finding_at(*place.loop->statement, message, fix)
                                            : finding_at(*layer.call, message, fix);
  const bool is_same_line = finding.location.file == layer.call->file->path;
  finding.evidence = {
      Evidence::found(
          "no autocast, 16-bit weights, precision option or TF32 switch anywhere in the program"),
      Evidence::published("PyTorch performance tuning guide, Use mixed precision and AMP"),
      Evidence::to_check("settle it with a trace: rooftile check train.py trace.json.gz")};
  if (trained.is_certain) {
    finding.evidence.insert(
        finding.evidence.begin(),
        Evidence::found(
            is_same_line
                ? fmt::format("{} at {}", layer.text, place_text(*layer.call, *layer.call->file))
                : fmt::format("{} in {}", layer.text, layer.call->file->path)));
  }
  return finding;
}

std::vector<Finding> find(const SourceFacts& facts, const Device* gpu) {
  std::vector<Finding> findings;
  for (const Program* program : training_programs(facts)) {
    if (chooses_precision(facts, *program) || is_tutorial(facts, *program) ||
        is_numerically_strict(facts, *program))
      continue;
    if (is_reinforcement_learning(*program) || trains_tensors_only(*program)) continue;
    const auto layer = trained_layer(facts, *program, tensor_core_sized_layer);
    if (!layer || is_adversarial(facts, *program)) continue;
    if (trains_head_only(facts, *program)) continue;
    Finding finding = finding_for(facts, *program, *layer, gpu);
    const std::string_view doubt =
        reason_against_autocast(facts, *program, trained_parts(facts, *program), layer->layer);
    if (!doubt.empty()) {
      finding.own_level = Level::info;
      finding.evidence.push_back(Evidence::to_check(std::string(doubt)));
    }
    // Programs that share their training loop are changed there, all at once.
    const bool is_new = std::ranges::none_of(findings, [&](const Finding& other) {
      return other.location.file == finding.location.file && other.spot.line == finding.spot.line;
    });
    if (is_new) findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace precision_amp_off_rule

extern const Rule precision_amp_off{
    .id = "precision/amp-off",
    .former_id = "precision/autocast-off",
    .level = Level::advice,
    .cause = Cause::none,
    .typical = Typical::half,
    .summary = "GEMMs run in fp32 throughout, without mixed precision",
    .doc = precision_amp_off_rule::kDoc,
    .in_traces = precision_amp_off_in_trace::check,
    .in_scripts = precision_amp_off_rule::find,
    .costs_elsewhere = true};

}  // namespace rooftile
