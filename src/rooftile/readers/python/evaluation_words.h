// Names that speak of evaluation.
#pragma once

#include <string_view>

namespace rooftile::source {

// test_net, run_evaluation; `name` in lower case.
bool is_evaluation_name(std::string_view name);

}  // namespace rooftile::source
