#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_set>

#include "rooftile/analysis/source/autocast.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace odd_key_length_in_source {

using namespace source;

constexpr std::int64_t kStep = 8;  // 16 bytes of fp16 or bf16

bool is_half(const Value& value) {
  return is_dtype(value, {"float16", "half", "bfloat16"}) || value.is("fp16") || value.is("bf16");
}

// Autocast, a trainer's option or 16-bit weights, on by default.
bool trains_in_half(const SourceFacts& facts, const Program& program) {
  const auto autocasts = autocasts_in(facts, program);
  if (std::ranges::any_of(autocasts, [](const Autocast& one) { return one.on_gpu && !one.is_off; }))
    return true;
  for (const File* file : program.files) {
    for (const Call* call : file->calls) {
      for (const std::string_view name : {"mixed_precision", "torch_dtype", "dtype"}) {
        if (call->argument(name) != nullptr && is_half(facts.argument(*call, name))) return true;
      }
      const bool is_settings = call->method.ends_with("TrainingArguments");
      for (const std::string_view name : {"fp16", "bf16"}) {
        if (is_settings && facts.argument(*call, name).is_true()) return true;
      }
    }
  }
  return false;
}

bool has_fused_attention(const Program& program) {
  return std::ranges::any_of(program.files, [](const File* file) {
    return has_any_text(*file, {"sdpa", "flash_attention", "flash_attn", "xformers",
                                "scaled_dot_product_attention", "flex_attention"});
  });
}

bool is_tokenizer(const Call& call) {
  const Expr* callee = call.expr->children()[0];
  const std::string name = lower(last_name(callee));
  const std::string receiver = lower(last_name(call.receiver));
  const bool is_method = is_one_of(call.method, {"pad", "batch_encode_plus"});
  return name.find("tok") != std::string::npos ||
         (is_method && receiver.find("tok") != std::string::npos);
}

bool is_collator(const Call& call) {
  return is_one_of(call.name,
                   {"transformers.DataCollatorWithPadding", "transformers.DataCollatorForSeq2Seq",
                    "transformers.DataCollatorForTokenClassification",
                    "transformers.DataCollatorForLanguageModeling"});
}

// What the call pads to; empty where lengths are multiples of 8, or nothing is padded.
std::optional<std::string> odd_length(const SourceFacts& facts, const Call& call) {
  if (call.unknown_arguments || call.argument("pad_to_multiple_of") != nullptr) return std::nullopt;
  const Value padding = facts.argument(call, "padding");
  if (padding.is("max_length")) {
    const Value length = facts.argument(call, "max_length");
    const bool is_odd = length.kind == ValueKind::integer && length.integer % kStep != 0;
    return is_odd ? std::optional(fmt::format("{} tokens", length.integer)) : std::nullopt;
  }
  const bool to_longest = padding.is("longest") ||
                          (padding.kind == ValueKind::boolean && padding.is_true()) ||
                          (padding.absent() && is_collator(call));
  return to_longest ? std::optional<std::string>("the longest text") : std::nullopt;
}

bool serves_training(const SourceFacts& facts, const Call& call) {
  const bool is_evaluation = call.function != nullptr && is_named_evaluation(*call.function);
  return !is_evaluation && is_reached_by_default(facts, call);
}

Finding finding_for(const Call& call, const std::string& length) {
  const bool is_fixed = length != "the longest text";
  Fix fix{is_fixed ? "Choose a max_length that is a multiple of 8"
                   : "Add pad_to_multiple_of=8 (64 on A100 and newer), or use fused attention",
          Exactness::exact_arithmetic};
  if (!is_fixed) add_edit(add_argument(call, "pad_to_multiple_of", "8"), fix);
  Finding finding = finding_at(
      call,
      fmt::format("{} pads to {}: unless attention is fused, score rows in 16 bits need a multiple "
                  "of 8 keys for the fast kernels",
                  call.method.empty() ? "the tokenizer" : call.method, length),
      std::move(fix));
  finding.own_level = Level::info;
  finding.evidence = {
      Evidence::found(
          "neither sdpa nor flash attention is named in the program, and it trains in 16 bits"),
      Evidence::published("pad sequence lengths to multiples of 8", "NVIDIA, GTC 2019 talk S9143")};
  return finding;
}

}  // namespace odd_key_length_in_source

std::vector<Finding> unaligned_padding_in_source(const source::SourceFacts& facts) {
  using namespace odd_key_length_in_source;
  std::vector<Finding> findings;
  std::unordered_set<const Call*> seen;
  for (const Program* program : training_programs(facts)) {
    const bool may_tokenize = std::ranges::any_of(program->files, [](const File* file) {
      return has_any_text(*file, {"padding", "DataCollator"});
    });
    if (!may_tokenize || has_fused_attention(*program) || !trains_in_half(facts, *program))
      continue;
    for (const File* file : program->files) {
      for (const Call* call : file->calls) {
        if (!is_tokenizer(*call) && !is_collator(*call)) continue;
        const auto length = odd_length(facts, *call);
        if (!length || !serves_training(facts, *call) || !seen.insert(call).second) continue;
        findings.push_back(finding_for(*call, *length));
      }
    }
  }
  return findings;
}

}  // namespace rooftile
