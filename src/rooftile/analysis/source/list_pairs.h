// Layers that stand in two lists of a module and run in pairs.
#pragma once

#include <vector>

#include "rooftile/analysis/source/layer_pairs.h"

namespace rooftile::source {

// `bn(conv(x))` where both are elements of ModuleLists: `self.bns[i](self.convs[i](x))`,
// `for conv, bn in zip(self.convs, self.bns): x = bn(conv(x))`. Adds a pair for each call that
// makes an element of the first list; all elements must be layers that are written there.
void add_pairs_of_lists(const ClassDef& def, std::vector<LayerPair>& pairs);

}  // namespace rooftile::source
