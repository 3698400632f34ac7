// What the reader of scripts makes of the first script of each spec: calls with their types and the
// ways by which they are reached. tests/golden/facts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/text.h"
#include "rooftile/readers/python/read_python.h"
#include "rooftile/workload/source_facts.h"
#include "tests/support/golden.h"

namespace rooftile {
namespace {

namespace fs = std::filesystem;
using namespace source;

const fs::path kTests = fs::path(ROOFTILE_ROOT) / "tests";

constexpr std::array<std::string_view, 23> kKinds = {
    "?",      "module", "loss",      "optimizer", "scheduler", "loader",   "dataset",     "sampler",
    "scaler", "tensor", "gradients", "device",    "dtype",     "profiler", "accelerator", "trainer",
    "array",  "number", "text",      "container", "function",  "class",    "host object"};
static_assert(kKinds.size() == static_cast<std::size_t>(TypeKind::host_object) + 1);
constexpr std::array<std::string_view, 4> kRoles = {"training", "evaluation", "epoch", ""};
constexpr std::array<std::string_view, 18> kGuards = {
    "condition", "option",  "every",     "once",    "rank 0",         "debug",
    "main",      "never",   "training",  "no_grad", "inference_mode", "enable_grad",
    "autocast",  "no_sync", "exception", "with",    "decorator",      ""};
static_assert(kGuards.size() == static_cast<std::size_t>(GuardKind::decorator) + 2);

std::string type_text(const Type& type) {
  std::string text(kKinds.at(static_cast<std::size_t>(type.kind)));
  if (type.residence != Residence::unknown) text += type.on_gpu() ? " gpu" : " host";
  const std::pair<bool, std::string_view> flags[] = {{type.data_parallel, "data_parallel"},
                                                     {type.ddp, "ddp"},
                                                     {type.fsdp, "fsdp"},
                                                     {type.compiled, "compiled"},
                                                     {type.frozen, "frozen"},
                                                     {type.half, "half"},
                                                     {type.bfloat16, "bfloat16"},
                                                     {type.channels_last, "channels_last"},
                                                     {type.requires_grad, "grad"},
                                                     {type.guessed, "guessed"}};
  for (const auto& [is_set, word] : flags) {
    if (is_set) text += fmt::format(" {}", word);
  }
  if (type.element != nullptr) text += " of " + type_text(*type.element);
  return text;
}

std::string way_text(const Context& context) {
  std::string text(kRoles.at(static_cast<std::size_t>(context.role)));
  for (const Guard& guard : context.guards) {
    text += fmt::format(" {}{}{}", guard.negated ? "not " : "",
                        kGuards.at(static_cast<std::size_t>(guard.kind)), guard.in_loop ? "*" : "");
  }
  for (const Call* call : context.calls) text += fmt::format(" via {}", call->method);
  if (context.inner_loops > 0) text += fmt::format(" loops {}", context.inner_loops);
  if (context.each_step()) text += " each step";
  return std::string(trim(text));
}

std::string facts_text(const std::string& script) {
  const Result<SourceFacts> facts = read_python_text("train.py", script);
  if (!facts) return to_string(facts.error()) + "\n";
  std::string text;
  for (const auto& file : facts->files) {
    for (const Call* call : file->calls) {
      const auto begin = file->text.begin();
      const auto line = 1 + std::count(begin, begin + call->expr->range.begin, '\n');
      text += fmt::format("{} {}: {}", line, call->name.empty() ? "?" : call->name,
                          type_text(*call->expr->type));
      if (call->receiver != nullptr) text += " <- " + type_text(call->receiver_type());
      for (const Context& context : facts->contexts(*call)) text += " | " + way_text(context);
      text += "\n";
    }
  }
  return text;
}

// The first fenced script of a spec; empty where it has none.
std::string first_script(const std::string& spec) {
  const std::string fence = "```python\n";
  const std::size_t at = spec.find(fence);
  if (at == std::string::npos) return {};
  const std::size_t begin = at + fence.size();
  return spec.substr(begin, spec.find("\n```", begin) + 1 - begin);
}

TEST(ScriptFacts, OfTheFirstScriptOfEachSpec) {
  int scripts = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kTests / "specs")) {
    if (entry.path().extension() != ".md") continue;
    const std::string script = first_script(file_text(entry.path()));
    if (script.empty()) continue;
    ++scripts;
    const fs::path name = fs::relative(entry.path(), kTests / "specs").replace_extension(".txt");
    expect_golden(kTests / "golden/facts" / name, facts_text(script));
  }
  EXPECT_GT(scripts, 50);
}

}  // namespace
}  // namespace rooftile
