// The difference of two texts as patch(1) and `git apply` take it.
#pragma once

#include <string>
#include <string_view>

namespace rooftile {

// Empty where the texts are equal. Three lines of context; line ends stay as they are, and a
// missing one at the end is marked. The names are a/ and b/ with the path, which is relative where
// it lies below the current folder and loses its leading slash elsewhere.
std::string unified_diff(const std::string& path, std::string_view before, std::string_view after);

}  // namespace rooftile
