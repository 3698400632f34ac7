// Which edits of findings are made together, and the text that they make.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/result.h"
#include "rooftile/findings/finding.h"

namespace rooftile {

struct EditPlan {
  std::vector<std::size_t> fixed;  // indices of the findings whose edits are made
  std::int64_t unsafe = 0;         // fixes that were left because they are not safe
  std::int64_t overlapping = 0;    // because they meet an earlier one
  std::int64_t frozen = 0;         // because they touch a file that is to stay
  std::map<std::string, std::vector<TextEdit>> by_file;  // in order of the text
};

// Takes the findings in their order, each fix with all its edits or not at all. Edits of two
// findings may not touch, except that both may insert the same whole line, which is made once.
EditPlan plan_edits(const std::vector<Finding>& findings, bool with_unsafe,
                    const std::set<std::string>& frozen_files);

// The text with the edits made, sorted as in a plan. An edit outside of the text, or one that
// overlaps the edit before it, is an error.
Result<std::string> edited_text(std::string_view text, const std::vector<TextEdit>& edits);

}  // namespace rooftile
