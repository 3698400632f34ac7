// `make = functools.partial(DataLoader, num_workers=4)`, then `make(dataset)`.
#include <algorithm>

#include "rooftile/readers/python/derive.h"

namespace rooftile::source {
namespace {

void bind(Call& call, const Call& partial, Arena& arena) {
  std::vector<Argument> all;
  std::uint32_t bound = 0;
  for (const Argument& given : partial.arguments.subspan(1)) {
    if (!given.name.empty() || given.unpacked) continue;
    Argument& argument = all.emplace_back(given);
    argument.position = bound++;
    argument.followed = true;
  }
  for (const Argument& own : call.arguments) {
    Argument& argument = all.emplace_back(own);
    if (own.name.empty()) argument.position += bound;
  }
  for (const Argument& given : partial.arguments.subspan(1)) {
    const bool is_given_again = std::ranges::any_of(
        call.arguments, [&](const Argument& own) { return own.name == given.name; });
    if (given.name.empty() || is_given_again) continue;
    all.emplace_back(given).followed = true;
  }
  call.arguments = arena.copy(std::span<const Argument>(all));
  call.unknown_arguments = call.unknown_arguments || partial.unknown_arguments;
}

}  // namespace

const Call* partial_behind(const Call& call) {
  const Expr& callee = *call.expr->children()[0];
  const bool can_be_made = callee.type->is(TypeKind::function) || callee.type->is(TypeKind::class_);
  const Call* made = can_be_made ? callee.type->made_by : nullptr;
  const Statement* binding = callee.kind == ExprKind::name ? callee.binding() : nullptr;
  if (made == nullptr && binding != nullptr && binding->kind == StatementKind::assignment &&
      binding->value != nullptr) {
    made = binding->value->call();
  }
  return made != nullptr && made->name == "functools.partial" ? made : nullptr;
}

void add_bound_arguments(SourceFacts& facts) {
  for (const auto& file : facts.files) {
    for (const Call* call : file->calls) {
      const Call* partial = partial_behind(*call);
      if (partial == nullptr || partial == call || partial->arguments.empty()) continue;
      bind(const_cast<Call&>(*call), *partial, facts.store().arena);
    }
  }
}

}  // namespace rooftile::source
