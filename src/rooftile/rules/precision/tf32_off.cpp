#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {

namespace precision_tf32_off_in_trace {
std::vector<Finding> check(const RuleInput& input);
}

namespace precision_tf32_off_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
- In a model: fp32 GEMMs left over in a network that otherwise runs in 16 bits, on a GPU with TF32
  (Ampere and later). A network that is fp32 throughout gets advice on mixed precision instead.
- In a trace: the same, where the names of the kernels say that they ran on CUDA cores.
- In a script that trains on a GPU: `allow_tf32 = False`, or
  `torch.set_float32_matmul_precision("highest")`.

## Why it costs time
PyTorch multiplies fp32 matrices on CUDA cores unless TF32 is allowed: 19.5 against 156 TFLOPS on an
A100. A few such GEMMs can take as long as all the 16-bit ones.

## How to fix
`torch.set_float32_matmul_precision("high")`, or cast the layer's input if its precision was not
meant: an in-place operation, a fp32 constant or a layer outside the autocast region.

## How the saving is estimated
In a model, the time model predicts the GEMMs in TF32. In a trace, where the operator's shape is recorded: the
measured time less what the time model predicts in TF32. Else up to three quarters of it, half of that likely.
What other kernels or the host hide is taken off. From a script alone nothing is estimated.

## When not to
- Somebody may have kept the layer in fp32 on purpose: routers, norms of logits, scientific code.
- Convolutions and recurrent layers are not reported: cuDNN uses TF32 by default.
- GPUs before Ampere have no TF32; memory-bound GEMMs gain little.
- A context manager that sets it for its block and then back, and a mode whose other branch allows it.
- Scripts with float64, second-order derivatives or reinforcement learning, and switches that are off
  by default, are not reported.

## Evidence
- PyTorch CUDA semantics note, TF32: off by default for GEMMs since 1.12; 10240 x 10240 on
  an A100 takes 0.11 s in fp32 and 0.016 s in TF32, with relative errors about a hundred times
  larger.
)md";

bool is_left_over(const Op& op) {
  return std::holds_alternative<Gemm>(op.body) && op.dtypes.input == Dtype::fp32;
}

bool mixes_precisions(const Workload& workload) {
  return std::any_of(workload.ops.begin(), workload.ops.end(), [](const Op& op) {
    return is_matrix_op(op) && is_16_bit_float(op.dtypes.input);
  });
}

Op in_tf32(const Op& op) {
  Op changed = op;
  changed.dtypes = Dtypes(Dtype::tf32);
  return changed;
}

Finding finding_in_script(Finding finding) {
  finding.evidence = {
      Evidence::published("fp32 0.11 s, TF32 0.016 s on an A100", "PyTorch CUDA semantics, TF32")};
  return finding;
}

// Whether the program has a reason to compute in full fp32.
bool wants_fp32(const source::SourceFacts& facts, const source::File& file) {
  const auto programs = source::training_programs_of(facts, file);
  return programs.empty() || source::is_numerically_strict(facts, *programs.front()) ||
         source::is_reinforcement_learning(*programs.front());
}

// `if mode == "fp32": x.allow_tf32 = False else: x.allow_tf32 = True`: a mode for who wants it.
bool is_one_of_both(const source::SourceFacts& facts, const source::Statement& off) {
  const source::Statement* choice = off.parent;
  if (choice == nullptr || choice->kind != source::StatementKind::if_) return false;
  const bool is_in_body = off.block.data() == choice->body.data();
  bool is_on = false;
  source::for_statements(is_in_body ? choice->otherwise : choice->body,
                         [&](const source::Statement& other) {
                           const bool sets = other.target != nullptr && other.value != nullptr &&
                                             other.target->full_name() == off.target->full_name();
                           is_on = is_on || (sets && facts.value(other.value).is_true());
                         });
  return is_on;
}

