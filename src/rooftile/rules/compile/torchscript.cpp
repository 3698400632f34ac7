#include <fmt/format.h>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace torchscript {

constexpr std::string_view kDoc = R"md(
## What it finds
`torch.jit.script` or `torch.jit.trace` of a model that the program trains on a GPU. Information,
hidden unless asked for.

## Why it costs time
TorchScript fuses only pointwise chains, is slow in the first steps, and is in maintenance mode.
`torch.compile` fuses more, backward passes included.

## How to fix
Use `torch.compile` in its place.

## How the saving is estimated
Not estimated.

## When not to
- Export for deployment: code that saves the scripted model is not reported.
- PyTorch before 2.0.

## Evidence
- PyTorch documentation, "TorchScript": not recommended for new code.
)md";

using namespace source;

bool exports_model(const Call& call) {
  const std::string where =
      lower(call.file->path) + " " + lower(call.function != nullptr ? call.function->name : "");
  for (const std::string_view word : {"export", "onnx", "deploy", "save", "convert", "infer"}) {
    if (where.find(word) != std::string::npos) return true;
  }
  const Statement& statement = *call.statement;
  for (const Statement* next : after(statement)) {
    for (const Call* inner : calls_inside(*next)) {
      const bool saves = inner->method == "save" || inner->name == "torch.jit.save";
      const bool of_it = inner->receiver != nullptr && statement.target != nullptr &&
                         last_name(inner->receiver) == last_name(statement.target);
      if (saves && (of_it || inner->name == "torch.jit.save")) return true;
    }
  }
  return false;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* call : training_calls(facts, {"torch.jit.script", "torch.jit.trace"})) {
    const Argument* model = call->arguments.empty() ? nullptr : &call->arguments.front();
    const bool is_module = model != nullptr && model->value->type->is(TypeKind::module);
    if (!is_module || exports_model(*call)) continue;
    Finding finding =
        finding_at(*call, fmt::format("the model is trained as TorchScript ({})", call->name),
                   {"Use torch.compile, which fuses more and also the backward pass",
                    Exactness::exact_arithmetic});
    finding.evidence = {
        Evidence::published("in maintenance mode", "PyTorch documentation, TorchScript")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace torchscript

extern const Rule compile_torchscript{.id = "compile/torchscript",
                                      .level = Level::info,
                                      .cause = Cause::none,
                                      .summary = "Model is trained as TorchScript",
                                      .doc = torchscript::kDoc,
                                      .in_scripts = torchscript::find};

}  // namespace rooftile
