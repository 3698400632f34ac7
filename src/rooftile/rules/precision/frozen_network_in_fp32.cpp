#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "rooftile/analysis/source/autocast.h"
#include "rooftile/analysis/source/chosen_precision.h"
#include "rooftile/analysis/source/iteration.h"
#include "rooftile/analysis/source/model_size.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/trained_parts.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace precision_frozen_network_in_fp32_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A network that no gradient goes through (a text or image encoder, the autoencoder of latent diffusion, a teacher)
and that each training step calls in fp32, in a program whose trained network runs under autocast, or is trained in
fp32 with an option for less. It has to be large enough for Tensor Cores: a model of a library, or layers of 512
features or convolutions of 64 channels.

## Why it costs time
In fp32 its GEMMs run on CUDA cores, or as TF32 where that is on, at a sixteenth or half of the rate of bf16 on an
A100, and move twice the bytes. A frozen encoder is often larger than what is trained on its output.

## How to fix
Call it under an autocast of its own, `torch.autocast("cuda", dtype=torch.bfloat16)`: T5 and the autoencoder of SDXL
overflow in fp16. Where nothing calls it outside of autocast, its weights may be loaded in bf16 too, which halves
their memory.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step time
says what there is to gain.

## When not to
- Networks inside of losses, which gradients pass on the way to what is trained.
- `autocast(enabled=False)` around it: somebody wants fp32.
- An encoder to a codebook gives the targets of the training: some of them change with the precision.
- Methods of the network that is trained.
- Weights that are cast to 16 bits, or to a dtype that is not known here.
- Features that are computed once and kept.
- Programs that leave precision to accelerate, Lightning or another library.

## Evidence
- PyTorch, "Automatic Mixed Precision package": operations outside of an autocast region run in the dtype of
  their inputs.
- PyTorch performance tuning guide, "Use Mixed Precision and AMP".
- NVIDIA A100 datasheet: 19.5 TFLOPS in fp32, 156 in TF32, 312 in bf16.
)md";

using namespace source;

// What is called as a network: `encoder(x)`, and of a module `vae.encode(x)`; null for other calls.
const Expr* network_of(const Call& call) {
  if (call.name == "torch.nn.Module.__call__") {
    return call.expr->children().front();
  }
  constexpr auto kForwards =
      std::to_array<std::string_view>({"encode", "encode_image", "encode_text", "forward",
                                       "get_image_features", "get_text_features"});
  const bool is_module = call.receiver != nullptr && call.receiver->type->is(TypeKind::module);
  const bool is_own = call.target != nullptr && call.expr->type->is(TypeKind::tensor);
  const bool is_one = std::ranges::find(kForwards, call.method) != kForwards.end();
  return is_module && (is_own || is_one) ? call.receiver : nullptr;
}

// `vae.to(device, dtype=weight_dtype)` anywhere in the program: 16 bits, or what is not known.
bool may_be_cast(const Program& program, const Expr& network) {
  return std::ranges::any_of(program.files, [&](const File* file) {
    return std::ranges::any_of(file->calls, [&](const Call* call) {
      const bool is_its = call->receiver != nullptr && is_same_object(call->receiver, &network);
      if (!is_its) return false;
      if (call->method == "half" || call->method == "bfloat16") return true;
      return call->method == "to" && std::ranges::any_of(call->arguments, [&](const Argument& one) {
               return one.value->type->is(TypeKind::dtype) ||
                      contains(lower(file->slice(one.range)), "dtype");
             });
    });
  });
}

// `from_pretrained(name, torch_dtype=dtype)`
bool is_loaded_in(const Type& type) {
  return type.half || type.bfloat16 ||
         (type.made_by != nullptr && (type.made_by->argument("torch_dtype") != nullptr ||
                                      type.made_by->argument("dtype") != nullptr));
}

// Nothing of what it gets waits for a gradient that has to pass.
bool passes_no_gradient(const SourceFacts& facts, const Call& call, const Expr& network) {
  if (without_gradients(facts, call)) return true;
  return network.type->frozen && std::ranges::none_of(call.arguments, [](const Argument& one) {
           return one.value->type->requires_grad;
         });
}

