// What a search that follows names to their values, and values to their parts, has found at each
// variable. Without it the search multiplies: values are made from several others each.
#pragma once

#include <map>
#include <string_view>
#include <utility>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Of one search.
class VariableMemo {
 public:
  // What search() finds behind the variable of that name in `scope` (a function, file or the
  // statement that binds it), `depth` steps from the start. The answer of an earlier search stands
  // if that was no further from the start; null where a variable is made from itself.
  template <class Search>
  const Call* at(const void* scope, std::string_view name, int depth, const Search& search) {
    auto [entry, is_new] = answers_.try_emplace({scope, name}, Answer{depth, nullptr});
    Answer& answer = entry->second;  // stays where it is while others are added
    if (!is_new && answer.depth <= depth) return answer.found;
    answer = {depth, nullptr};
    answer.found = search();
    return answer.found;
  }

 private:
  struct Answer {
    int depth;
    const Call* found;
  };
  std::map<std::pair<const void*, std::string_view>, Answer> answers_;
};

}  // namespace rooftile::source
