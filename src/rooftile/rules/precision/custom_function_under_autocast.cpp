#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/autocast.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace precision_custom_function_under_autocast_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A `torch.autograd.Function` with GEMMs in its forward, without `custom_fwd` and
`custom_bwd`, in a program that uses autocast on the GPU.

## Why it costs time
Autocast acts inside the forward but not in the backward, which then meets tensors of two dtypes:
it raises, or it runs in fp32 on CUDA cores.

## How to fix
`@torch.amp.custom_fwd(device_type="cuda")` on forward and
`@torch.amp.custom_bwd(device_type="cuda")` on backward; with `cast_inputs=torch.float32` where the
kernel needs fp32.

## How the saving is estimated
Not from the source alone. With a trace (`rooftile check train.py trace.json.gz`) the step time
says what there is to gain.

## When not to
- The function casts its inputs, or turns autocast off inside.
- It has no GEMMs: element-wise functions run in the dtype they get.

## Evidence
- PyTorch notes, "Automatic Mixed Precision examples", section "Autocast and Custom Autograd
  Functions".
)md";

using namespace source;

bool is_matrix_product(const Expr& part) {
  if (part.kind == ExprKind::binary && part.word() == "@") return true;
  if (part.call() == nullptr) return false;
  for (const std::string_view name :
       {"mm", "matmul", "bmm", "addmm", "baddbmm", "einsum", "linear", "conv1d", "conv2d", "conv3d",
        "conv_transpose2d", "conv_transpose3d"}) {
    if (part.call()->method == name) return true;
  }
  return false;
}

bool chooses_dtype(const Expr& part) {
  if (part.call() == nullptr) return false;
  const std::string_view method = part.call()->method;
  return method == "float" || method == "half" || method == "to" || method == "type" ||
         method == "type_as" || method == "bfloat16" || method == "autocast" ||
         method == "is_autocast_enabled";
}

bool has_inside(const FunctionDef& function, bool (*test)(const Expr&)) {
  return any_statement(function.body,
                       [&](const Statement& statement) { return any_part(statement, test); });
}

bool is_prepared(const ClassDef& def) {
  for (const FunctionDef* method : def.methods) {
    for (const Expr* decorator : method->decorators) {
      if (uses_name(decorator, {"custom_fwd", "custom_bwd"})) return true;
    }
  }
  return false;
}

bool is_applied(const SourceFacts& facts, const ClassDef& def) {
  const auto& calls = facts.method_calls("apply");
  const bool is_called = std::any_of(calls.begin(), calls.end(), [&](const Call* call) {
    return last_name(call->receiver) == def.name;
  });
  // Or kept under another name: relu = MyReLU.apply
  return is_called || has_text(*def.file, std::string(def.name) + ".apply");
}

const Call* gpu_autocast(const SourceFacts& facts, const File& file) {
  for (const Program* program : training_programs_of(facts, file)) {
    for (const Autocast& autocast : autocasts_in(facts, *program)) {
      if (autocast.on_gpu && !autocast.is_off && autocast.call != nullptr) return autocast.call;
    }
  }
  return nullptr;
}

std::uint32_t definition_of(const FunctionDef& function) {
  const std::uint32_t begin = function.statement->range.begin;
  const std::size_t at = function.file->text.find("def ", begin);
  return at == std::string::npos ? begin : static_cast<std::uint32_t>(at);
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const auto& file : facts.files) {
    for (const ClassDef* def : file->classes) {
      const FunctionDef* forward = def->is_autograd_function ? def->method("forward") : nullptr;
      if (forward == nullptr || is_prepared(*def) || !is_applied(facts, *def)) continue;
      if (!has_inside(*forward, is_matrix_product) || has_inside(*forward, chooses_dtype)) continue;
      const Call* autocast = gpu_autocast(facts, *file);
      if (autocast == nullptr) continue;
      Finding finding = finding_at(
          *file, definition_of(*forward), def->name,
          fmt::format("{} multiplies matrices, but does not say in which dtype: under autocast its "
                      "forward is cast and its backward is not",
                      def->name),
          {"Decorate forward with torch.amp.custom_fwd(device_type=\"cuda\") and backward with "
           "torch.amp.custom_bwd(device_type=\"cuda\")",
           Exactness::changes_numerics});
      finding.evidence = {
          Evidence::found(fmt::format("autocast at {}", place_text(*autocast, *file))),
          Evidence::published("PyTorch notes, Automatic Mixed Precision examples, Autocast and "
                              "Custom Autograd Functions")};
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace precision_custom_function_under_autocast_rule

extern const Rule precision_custom_function_under_autocast{
    .id = "precision/custom-function-under-autocast",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "Custom autograd function is not prepared for autocast",
    .doc = precision_custom_function_under_autocast_rule::kDoc,
    .in_scripts = precision_custom_function_under_autocast_rule::find};

}  // namespace rooftile
