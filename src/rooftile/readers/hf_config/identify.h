// What a JSON file is, when it is not a model config that can be read.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "rooftile/base/result.h"
#include "rooftile/readers/hf_config/config.h"

namespace rooftile::hf {

// The reason why this JSON is not a model config: "a quantization description …"; empty when it
// names a model.
std::optional<std::string> not_a_model_config(const nlohmann::json& json);

// Whether the file's name or first bytes look like a config or one of its side files.
bool looks_like_config(std::string_view path, std::string_view head);

}  // namespace rooftile::hf
