// A config of each kind of model that the reader of configs knows.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace rooftile {

// Members after the type, with a comma in front.
std::string sizes_of(std::string_view type);

// A model of that type with other members than most have.
struct ConfigForm {
  std::string_view type, members;
};

std::span<const ConfigForm> config_forms();

}  // namespace rooftile
