// What a user can do with a model whose config is not read.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "rooftile/base/result.h"

namespace rooftile::hf {

// How a config names its model; either may be empty.
struct Identity {
  std::string model_type, architecture;
};

Identity identity_of(const nlohmann::json& config);

// Names the model and what is wrong with it, families that differ in their version only, and the
// lines that export the model. `whole` is the file's config, `source` its path.
Error not_read(const nlohmann::json& whole, const Identity& identity, const std::string& problem,
               const std::string& source);

}  // namespace rooftile::hf
