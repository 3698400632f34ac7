// Sizes that are worked out from names, attributes, parameters and lists of sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// The largest size an expression may stand for: its value, else what products, sums and quotients
// of sizes give, what the callers pass for parameters, the attribute was set to, a loop's list, or
// the numbers of a list. With a program only callers in its files count. Empty when nothing is
// seen.
std::optional<std::int64_t> largest_size(const SourceFacts& facts, const Expr* expr,
                                         const Program* program = nullptr);

struct SizeParameter {
  std::string_view name;
  int position = 0;
};

using LayerSizes = std::pair<std::optional<std::int64_t>, std::optional<std::int64_t>>;

// Two sizes of a layer. `nn.Conv2d(*args, **kwargs)` in a function of the given files has those of
// each call of that function, at most 64; other layers have one pair.
std::vector<LayerSizes> layer_sizes(const SourceFacts& facts, const Program& program,
                                    const Call& layer, SizeParameter in, SizeParameter out);

}  // namespace rooftile::source
