// The layers that a Sequential or a list is written with, for layer_pairs.h.
#pragma once

#include <vector>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

struct Member {
  const Expr* expr = nullptr;
  const Statement* statement = nullptr;
};

// ("conv1", nn.Conv2d(…)) of an OrderedDict stands for its second item.
const Expr* member_of(const Expr* expr);
// A list, tuple or dictionary as it is written.
bool is_list(const Expr& expr);
void add_items(const Expr& list, const Statement* statement, std::vector<Member>& members);
// Of nn.Sequential(a, *[b, c], OrderedDict(d=e)): a, b, c and e.
std::vector<Member> arguments_of(const Call& call);

}  // namespace rooftile::source
