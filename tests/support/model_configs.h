// A config of each kind of model that the reader of configs knows.
#pragma once

#include <string>
#include <string_view>

namespace rooftile {

// Members after the type, with a comma in front.
std::string sizes_of(std::string_view type);

}  // namespace rooftile
