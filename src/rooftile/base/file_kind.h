// Says what a file is that no reader takes.
#pragma once

#include <string_view>

namespace rooftile {

// From the first bytes: "a JPEG image", "an HTML page", "empty", "text", "binary data".
std::string_view describe_content(std::string_view head);

}  // namespace rooftile