bool is_large(const SourceFacts& facts, const Program& program, const Expr& network) {
  const TrainedParts parts = parts_of(facts, program, network);
  return tensor_core_sized_layer(facts, program,
                                 [&](const Call& made) { return is_part(parts, made); })
      .has_value();
}

// A method of what is trained, or of a part of it: `model.module.add_noise(x)`.
bool is_trained(const SourceFacts& facts, const Program& program, const Expr& network) {
  const Type& type = *network.type;
  const TrainedParts& trained = trained_parts(facts, program);
  const auto is_made = [&](const ClassDef* def) {
    return std::ranges::any_of(
        def->methods, [&](const FunctionDef* method) { return trained.makers.contains(method); });
  };
  return (type.made_by != nullptr && is_part(trained, *type.made_by)) ||
         std::ranges::any_of(type.classes(), is_made);
}

bool runs_in_fp32(const SourceFacts& facts, const Program& program, const Call& call) {
  const Expr* network = network_of(call);
  if (network == nullptr || is_inside_module(call)) return false;
  const Type& type = *network->type;
  if (type.is(TypeKind::loss) || is_named_loss(last_name(network)) || is_loaded_in(type)) {
    return false;
  }
  if (is_trained(facts, program, *network)) return false;
  const Ways& ways = ways_to(facts, call);
  const bool is_plain =
      std::ranges::any_of(
          ways,
          [](const Way& way) { return way.in_each_training_step() && !way.is_off_by_default; }) &&
      std::ranges::none_of(ways, [](const Way& way) { return way.autocast != nullptr; });
  return is_plain && passes_no_gradient(facts, call, *network) && !may_be_cast(program, *network) &&
         is_large(facts, program, *network);
}

// `trained` is the forward under autocast; null where the training is in fp32, too.
Finding finding_for(const Call& call, const Call* trained) {
  Finding finding = finding_at(
      call,
      fmt::format("{} runs in fp32 on each step, {}", call.file->slice(network_of(call)->range),
                  trained != nullptr ? "although what is trained runs under autocast"
                                     : "and no gradient needs that"),
      {"Call it under torch.autocast(\"cuda\", dtype=torch.bfloat16), which has the range of fp32 "
       "where fp16 overflows",
       Exactness::changes_numerics});
  if (trained != nullptr) {
    finding.evidence.push_back(Evidence::found(
        fmt::format("training forward under autocast at {}", place_text(*trained, *call.file))));
  }
  finding.evidence.push_back(
      Evidence::published("PyTorch, Automatic Mixed Precision package: outside of an autocast "
                          "region operations run in the dtype of their inputs"));
  return finding;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::set<std::pair<const File*, std::string_view>> seen;  // one for each network of a file
  for (const Program* program : training_programs(facts)) {
    if (has_training_framework(*program)) continue;
    const Call* trained = forward_under_autocast(facts, *program);
    // Where nothing chooses a precision, precision/amp-off speaks of all networks.
    if (trained == nullptr && !chooses_precision(facts, *program)) continue;
    for (const Loop* loop : program->training_loops) {
      for (const IteratedCall& one : iteration_of(facts, loop->statement->body).calls) {
        const Call& call = *one.call;
        if (!program->has(*call.file) || !runs_in_fp32(facts, *program, call)) continue;
        const std::string_view network = call.file->slice(network_of(call)->range);
        if (seen.emplace(call.file, network).second) {
          findings.push_back(finding_for(call, trained));
        }
      }
    }
  }
  return findings;
}

}  // namespace precision_frozen_network_in_fp32_rule

extern const Rule precision_frozen_network_in_fp32{
    .id = "precision/frozen-network-in-fp32",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "A frozen network runs in fp32 in each training step",
    .doc = precision_frozen_network_in_fp32_rule::kDoc,
    .in_scripts = precision_frozen_network_in_fp32_rule::find};

}  // namespace rooftile
