// Whether a program's numbers must not change for speed.
#include <algorithm>
#include <optional>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"
#include "rooftile/script/reach/unused.h"
#include "rooftile/script/reach/ways_up.h"

namespace rooftile::source {
namespace {

// `autograd.grad(…, create_graph=True)`, but for what is left over from where the file came from.
bool keeps_graph(const SourceFacts& facts, const File& file) {
  if (!has_text(file, "create_graph=True")) return false;
  return std::ranges::any_of(file.calls, [&](const Call* call) {
    const Argument* keeps = call->argument("create_graph");
    return keeps != nullptr && keeps->value->word() == "True" &&
           !stands_in_unused(facts, *call->statement);
  });
}

}  // namespace

bool is_numerically_strict(const SourceFacts& facts, const Program& program) {
  if (mentions(program, {"gradgradcheck", "torch.cuda.DoubleTensor"})) return true;
  if (std::ranges::any_of(program.files,
                          [&](const File* file) { return keeps_graph(facts, *file); })) {
    return true;
  }
  for (const Call* call : calls_in(facts, program, {"torch.set_default_dtype"})) {
    if (is_dtype(facts.argument(*call, "d", 0), {"float64", "double"})) return true;
  }
  for (const Call* call : facts.method_calls("to")) {  // model.to(device, dtype=torch.double)
    const bool is_module = call->receiver != nullptr && call->receiver_type().is(TypeKind::module);
    const bool is_ours = is_module && program.has(*call->file);
    if (is_ours && is_dtype(facts.argument(*call, "dtype"), {"float64", "double"})) return true;
  }
  for (const Call* call : facts.method_calls("double")) {
    const bool is_module = call->receiver != nullptr && call->receiver_type().is(TypeKind::module);
    if (is_module && program.has(*call->file)) return true;
  }
  return false;
}

}  // namespace rooftile::source
