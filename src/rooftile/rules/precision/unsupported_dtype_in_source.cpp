#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "rooftile/analysis/source/autocast.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/time/math_unit.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace unsupported_dtype_in_source {

using namespace source;

// An option of a training framework that switches bf16 on.
struct FrameworkOption {
  std::string_view call, argument;
};

constexpr FrameworkOption kOptions[] = {
    {"transformers.TrainingArguments", "bf16"},
    {"transformers.Seq2SeqTrainingArguments", "bf16"},
    {"trl.SFTConfig", "bf16"},
    {"accelerate.Accelerator", "mixed_precision"},
    {"lightning.Trainer", "precision"},
    {"lightning.pytorch.Trainer", "precision"},
    {"pytorch_lightning.Trainer", "precision"},
    {"lightning.Fabric", "precision"},
    {"lightning.fabric.Fabric", "precision"},
};

bool is_bf16(const Value& value) {
  return is_dtype(value, {"bfloat16"}) || value.is("bf16") || value.is("bf16-mixed") ||
         value.is("bf16-true");
}

const Call* autocast_in_bf16(const SourceFacts& facts, const Program& program) {
  for (const Autocast& autocast : autocasts_in(facts, program)) {
    const bool is_on = autocast.on_gpu && !autocast.is_off && autocast.call != nullptr;
    if (is_on && autocast.dtype == AutocastDtype::bf16 &&
        is_reached_by_default(facts, *autocast.call)) {
      return autocast.call;
    }
  }
  return nullptr;
}

const Call* framework_in_bf16(const SourceFacts& facts, const Program& program) {
  for (const FrameworkOption& option : kOptions) {
    for (const Call* call : calls_in(facts, program, {option.call})) {
      const Value value = facts.argument(*call, option.argument);
      const bool is_switch = option.argument == "bf16";
      if ((is_switch ? value.is_true() : is_bf16(value)) && is_reached_by_default(facts, *call)) {
        return call;
      }
    }
  }
  return nullptr;
}

bool is_module(const Expr* expr) { return expr != nullptr && expr->type->is(TypeKind::module); }

// model.bfloat16(), model.to(torch.bfloat16), from_pretrained(torch_dtype=torch.bfloat16).
bool casts_module(const SourceFacts& facts, const Call& call) {
  if (call.method == "bfloat16") return is_module(call.receiver);
  if (call.method == "to" && is_module(call.receiver)) {
    return std::ranges::any_of(call.arguments, [&](const Argument& argument) {
      return is_bf16(facts.value(argument.value));
    });
  }
  if (call.method != "from_pretrained") return false;
  return is_bf16(facts.argument(call, "torch_dtype")) || is_bf16(facts.argument(call, "dtype"));
}

const Call* model_in_bf16(const SourceFacts& facts, const Program& program) {
  for (const std::string_view method : {"bfloat16", "to", "from_pretrained"}) {
    for (const Call* call : facts.method_calls(method)) {
      if (call->file->is_test || !program.has(*call->file) || !casts_module(facts, *call)) continue;
      if (is_reached_by_default(facts, *call)) return call;
    }
  }
  return nullptr;
}

std::string rates_text(const Device& device) {
  const MathUnit bf16 = math_unit(device, Dtype::bf16), fp16 = math_unit(device, Dtype::fp16);
  return fmt::format("{} instead of {}", rate_text(bf16.peak), rate_text(fp16.peak));
}

Finding finding_of(const Call& call, const Device& device) {
  Finding finding = finding_at(
      call,
      fmt::format("bf16 on a {}, which has no bf16 Tensor Cores: matrix operations run in fp32 on "
                  "CUDA cores, with a peak of {} in fp16",
                  device.name, rates_text(device)),
      {"Use fp16: torch.autocast(\"cuda\", dtype=torch.float16) with "
       "torch.amp.GradScaler(\"cuda\"), "
       "weights in fp32",
       Exactness::changes_numerics});
  finding.evidence = {
      Evidence::published("bf16 needs compute capability 8.0 (Ampere)",
                          "CUDA C++ Programming Guide, Compute Capabilities"),
      Evidence::published("bf16 emulated in fp32 on older GPUs", "PyTorch pull request 148322")};
  return finding;
}

// torch.cuda.is_bf16_supported(), which is True where bf16 is emulated.
const Call* permissive_test(const SourceFacts& facts, const Program& program) {
  for (const Call* call : calls_in(facts, program, {"torch.cuda.is_bf16_supported"})) {
    const bool asks_only = call->arguments.empty() && is_reached_by_default(facts, *call);
    if (asks_only) return call;
  }
  return nullptr;
}

Finding finding_of_test(const Call& call, const Device& device) {
  Fix fix{"Pass including_emulation=False", Exactness::changes_numerics};
  add_edit(add_argument(call, "including_emulation", "False"), fix);
  Finding finding = finding_at(
      call,
      fmt::format(
          "is_bf16_supported() counts emulation, so it is True on a {} too, whose bf16 runs "
          "in fp32 on CUDA cores",
          device.name),
      std::move(fix));
  finding.own_level = Level::advice;
  finding.evidence = {Evidence::published("is_bf16_supported() is True on older GPUs",
                                          "PyTorch pull request 148322")};
  return finding;
}

std::optional<std::pair<const Call*, bool>> place_in(const SourceFacts& facts,
                                                     const Program& program) {
  if (const Call* test = permissive_test(facts, program)) return std::pair(test, true);
  // Somebody has looked at the GPU.
  if (mentions(program, {"is_bf16_supported", "get_device_capability", "is_bf16_available",
                         "is_torch_bf16_gpu_available"})) {
    return std::nullopt;
  }
  const Call* call = autocast_in_bf16(facts, program);
  if (call == nullptr) call = framework_in_bf16(facts, program);
  if (call == nullptr) call = model_in_bf16(facts, program);
  return call == nullptr ? std::nullopt : std::optional(std::pair(call, false));
}

}  // namespace unsupported_dtype_in_source

std::vector<Finding> unsupported_bf16_in_source(const source::SourceFacts& facts,
                                                const Device* gpu) {
  using namespace unsupported_dtype_in_source;
  std::vector<Finding> findings;
  if (gpu == nullptr) return findings;
  const Device& device = *gpu;
  if (device.has_tensor_cores(Dtype::bf16) || !device.has_tensor_cores(Dtype::fp16)) {
    return findings;
  }
  std::unordered_set<const Call*> seen;
  for (const Program* program : training_programs(facts)) {
    const auto place = place_in(facts, *program);
    if (!place || !seen.insert(place->first).second) continue;
    const auto& [call, is_test] = *place;
    findings.push_back(is_test ? finding_of_test(*call, device) : finding_of(*call, device));
  }
  return findings;
}

}  // namespace rooftile
