// What makes a finding the same one in the next run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rooftile/findings/finding.h"

namespace rooftile {

// Fills in the fingerprints of all findings of one check. In scripts they cover the rule, the file
// and the text of the line, elsewhere the rule, the file, the module and the node; findings that
// are equal in these are numbered. Neither other lines nor batch sizes change them.
void add_fingerprints(std::vector<Finding>& findings);

// The fingerprint that the finding had when its rule was called otherwise.
std::string fingerprint_as(const Finding& finding, std::string_view rule);

}  // namespace rooftile
