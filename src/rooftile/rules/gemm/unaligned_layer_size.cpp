#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "rooftile/analysis/source/chosen_precision.h"
#include "rooftile/analysis/source/layer_queries.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace unaligned_layer_size {

constexpr std::string_view kDoc = R"md(
## What it finds
`nn.Linear` with written sizes of 128 or more of which one is not a multiple of 8, in a program that
trains on a GPU. The odd size is one that another layer of the class reads or makes, so that it is a
free choice. One finding per class.

## Why it costs time
Rows of weights and activations that do not start at 16-byte addresses rule out the full-width loads
of the Tensor Core kernels in 16 bits: forward and both gradients take slower kernels.

## How to fix
Choose the next multiple of 8, better of 64, before training.

## How the saving is estimated
Not from the source alone. `rooftile check` on the model's operations or on a trace tells the
time; see `gemm/unaligned-row-stride`.

## When not to
- The last layer: classes and actions are given. Inputs given by the data, such as 784 pixels or
  flattened convolutions, are too. Neither is reported.
- A trained checkpoint fixes the sizes.
- In fp32 without TF32 the size makes no difference: information where the program chooses no precision.

## Evidence
- NVIDIA Linear/Fully-Connected Layers User's Guide: sizes divisible by 8 in fp16.
- cuBLAS documentation, "Tensor Core Usage".
)md";

using namespace source;

constexpr std::int64_t kStep = 8, kSmallest = 128;

struct Written {
  const Call* call = nullptr;
  std::int64_t in = 0, out = 0;  // 0: not known
  bool is_joined = false;        // the inputs are a sum of sizes that are known
};

// `belief_size + state_size`: features that the author joins, and more than a time or a flag.
bool is_sum(const SourceFacts& facts, const Call& call) {
  constexpr std::int64_t kFeatures = 16;
  const Argument* in = call.argument("in_features", 0);
  return in != nullptr && !in->unpacked && in->value->kind == ExprKind::binary &&
         in->value->word() == "+" &&
         std::ranges::all_of(in->value->children(), [&](const Expr* part) {
           const Value size = facts.value(part);
           return size.kind == ValueKind::integer && size.integer >= kFeatures;
         });
}

using Homes = std::map<const void*, std::vector<Written>>;

// nn.Linear, or an own class that is one and has its arguments.
bool is_linear(const Call& call) {
  if (call.name == "torch.nn.Linear") return true;
  const ClassDef* def = call.expr->type->made_by == &call ? call.expr->type->class_def : nullptr;
  return def != nullptr && def->method("__init__") == nullptr &&
         std::ranges::any_of(
             def->bases, [](const Expr* base) { return base->full_name() == "torch.nn.Linear"; });
}

// FeedForward(200, 150), an own block with one linear layer of these sizes.
std::optional<Written> block_of(const SourceFacts& facts, const Call& call) {
  const FunctionDef* init = call.target;
  const bool is_block = init != nullptr && init->name == "__init__" && call.method != "__init__" &&
                        init->class_def != nullptr && init->class_def->is_module;
  if (!is_block || std::ranges::count_if(init->calls, [](auto* c) { return is_linear(*c); }) != 1) {
    return std::nullopt;
  }
  const Call& linear = **std::ranges::find_if(init->calls, [](auto* c) { return is_linear(*c); });
  const auto passed = [&](const Argument* given) -> std::optional<std::int64_t> {
    const bool is_name = given != nullptr && !given->unpacked &&
                         given->value->kind == ExprKind::name && given->value->binding() == nullptr;
    const Argument* size = is_name ? passed_argument(call, *init, given->value->word()) : nullptr;
    if (size == nullptr) return std::nullopt;
    return size->name.empty() ? chosen_argument(facts, call, "", static_cast<int>(size->position))
                              : chosen_argument(facts, call, size->name, -1);
  };
  const auto in = passed(linear.argument("in_features", 0));
  const auto out = passed(linear.argument("out_features", 1));
  // One of several kinds, of which the default is another.
  if (!in || !out || !is_reached_by_default(facts, call)) return std::nullopt;
  return Written{&call, *in, *out, false};
}

Homes layers_of(const SourceFacts& facts, const File& file) {
  Homes homes;
  for (const Call* call : file.calls) {
    if (const auto block = block_of(facts, *call)) homes[home_of(*call)].push_back(*block);
    if (!is_linear(*call)) continue;
    const auto in = chosen_argument(facts, *call, "in_features", 0);
    const auto out = chosen_argument(facts, *call, "out_features", 1);
    if (!in && !out) continue;
    homes[home_of(*call)].push_back(
        {call, in.value_or(0), out.value_or(0), in && is_sum(facts, *call)});
  }
  return homes;
}

bool is_odd(std::int64_t size) { return size >= kSmallest && size % kStep != 0; }

// The odd sizes between two layers of the class.
std::set<std::int64_t> odd_sizes(const std::vector<Written>& layers) {
  std::set<std::int64_t> made, odd;
  for (const Written& layer : layers) {
    if (is_odd(layer.out)) made.insert(layer.out);
  }
  for (const Written& layer : layers) {
    if (made.contains(layer.in) || (layer.is_joined && is_odd(layer.in))) odd.insert(layer.in);
  }
  return odd;
}

Finding finding_for(const Written& first, const std::set<std::int64_t>& odd) {
  std::vector<std::string> changes;
  for (const std::int64_t size : odd) {
    changes.push_back(fmt::format("{} -> {}", size, (size + kStep - 1) / kStep * kStep));
  }
  Finding finding = finding_at(
      *first.call,
      fmt::format(
          "Linear of {} to {} features: rows that are not a multiple of 8 rule out the fast "
          "16-bit kernels",
          first.in, first.out),
      {fmt::format("Before the next training choose multiples of 8: {}", join(changes, ", ")),
       Exactness::changes_training});
  finding.evidence = {Evidence::published("sizes divisible by 8 in fp16",
                                          "NVIDIA Linear/Fully-Connected Layers User's Guide")};
  return finding;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  ProgramQuestion precision(
      [&](const Program& program) { return chooses_precision(facts, program); });
  for (const auto& file : facts.files) {
    if (!has_text(*file, "Linear") || !trains_on_gpu(facts, *file)) continue;
    std::map<std::uint32_t, Finding> by_place;
    for (const auto& [home, layers] : layers_of(facts, *file)) {
      const std::set<std::int64_t> odd = odd_sizes(layers);
      const auto first = std::find_if(layers.begin(), layers.end(), [&](const Written& layer) {
        const bool is_large = std::min(layer.in, layer.out) >= kSmallest;
        return is_large && (odd.contains(layer.in) || odd.contains(layer.out));
      });
      if (first == layers.end()) continue;
      const FunctionDef* maker = first->call->function;
      const bool is_plain = maker != nullptr && maker->class_def == nullptr;
      if (is_plain && !is_reached_by_default(facts, *first->call)) continue;
      by_place.emplace(first->call->open_paren, finding_for(*first, odd));
    }
    for (auto& [place, finding] : by_place) {
      // In fp32 and TF32 rows are aligned from 4 elements on, and hardly matter.
      if (!precision.holds_for(facts, *file)) finding.own_level = Level::info;
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace unaligned_layer_size

extern const Rule gemm_unaligned_layer_size{.id = "gemm/unaligned-layer-size",
                                            .level = Level::advice,
                                            .cause = Cause::none,
                                            .summary = "Linear layer size is not a multiple of 8",
                                            .doc = unaligned_layer_size::kDoc,
                                            .in_scripts = unaligned_layer_size::find};

}  // namespace rooftile
