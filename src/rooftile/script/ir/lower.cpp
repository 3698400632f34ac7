#include "rooftile/script/ir/lower.h"

#include <utility>

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
  return unit;
}

}  // namespace rooftile::script
