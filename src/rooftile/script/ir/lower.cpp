#include "rooftile/script/ir/lower.h"

#include <algorithm>
#include <iterator>

#include "rooftile/script/ir/lower_function.h"

namespace rooftile::script {

// Bodies that are found wait, so that their depth costs no stack.
std::unique_ptr<const Unit> lower(const source::File& file) {
  auto unit = std::make_unique<Unit>();
  std::vector<PendingBody> pending{{.name = file.module}};
  for (std::size_t i = 0; i < pending.size(); ++i) {
    const PendingBody body = pending[i];  // `pending` grows
    const Function* outer = i == 0 ? nullptr : unit->functions[body.outer].get();
    unit->functions.push_back(
        LowerFunction(file, body, outer, static_cast<std::uint32_t>(i), *unit, pending).run());
  }
  // Of a target that is read first, as in `x += 1`, what it is given stands last.
  std::ranges::stable_sort(unit->places, {}, &std::pair<const source::Expr*, ValuePlace>::first);
  return unit;
}

std::optional<ValuePlace> Unit::place(const source::Expr& expr) const {
  const auto behind = std::ranges::upper_bound(places, &expr, {},
                                               &std::pair<const source::Expr*, ValuePlace>::first);
  const bool is_found = behind != places.begin() && std::prev(behind)->first == &expr;
  return is_found ? std::optional(std::prev(behind)->second) : std::nullopt;
}

}  // namespace rooftile::script
