#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/autocast.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"
#include "rooftile/script/reach/reach.h"

namespace rooftile {
namespace precision_loss_in_half_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A loss or softmax in training whose input was cast to fp16 or bf16, or is the output of a `.half()`
model, outside autocast.

## Why it costs time
It costs accuracy rather than time: exponentials and sums over many classes need the range and the
digits of fp32. The operation is limited by memory, and its share of a step is small.

## How to fix
Cast the logits with `.float()` before the loss; or keep the weights in fp32 and use autocast,
which runs losses in fp32 by itself.

## How the saving is estimated
Nothing is saved: the rule is about a wrong result, which costs the whole run.

## When not to
- The input is cast back to fp32 before.
- Libraries that compute the loss in fp32 inside.

## Evidence
- PyTorch documentation, torch.amp, "CUDA Ops that can autocast to float32".
- Micikevicius et al., "Mixed Precision Training", ICLR 2018.
)md";

using namespace source;

bool is_loss(const Call& call) {
  for (const std::string_view name :
       {"cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "kl_div", "softmax",
        "log_softmax", "binary_cross_entropy", "binary_cross_entropy_with_logits"}) {
    if (call.name.starts_with("torch.nn.functional.") && call.method == name) return true;
    if (call.name.starts_with("torch.") && call.method == name && name.ends_with("softmax")) {
      return true;
    }
  }
  const Type& callee = *call.expr->children().front()->type;
  return callee.is(TypeKind::loss) && callee.made_by != nullptr;
}

// `if args.half: model.half()`: none where only options that are off by default lead to such calls
// in the file.
bool halves_by_default(const SourceFacts& facts, const File& file) {
  bool has_one = false;
  for (const std::string_view method : {"half", "bfloat16"}) {
    for (const Call* call : facts.method_calls(method)) {
      const bool is_it = call->file == &file && call->receiver != nullptr &&
                         call->receiver_type().is(TypeKind::module);
      if (is_it && is_reached_by_default(facts, *call)) return true;
      has_one = has_one || is_it;
    }
  }
  return !has_one;
}

bool gives_half(const SourceFacts& facts, const Expr* expr) {
  const Expr* made = resolved(expr);
  if (made == nullptr || made->call() == nullptr) return false;
  const Call& call = *made->call();
  if (call.method == "half" || call.method == "bfloat16") return call.receiver != nullptr;
  if (call.method == "to" || call.method == "type") {
    return is_dtype(facts.argument(call, "dtype", 0), {"float16", "half", "bfloat16"});
  }
  const Type& callee = *made->children().front()->type;
  return callee.is(TypeKind::module) && (callee.half || callee.bfloat16) &&
         halves_by_default(facts, *call.file);
}

bool is_trained_outside_autocast(const SourceFacts& facts, const Call& call) {
  return any_way(facts, call, [](const Way& way) {
    return way.trains() && !way.gradients_off && way.autocast == nullptr;
  });
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const auto& file : facts.files) {
    if (!mentions(*file, {"half", "bfloat16", "float16"}) || !trains_on_gpu(facts, *file)) continue;
    for (const Call* call : file->calls) {
      if (call->arguments.empty() || !is_loss(*call)) continue;
      const Expr* tensor = call->arguments.front().value;
      if (!gives_half(facts, tensor) || !is_trained_outside_autocast(facts, *call)) continue;
      const bool upcasts = is_dtype(facts.argument(*call, "dtype"), {"float32", "float"});
      if (upcasts) continue;
      Finding finding = finding_at(
          *call,
          fmt::format("{} of {} is computed in 16 bits: sums and exponentials lose all but three "
                      "digits, and fp16 overflows at 65504",
                      call->method, code_text(*file, tensor)),
          {fmt::format("Cast to fp32 first: {}.float()", code_text(*file, tensor)),
           Exactness::changes_numerics});
      finding.evidence = {
          Evidence::published("losses, softmax",
                              "PyTorch torch.amp, CUDA ops that autocast to float32"),
          Evidence::published("reductions in fp32",
                              "Micikevicius et al., Mixed Precision Training, 2018")};
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace precision_loss_in_half_rule

extern const Rule precision_loss_in_half{.id = "precision/loss-in-half",
                                         .level = Level::warning,
                                         .cause = Cause::none,
                                         .summary = "Loss or softmax is computed in 16 bits",
                                         .doc = precision_loss_in_half_rule::kDoc,
                                         .in_scripts = precision_loss_in_half_rule::find};

}  // namespace rooftile
