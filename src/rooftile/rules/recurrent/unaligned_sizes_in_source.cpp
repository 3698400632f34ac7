#include <fmt/format.h>

#include <optional>

#include "rooftile/analysis/source/chosen_precision.h"
#include "rooftile/analysis/source/layer_queries.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace unaligned_sizes_in_source {

using namespace source;

constexpr std::int64_t kStep = 8, kSmallest = 64;

struct Size {
  std::int64_t units = 0;
  bool is_default = false;
};

// Its value, or for a variable or a choice between variables what the callers pass.
std::optional<Size> size_of(const SourceFacts& facts, const Expr* expr) {
  if (expr == nullptr) return std::nullopt;
  const Value value = facts.value(expr);
  if (value.kind == ValueKind::integer) return Size{value.integer, !value.fixed()};
  if (expr->kind == ExprKind::conditional) {
    for (const std::size_t branch : {0U, 2U}) {
      const auto size = size_of(facts, expr->children()[branch]);
      if (size && size->units % kStep != 0) return size;
    }
    return std::nullopt;
  }
  if (last_name(expr).empty()) return std::nullopt;
  const auto largest = largest_size(facts, expr);
  return largest ? std::optional(Size{*largest, true}) : std::nullopt;
}

std::optional<Size> unaligned_argument(const SourceFacts& facts, const Call& call,
                                       std::string_view name, int position) {
  const Argument* given = call.argument(name, position);
  if (given == nullptr || given->unpacked) return std::nullopt;
  const auto size = size_of(facts, given->value);
  const bool counts = size && size->units >= kSmallest && size->units % kStep != 0;
  return counts ? size : std::nullopt;
}

std::int64_t aligned(const Size& size) { return (size.units + kStep - 1) / kStep * kStep; }

// The hidden size is read in every step; the input only once, and the data may fix it.
Finding hidden_finding(const Call& call, const Size& size) {
  Finding finding = finding_at(
      call,
      fmt::format("{} with a hidden size of {}{}, not a multiple of 8: rows of its weights in fp16 "
                  "or bf16 are not 16-byte aligned",
                  call.method, size.units, size.is_default ? " (default)" : ""),
      {fmt::format("Choose {} before the next training", aligned(size)),
       Exactness::changes_training});
  finding.own_level = Level::advice;
  return finding;
}

Finding input_finding(const Call& call, const Size& size) {
  Finding finding = finding_at(
      call,
      fmt::format("{} reads {}{} features, not a multiple of 8: rows of input and weights in fp16 "
                  "or bf16 are not 16-byte aligned",
                  call.method, size.units, size.is_default ? " (default)" : ""),
      {fmt::format("Choose {} for the embedding or layer before, or pad the features with zeros",
                   aligned(size)),
       Exactness::changes_training});
  finding.own_level = Level::info;
  return finding;
}

}  // namespace unaligned_sizes_in_source

std::vector<Finding> unaligned_recurrent_sizes(const source::SourceFacts& facts) {
  using namespace unaligned_sizes_in_source;
  std::vector<Finding> findings;
  ProgramQuestion precision(
      [&](const Program& program) { return chooses_precision(facts, program); });
  for (const Call* call :
       training_calls(facts, {"torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN"})) {
    if (const auto hidden = unaligned_argument(facts, *call, "hidden_size", 1)) {
      findings.push_back(hidden_finding(*call, *hidden));
    } else if (const auto input = unaligned_argument(facts, *call, "input_size", 0)) {
      findings.push_back(input_finding(*call, *input));
    } else {
      continue;
    }
    // In fp32 and TF32 rows are aligned from 4 elements on, and hardly matter.
    if (!precision.holds_for(facts, *call->file)) findings.back().own_level = Level::info;
    findings.back().evidence = {
        Evidence::published("input and hidden size divisible by 8 in fp16",
                            "NVIDIA Recurrent Layers User's Guide, checklist")};
  }
  return findings;
}

}  // namespace rooftile
