#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

#include "rooftile/analysis/attention_chain.h"
#include "rooftile/rules/group_finding.h"

namespace rooftile {

// unfused_in_source.cpp
std::vector<Finding> unfused_attention_in_source(const source::SourceFacts& facts);

// unfused_in_trace.cpp
std::vector<Finding> unfused_attention_in_traces(const RuleInput& input);

namespace attention_unfused_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Attention over at least 128 queries and keys whose scores are written to memory: an operation marked
as not fused, or a graph with GEMM, softmax and GEMM in sequence.

In traces of any length: a softmax with the nearest batched GEMMs before and after it whose shapes fit,
in order on one thread, and their backward operators by sequence number.

In training scripts: a module that computes `softmax(q @ k) @ v` by hand, or a function that only
modules call in their forward. One finding per class or function, at level advice.

## Why it costs time
The scores are a matrix of queries times keys for every head. Scaling, masking, softmax and dropout
each read and write it, and that takes several times as long as the two products.

## How to fix
Use a fused kernel: `torch.nn.functional.scaled_dot_product_attention`, FlashAttention, or the
runtime's attention operator. In a graph, an optimiser such as the one of ONNX Runtime replaces the
pattern.

## How the saving is estimated
The time model compares all operations of the pattern with one fused attention of the same shape. In
traces, the measured time of all kernels of the pattern is compared with the model's fused kernel,
forward and, where it ran, backward. Without recorded shapes: the time of all but the GEMMs, and 0 at the
low end.

## When not to
- `scaled_dot_product_attention` that PyTorch's ONNX exporters wrote out is put together again and not
  reported. In ONNX files of other origin, or that a runtime has optimised, the finding concerns that
  runtime.
- Returned attention weights and custom biases rule out some kernels; head sizes have limits.
- Flash kernels take fp16 and bf16; in fp32 only the memory-efficient kernel remains.
- Below 128 keys launches dominate, and nothing is reported.
- Dropout draws other random numbers.
- Scripts: the weights are returned or stored, a fused call is there already, convolutions narrow the
  queries and keys of an image, or weights meet other weights. Information: attention in a network of
  convolutions, which take most of its time; a network that is not trained, or is made beside those that
  are; a project that names a PyTorch before 2.0.

## Evidence
- EleutherAI cookbook, transformer sizing sample: softmax and dropout 8.8 ms against 1.7 ms for the
  two GEMMs; attention at 48 TFLOPS, the MLP at 234.
- Dao et al., "FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness" (2022): up
  to three times as fast as PyTorch's operators at lengths from 128 to 2,048.
)md";

constexpr std::int64_t kLongEnough = 128;

bool is_long(const Attention& attention) {
  return std::min(attention.query_len, attention.kv_len) >= kLongEnough;
}

Fix propose(GraphKind graph = GraphKind::none) {
  if (graph == GraphKind::runtime) {
    return {
        "Let the runtime fuse it: ONNX Runtime's transformer optimizer and TensorRT replace "
        "this pattern by one attention kernel",
        Exactness::exact_arithmetic};
  }
  return {
      "Use a fused attention kernel (scaled_dot_product_attention, FlashAttention); a bias on "
      "the scores, as in T5, goes in as attn_mask or through FlexAttention",
      Exactness::exact_arithmetic};
}

std::string describe(const Attention& attention) {
  return fmt::format("attention of {} heads writes its {} x {} scores to memory",
                     attention.batch * attention.heads, attention.query_len, attention.kv_len);
}

std::vector<Evidence> evidence() {
  return {Evidence::published("softmax and dropout 8.8 ms, both GEMMs 1.7 ms",
                              "EleutherAI cookbook, transformer sizing")};
}

void judge_operations(const RuleInput& input, std::vector<Finding>& findings) {
  const auto wanted = [](const Op& op) {
    const auto* attention = std::get_if<Attention>(&op.body);
    return attention != nullptr && !attention->fused && is_long(*attention);
  };
  for (const LayerGroup& group : group_equal_layers(input.workload, input.analysis, wanted)) {
    const auto saving = saving_if_all(input, group, [](const Op& op) {
      Op changed = op;
      std::get<Attention>(changed.body).fused = true;
      return changed;
    });
    if (group.time_share < threshold::kReported || is_pointless(saving)) continue;
    const auto& body = input.workload.ops[group.ops.front()].body;
    Finding finding =
        finding_at_groups(input, {group}, describe(std::get<Attention>(body)), propose(), saving);
    soften_unless_clear(input, finding);
    finding.evidence = evidence();
    findings.push_back(std::move(finding));
  }
}