void check_assignments(const source::SourceFacts& facts, std::vector<Finding>& findings) {
  for (const std::string_view name :
       {"torch.backends.cuda.matmul.allow_tf32", "torch.backends.cudnn.allow_tf32"}) {
    for (const source::Statement* statement : facts.assignments(name)) {
      if (!facts.value(statement->value).is_false() || wants_fp32(facts, *statement->file))
        continue;
      if (!source::is_reached_by_default(facts, *statement)) continue;
      if (source::is_for_a_while(*statement) || is_one_of_both(facts, *statement)) continue;
      Fix fix{"Set it to True, or remove the line where fp32 digits are not needed",
              Exactness::changes_numerics};
      if (statement->value->kind == source::ExprKind::boolean) {
        add_edit(replace(*statement->file, statement->value->range, "True"), fix);
      }
      const bool is_cudnn = name.find("cudnn") != std::string_view::npos;
      findings.push_back(finding_in_script(
          finding_at(*statement,
                     fmt::format("TF32 is disabled for {}: fp32 {} run on CUDA cores",
                                 is_cudnn ? "cuDNN" : "GEMMs", is_cudnn ? "convolutions" : "GEMMs"),
                     std::move(fix))));
    }
  }
}

void check_calls(const source::SourceFacts& facts, std::vector<Finding>& findings) {
  for (const source::Call* call :
       source::training_calls(facts, {"torch.set_float32_matmul_precision"})) {
    const source::Value precision = facts.argument(*call, "precision", 0);
    if (!precision.is("highest") || wants_fp32(facts, *call->file)) continue;
    Fix fix{"Set it to \"high\", which allows TF32", Exactness::changes_numerics};
    if (precision.found == precision.expr && precision.expr != nullptr) {
      add_edit(replace(*call->file, precision.expr->range, "\"high\""), fix);
    }
    findings.push_back(finding_in_script(finding_at(
        *call, "TF32 is disabled for GEMMs: fp32 GEMMs run on CUDA cores", std::move(fix))));
  }
}

std::vector<Finding> check_operations(const RuleInput& input) {
  // A trace shows which kernels ran.
  if (!input.workload.traces.empty()) return {};
  if (!input.device().has_tensor_cores(Dtype::tf32) || !mixes_precisions(input.workload)) return {};
  std::vector<Finding> findings;
  for (const LayerGroup& group : group_equal_layers(input.workload, input.analysis, is_left_over)) {
    const auto saving = saving_if_all(input, group, in_tf32);
    if (group.time_share < threshold::kReported || !is_math_bound(input, group)) continue;
    if (is_pointless(saving)) continue;
    Finding finding = finding_at_groups(
        input, {group},
        "an fp32 GEMM in a network that otherwise runs in 16 bits: without TF32 it runs on CUDA "
        "cores",
        {"Allow TF32 (torch.set_float32_matmul_precision(\"high\")), or cast if fp32 was not meant",
         Exactness::changes_numerics},
        saving);
    finding.evidence = {Evidence::published("fp32 0.11 s, TF32 0.016 s on an A100",
                                            "PyTorch CUDA semantics, TF32")};
    note_changes(input, group, in_tf32, finding);
    findings.push_back(std::move(finding));
  }
  return findings;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  check_assignments(facts, findings);
  check_calls(facts, findings);
  return findings;
}

}  // namespace precision_tf32_off_rule

extern const Rule precision_tf32_off{.id = "precision/tf32-off",
                                     .former_id = "precision/fp32-on-cuda-cores",
                                     .level = Level::advice,
                                     .level_in_traces = Level::warning,
                                     .cause = Cause::precision,
                                     .typical = Typical::half,
                                     .summary = "fp32 GEMMs run without TF32",
                                     .doc = precision_tf32_off_rule::kDoc,
                                     .in_ops = precision_tf32_off_rule::check_operations,
                                     .in_traces = precision_tf32_off_in_trace::check,
                                     .in_scripts = precision_tf32_off_rule::find,
                                     .costs_elsewhere = true};

}  // namespace rooftile
