// What torch.compile covers in training scripts, and where it has to fall back to Python.
#pragma once

#include <string>
#include <vector>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// A model or function that the script compiles.
struct Compiled {
  const Call* call = nullptr;  // torch.compile(…) or model.compile(); null: a decorator
  const FunctionDef* function = nullptr;  // what is compiled: the function, or the model's forward
};

struct GraphBreak {
  const Statement* statement = nullptr;
  std::string text;  // "loss.item()", "print(...)"
};

// torch.compile as a call and as a decorator, in programs that train, reached by default.
std::vector<Compiled> compiled_code(const SourceFacts& facts);
// The function and the own functions and layers that it calls, six levels deep, without those that
// are kept out by torch.compiler.disable.
std::vector<const FunctionDef*> traced_functions(const FunctionDef& root);
// In the function's own statements, in text order; none under a test of is_compiling.
std::vector<GraphBreak> graph_breaks(const SourceFacts& facts, const FunctionDef& function);

// How much work a compiled model is: "just works", "little work" (up to 3), "slog".
std::string_view work_class(std::size_t breaks);

// Calls of torch.compile, and of compile() on a module.
std::vector<const Call*> compile_calls(const SourceFacts& facts);
// Whether the program compiles, or offers to.
bool compiles(const Program& program);

}  // namespace rooftile::source
