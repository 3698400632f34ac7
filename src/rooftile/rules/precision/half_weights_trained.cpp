#include <fmt/format.h>

#include <unordered_set>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace precision_half_weights_trained_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A module in fp16 or bf16 (`.half()`, `.bfloat16()`, `torch_dtype=torch.bfloat16`) whose parameters go to an ordinary
`torch.optim` optimizer.

## Why it costs time
It saves memory and time, but the training suffers: a weight update smaller than 1/2048 of the
weight (fp16) or 1/256 (bf16) rounds to nothing.

## How to fix
Keep fp32 weights and use autocast: the GEMMs run in 16 bits all the same. Or use an
optimizer with fp32 master weights, stochastic rounding or Kahan sums.

## How the saving is estimated
Nothing is saved: the rule is about a wrong result, which costs the whole run.

## When not to
- fp32 master copies: apex O2, DeepSpeed, `FP16_Optimizer`, FSDP mixed precision.
- Only adapters (LoRA) in fp32 are trained; the weights are frozen.

## Evidence
- Micikevicius et al., "Mixed Precision Training", ICLR 2018, section 3.1: about 5 per cent of
  weight gradients fall below 2^-24, and a Mandarin speech model lost 80 per cent relative accuracy
  with fp16 updates.
)md";

using namespace source;

// The module of `model.parameters()`, through lists and filters; null otherwise.
const Expr* trained_module(const Expr* parameters) {
  const Expr* found = nullptr;
  visit(resolved(parameters), [&](const Expr& part) {
    const bool is_one =
        part.call() != nullptr && part.call()->receiver != nullptr &&
        (part.call()->method == "parameters" || part.call()->method == "named_parameters");
    if (is_one && found == nullptr) found = part.call()->receiver;
    return true;
  });
  return found;
}

// Whether the program keeps fp32 copies or rounds so that small updates survive.
bool keeps_precision(const Program& program) {
  return mentions(
      program, {"FP16_Optimizer", "apex", "deepspeed", "master_weights", "kahan", "Kahan",
                "stochastic_rounding", "peft", "lora", "LoRA", "LoraConfig", "bnb", "bitsandbytes",
                "FSDP", "fully_shard", "float32_params", "master_params", "fp32_params"});
}

const Call* conversion_of(const SourceFacts& facts, const Expr* module, const File& file) {
  for (const std::string_view method : {"half", "bfloat16"}) {
    for (const Call* call : facts.method_calls(method)) {
      if (call->file == &file && is_same_object(call->receiver, module)) return call;
    }
  }
  return nullptr;
}

// Where the weights get 16 bits: model.half(), or from_pretrained(torch_dtype=torch.float16).
const Call& place_of_cast(const SourceFacts& facts, const Expr* module, const Call& optimizer) {
  if (const Call* cast = conversion_of(facts, module, *optimizer.file)) return *cast;
  const Call* made = module->type->made_by;
  const bool casts =
      made != nullptr && made->file == optimizer.file &&
      (made->argument("torch_dtype") != nullptr || made->argument("dtype") != nullptr);
  return casts ? *made : optimizer;
}

// The module of 16-bit weights that the optimizer trains; null for none.
const Expr* half_module(const SourceFacts& facts, const Program& program, const Call& optimizer) {
  if (!optimizer.name.starts_with("torch.optim.") || optimizer.arguments.empty()) return nullptr;
  const Expr* module = trained_module(optimizer.arguments.front().value);
  if (module == nullptr || module->type->frozen) return nullptr;
  if (!module->type->half && !module->type->bfloat16) return nullptr;
  const bool wanted = !keeps_precision(program) && is_reached_by_default(facts, optimizer);
  return wanted ? module : nullptr;
}

Finding describe(const SourceFacts& facts, const Expr* module, const Call& optimizer) {
  const bool is_bf16 = module->type->bfloat16;
  Finding finding = finding_at(
      place_of_cast(facts, module, optimizer),
      fmt::format("the weights of {} are {}, and {} updates them without an fp32 copy: updates "
                  "below 1/{} of a weight vanish",
                  code_text(*optimizer.file, module), is_bf16 ? "bf16" : "fp16", optimizer.method,
                  is_bf16 ? "256" : "2048"),
      {"Keep the weights in fp32 and run the forward under torch.autocast(\"cuda\", "
       "dtype=torch.bfloat16)",
       Exactness::changes_numerics});
  finding.evidence = {
      Evidence::found(fmt::format("optimizer at {}", place_text(optimizer, *optimizer.file))),
      Evidence::published(
          "80 per cent relative accuracy lost on a Mandarin speech model with fp16 weights",
          "Micikevicius et al., Mixed Precision Training, 2018")};
  return finding;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::unordered_set<const Call*> seen;
  for (const Program* program : training_programs(facts)) {
    for (const Call* optimizer : constructions_in(facts, *program, TypeKind::optimizer)) {
      const Expr* module = half_module(facts, *program, *optimizer);
      if (module == nullptr || !seen.insert(optimizer).second) continue;
      findings.push_back(describe(facts, module, *optimizer));
    }
  }
  return findings;
}

std::vector<Finding> find_for(const SourceFacts& facts, const Device* gpu) {
  std::vector<Finding> findings = find(facts);
  if (gpu == nullptr || gpu->has_tensor_cores(Dtype::bf16)) return findings;
  for (Finding& finding : findings) {
    finding.fix.text =
        "Keep the weights in fp32, run the forward under torch.autocast(\"cuda\", "
        "dtype=torch.float16) and step through torch.amp.GradScaler(\"cuda\")";
  }
  return findings;
}

}  // namespace precision_half_weights_trained_rule

extern const Rule precision_half_weights_trained{
    .id = "precision/half-weights-trained",
    .level = Level::warning,
    .cause = Cause::none,
    .summary = "Optimizer updates 16-bit weights without an fp32 copy",
    .doc = precision_half_weights_trained_rule::kDoc,
    .in_scripts = precision_half_weights_trained_rule::find_for};

}  // namespace rooftile
