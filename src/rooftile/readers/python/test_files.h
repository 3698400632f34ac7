// Tests among the files of a project.
#pragma once

#include <string_view>

namespace rooftile::source {

// Whether a part of the dotted name that stands for a folder is one of tests: "tests" in
// tests.models.net. The name begins at the root of what was given: a path may lie in anybody's
// folder "test".
bool is_below_tests(std::string_view module);
// test_net.py, conftest.py and what lies below a folder of tests.
bool is_test_by_name(std::string_view path, std::string_view module);

}  // namespace rooftile::source
