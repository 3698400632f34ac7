#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/compiled_code.h"
#include "rooftile/analysis/source/pointwise_function.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace unfused_pointwise_in_source {

using namespace source;

// Fewer kernels are not worth a change: x * sigmoid(x) has two.
constexpr int kMinOperations = 4;

// `@torch.jit.script`, `@torch.compile`, a kernel of Triton or of an extension.
bool is_compiled_itself(const FunctionDef& function) {
  return std::ranges::any_of(function.decorators, [&](const Expr* decorator) {
    return contains_any(function.file->slice(decorator->range),
                        {"script", "compile", "jit", "fuse", "trace"});
  });
}

// The program compiles its model, or TorchScript does.
bool is_compiled(const Program& program) {
  return compiles(program) || std::ranges::any_of(program.files, [](const File* file) {
           return has_any_text(*file, {"jit.script", "jit.trace"});
         });
}

bool runs_eagerly(const SourceFacts& facts, const File& file) {
  const auto programs = training_programs_of(facts, file);
  return std::ranges::any_of(programs,
                             [](const Program* program) { return !is_compiled(*program); });
}

// A module's forward, or a function that only such call.
bool is_part_of_forward(const FunctionDef& function) {
  const ClassDef* def = function.class_def;
  if (def == nullptr) return function.outer == nullptr && runs_in_forward(&function);
  const bool is_layer = def->is_module && !def->is_autograd_function && function.name == "forward";
  // A loss computes on few values.
  return is_layer && def->name.find("Loss") == std::string_view::npos;
}

std::string_view fix_text(KnownActivation known) {
  switch (known) {
    case KnownActivation::gelu:
      return "Use torch.nn.functional.gelu(x), one kernel";
    case KnownActivation::gelu_tanh:
      return "Use torch.nn.functional.gelu(x, approximate=\"tanh\"), one kernel";
    case KnownActivation::hardswish:
      return "Use torch.nn.functional.hardswish(x), one kernel";
    case KnownActivation::mish:
      return "Use torch.nn.functional.mish(x), one kernel";
    case KnownActivation::none:
      break;
  }
  return "Compile it into one kernel (torch.compile), or the whole model";
}

Finding finding_for(const FunctionDef& function, const PointwiseFunction& chain) {
  const std::string name = function.class_def != nullptr ? std::string(function.class_def->name)
                                                         : std::string(function.name);
  Finding finding = finding_at(
      *chain.result,
      fmt::format("{} runs {} pointwise operations as {} kernels, and each reads and writes the "
                  "whole tensor",
                  name, chain.operations, chain.operations),
      {std::string(fix_text(chain.known)), Exactness::exact_arithmetic});
  finding.evidence = {
      Evidence::published("its example is a GELU of five operations",
                          "PyTorch Performance Tuning Guide, Fuse operations"),
      Evidence::to_check("settle it with a trace: rooftile check train.py trace.json.gz")};
  return finding;
}

}  // namespace unfused_pointwise_in_source

std::vector<Finding> unfused_pointwise_functions(const source::SourceFacts& facts) {
  using namespace unfused_pointwise_in_source;
  std::vector<Finding> findings;
  for (const auto& file : facts.files) {
    if (!trains_on_gpu(facts, *file)) continue;
    for (const FunctionDef* function : file->functions) {
      const auto chain = pointwise_function(*function);
      if (!chain || chain->operations < kMinOperations || is_compiled_itself(*function)) continue;
      if (!is_part_of_forward(*function) || !runs_eagerly(facts, *file)) continue;
      findings.push_back(finding_for(*function, *chain));
    }
  }
  return findings;
}

}  // namespace rooftile
