// Whether a program's numbers must not change for speed.
#include <algorithm>
#include <optional>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"
#include "rooftile/script/reach/ways_up.h"

namespace rooftile::source {
namespace {

// `args.method in ["maml", "reptile"]`: whether it holds for the default; empty when not known.
std::optional<bool> membership(const SourceFacts& facts, const Expr& condition) {
  const bool asks = condition.kind == ExprKind::comparison && condition.children().size() == 2 &&
                    (condition.word() == "in" || condition.word() == "not in");
  if (!asks) return std::nullopt;
  const Value value = facts.value(condition.children()[0]);
  const Expr& list = *condition.children()[1];
  const bool is_list = list.kind == ExprKind::list || list.kind == ExprKind::tuple;
  if (value.kind != ValueKind::text || !is_list) return std::nullopt;
  bool is_among = false;
  for (const Expr* item : list.children()) {
    if (item->kind != ExprKind::text) return std::nullopt;
    is_among = is_among || item->word() == value.text;
  }
  return is_among == (condition.word() == "in");
}

// Whether a run with all options at their defaults goes there, lists of methods looked into.
bool is_default_choice(const SourceFacts& facts, const Call& call) {
  return is_reached_by_default(facts, call) && leads_there(facts, call, [&](const Guard& guard) {
           return guard.expr != nullptr && membership(facts, *guard.expr) == guard.negated;
         });
}

// A method of a class that a run with all options at their defaults never makes.
bool belongs_to_other_choice(const SourceFacts& facts, const Program& program, const Call& call) {
  const ClassDef* def = call.function == nullptr ? nullptr : call.function->class_def;
  const FunctionDef* init = def == nullptr ? nullptr : def->method("__init__");
  if (init == nullptr) return false;
  bool is_made = false, is_chosen = false;
  for (const Call* maker : init->callers) {
    if (!program.has(*maker->file) || maker->receiver != nullptr) continue;
    is_made = true;
    is_chosen = is_chosen || is_default_choice(facts, *maker);
  }
  return is_made && !is_chosen;
}

// Derivatives of derivatives, but for those of another method than the default one.
bool differentiates_twice(const SourceFacts& facts, const Program& program) {
  if (!mentions(program, {"create_graph=True"})) return false;
  bool is_seen = false;
  for (const std::string_view method : {"grad", "backward"}) {
    for (const Call* call : facts.method_calls(method)) {
      if (!program.has(*call->file) || !facts.argument(*call, "create_graph").is_true()) continue;
      if (!belongs_to_other_choice(facts, program, *call)) return true;
      is_seen = true;
    }
  }
  return !is_seen;
}

// `x.to("cpu").type(torch.DoubleTensor)`: statistics on the host.
bool is_on_host(std::string_view text, std::size_t at) {
  const std::size_t line = text.rfind('\n', at) + 1;
  return contains_any(text.substr(line, at - line), {"cpu"});
}

// DoubleTensor, but for Python's numbers: those of a collate function, `DoubleTensor([total])`.
bool makes_doubles(const Program& program) {
  constexpr std::string_view kWord = "DoubleTensor";
  return std::ranges::any_of(program.files, [&](const File* file) {
    if (!mentions(*file, {kWord})) return false;
    const std::string text = code_of(*file);
    for (std::size_t at = text.find(kWord); at != std::string::npos;
         at = text.find(kWord, at + 1)) {
      const bool is_of_numbers = text.compare(at + kWord.size(), 2, "([") == 0;
      if (is_of_numbers || is_on_host(text, at)) continue;
      const bool is_collated =
          std::ranges::any_of(file->functions, [&](const FunctionDef* function) {
            const ByteRange range = function->statement->range;
            return contains(function->name, "collate") && at >= range.begin && at < range.end;
          });
      if (!is_collated) return true;
    }
    return false;
  });
}

// Not in the trials of a module file: under its main guard, or in a function of tests.
bool checks_second_gradients(const SourceFacts& facts, const Program& program) {
  if (!mentions(program, {"gradgradcheck"})) return false;
  for (const Call* call : facts.method_calls("gradgradcheck")) {
    const bool is_trial = call->function != nullptr && call->function->name.starts_with("test");
    if (program.has(*call->file) && !is_trial && runs_in(facts, program, *call->statement)) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool is_numerically_strict(const SourceFacts& facts, const Program& program) {
  if (checks_second_gradients(facts, program) || makes_doubles(program)) return true;
  if (differentiates_twice(facts, program)) return true;
  for (const Call* call : calls_in(facts, program, {"torch.set_default_dtype"})) {
    if (is_dtype(facts.argument(*call, "d", 0), {"float64", "double"})) return true;
  }
  for (const Call* call : facts.method_calls("to")) {  // model.to(device, dtype=torch.double)
    const bool is_module = call->receiver != nullptr && call->receiver_type().is(TypeKind::module);
    const bool is_ours =
        is_module && program.has(*call->file) && call->argument("dtype") != nullptr;
    if (is_ours && is_dtype(facts.argument(*call, "dtype"), {"float64", "double"})) return true;
  }
  for (const Call* call : facts.method_calls("double")) {
    const bool is_module = call->receiver != nullptr && call->receiver_type().is(TypeKind::module);
    if (is_module && program.has(*call->file)) return true;
  }
  return false;
}

}  // namespace rooftile::source
