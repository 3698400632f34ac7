// What the files that link calls to functions share (derive.h).
#include <algorithm>

#include "rooftile/readers/python/derive.h"

namespace rooftile::source {
namespace {

constexpr int kMaxAncestors = 8;

bool derives_within(const SourceFacts& facts, const ClassDef& def, const ClassDef& base,
                    int depth) {
  if (depth > kMaxAncestors) return false;
  const auto& classes = facts.store().classes_by_name;
  return std::ranges::any_of(def.bases, [&](const Expr* each) {
    const auto own = classes.find(each->full_name());
    if (own == classes.end() || own->second == &def) return false;
    return own->second == &base || derives_within(facts, *own->second, base, depth + 1);
  });
}

}  // namespace

bool derives(const SourceFacts& facts, const ClassDef& def, const ClassDef& base) {
  return derives_within(facts, def, base, 0);
}

}  // namespace rooftile::source