auto shape_key(const Workload& workload, const AttentionChain& chain) {
  const Attention& a = chain.attention;
  return std::tuple(a.heads, a.query_len, a.kv_len, a.head_dim, a.value_dim,
                    workload.ops[chain.scores].dtypes.input, chain.ops.size());
}

std::vector<std::vector<AttentionChain>> repeated_chains(const RuleInput& input) {
  const Workload& workload = input.workload;
  std::map<decltype(shape_key(workload, {})), std::vector<AttentionChain>> by_shape;
  for (AttentionChain& chain : find_attention_chains(workload, input.graph)) {
    if (is_long(chain.attention)) by_shape[shape_key(workload, chain)].push_back(std::move(chain));
  }
  std::vector<std::vector<AttentionChain>> result;
  result.reserve(by_shape.size());
  for (auto& [key, chains] : by_shape) result.push_back(std::move(chains));
  return result;
}

// The chain's operations in one phase against one fused operation in that phase.
std::optional<Range<Seconds>> saving_in_phase(const RuleInput& input, const AttentionChain& chain,
                                              Phase phase) {
  TimeEstimate before;
  for (const std::size_t i : chain.ops) {
    Op op = input.workload.ops[i];
    op.phase = phase;
    const std::optional<TimeEstimate> time = input.model.estimate(op);
    if (time) before = before + *time;
  }
  Op fused = input.workload.ops[chain.scores];
  fused.body = chain.attention;
  fused.phase = phase;
  const std::optional<TimeEstimate> after = input.model.estimate(fused);
  if (!after) return std::nullopt;
  return estimate_saving(before, *after);
}

std::optional<Range<Seconds>> saving_of(const RuleInput& input, const AttentionChain& chain) {
  std::optional<Range<Seconds>> saving = saving_in_phase(input, chain, Phase::forward);
  if (saving && input.workload.mode == Mode::training) {
    const auto backward = saving_in_phase(input, chain, Phase::dgrad);
    if (!backward) return std::nullopt;
    *saving += *backward;
  }
  return saving;
}

void judge_chains(const RuleInput& input, std::vector<Finding>& findings) {
  for (const std::vector<AttentionChain>& chains : repeated_chains(input)) {
    LayerGroup group;
    double runs = 0;
    for (const AttentionChain& chain : chains) {
      group.ops.insert(group.ops.end(), chain.ops.begin(), chain.ops.end());
      runs += static_cast<double>(input.workload.ops[chain.scores].count);
    }
    for (const std::size_t i : group.ops) group.time_share += input.analysis.ops[i].time_share;
    std::optional<Range<Seconds>> saving = saving_of(input, chains.front());
    if (saving) *saving = *saving * runs;
    if (group.time_share < threshold::kReported || is_pointless(saving)) continue;
    Finding finding = finding_at_groups(input, {group}, describe(chains.front().attention),
                                        propose(input.workload.graph), saving);
    finding.count = static_cast<std::int64_t>(runs);
    soften_unless_clear(input, finding);
    finding.evidence = evidence();
    findings.push_back(std::move(finding));
  }
}

std::vector<Finding> check_operations(const RuleInput& input) {
  std::vector<Finding> findings;
  judge_operations(input, findings);
  judge_chains(input, findings);
  return findings;
}

}  // namespace attention_unfused_rule

extern const Rule attention_unfused{.id = "attention/unfused",
                                    .level = Level::warning,
                                    .level_in_scripts = Level::advice,
                                    .cause = Cause::fusion,
                                    .typical = Typical::tenth,
                                    .summary = "Attention writes its scores to memory",
                                    .doc = attention_unfused_rule::kDoc,
                                    .in_ops = attention_unfused_rule::check_operations,
                                    .in_traces = unfused_attention_in_traces,
                                    .in_scripts = unfused_attention_in_source,
                                    .replaces_operations = true};

}  // namespace rooftile
