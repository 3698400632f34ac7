#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "rooftile/analysis/source/layer_queries.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace sizes_in_source {

using namespace source;

constexpr std::int64_t kNarrow = 32, kStep = 8, kWanted = 64;

// Where a layer type has its width; the number of heads comes next.
struct HeadedType {
  std::string_view name, width, heads;
};

constexpr HeadedType kTypes[] = {
    {"torch.nn.MultiheadAttention", "embed_dim", "num_heads"},
    {"torch.nn.TransformerEncoderLayer", "d_model", "nhead"},
    {"torch.nn.TransformerDecoderLayer", "d_model", "nhead"},
    {"torch.nn.Transformer", "d_model", "nhead"},
};

std::optional<Finding> judge_heads(const SourceFacts& facts, const HeadedType& type,
                                   const Call& call) {
  const auto width = known_argument(facts, call, type.width, 0);
  const auto heads = known_argument(facts, call, type.heads, 1);
  if (!width || !heads || *heads < 1 || *width % *heads != 0) return std::nullopt;
  const std::int64_t size = *width / *heads;
  if (size >= kNarrow && size % kStep == 0) return std::nullopt;
  const std::int64_t fewer = std::max<std::int64_t>(1, *width / kWanted);
  Finding finding = finding_at(
      call,
      fmt::format("{} heads of size {}: their GEMMs use the Tensor Cores badly", *heads, size),
      {fmt::format("In the next model choose {} head{} of size {}", fewer, fewer == 1 ? "" : "s",
                   *width / fewer),
       Exactness::changes_training});
  finding.evidence = {Evidence::published(
      "fewer, wider heads", "Anthony et al., Co-Designing Model Architectures, 2024")};
  return finding;
}

bool has_number(const Expr* expr, std::string_view number) {
  return any_inside(expr, [&](const Expr& part) {
    return part.kind == ExprKind::integer && part.word() == number;
  });
}

// int(8 * d / 3), int(2 * 4 * d / 3) or int(2 / 3 * d), not within a rounding.
bool is_two_thirds(const Expr& expr) {
  if (expr.call() == nullptr || expr.call()->arguments.size() != 1) return false;
  const Expr* width = expr.call()->arguments[0].value;
  bool has_name = false, by_three = false;
  visit(width, [&](const Expr& part) {
    has_name = has_name || !last_name(&part).empty();
    const bool divides = part.kind == ExprKind::binary && part.word() == "/";
    by_three = by_three || (divides && part.children()[1]->kind == ExprKind::integer &&
                            part.children()[1]->word() == "3");
    return true;
  });
  return has_name && by_three && (has_number(width, "8") || has_number(width, "2"));
}

bool rounds(const Statement& statement) {
  const auto block = statement.function != nullptr ? statement.function->body : statement.block;
  bool found = false;
  for_statements(block, [&](const Statement& other) {
    for_own_expressions(other, [&](const Expr* expr) {
      found = found || uses_name(expr, {"multiple_of", "round_up", "make_divisible"});
      visit(expr, [&](const Expr& part) {
        found = found || (part.kind == ExprKind::binary && part.word() == "//");
        return !found;
      });
    });
  });
  return found;
}

void judge_widths(const SourceFacts& facts, const File& file, std::vector<Finding>& findings) {
  for (const Call* call : file.calls) {
    if (call->name != "int" || !is_two_thirds(*call->expr) || rounds(*call->statement)) continue;
    if (!trains_on_gpu(facts, file)) continue;
    Finding finding = finding_at(
        *call,
        fmt::format("the width `{}` is rarely a multiple of 64", code_text(file, call->expr)),
        {"Round it up: (width + 255) // 256 * 256", Exactness::changes_training});
    finding.evidence = {Evidence::published("multiples of 32 to 256 within 1 % on H100",
                                            "ML Engineering, SwiGLU-based MLP")};
    findings.push_back(std::move(finding));
  }
}

}  // namespace sizes_in_source

std::vector<Finding> narrow_heads_in_source(const source::SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const auto& type : sizes_in_source::kTypes) {
    for (const source::Call* call : source::training_calls(facts, {type.name})) {
      if (auto finding = sizes_in_source::judge_heads(facts, type, *call)) {
        findings.push_back(*std::move(finding));
      }
    }
  }
  return findings;
}

std::vector<Finding> odd_swiglu_widths_in_source(const source::SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const auto& file : facts.files) sizes_in_source::judge_widths(facts, *file, findings);
  return findings;
}

}  // namespace rooftile
