// The names a device goes by.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rooftile {

// Lower case without spaces, '-', '_' and a leading "NVIDIA", "Tesla" or "GeForce": the form in
// which names are compared.
std::string device_key(std::string_view name);

// Whose product a name is that cannot be NVIDIA's ("mi300x" is AMD's), by its key.
std::optional<std::string_view> other_maker(std::string_view key);

// Name and aliases of a built-in device file, read without the rest: they stand first in it.
std::vector<std::string> device_names(std::string_view json);

}  // namespace rooftile
