// A config.json that is parsed already.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "rooftile/readers/reader.h"

namespace rooftile::hf {

// The config of the language model in that of a multimodal one; null where there is none.
const nlohmann::json* nested_text_model(const nlohmann::json& config);

// The file, with the quantization that ModelOpt writes beside it.
Result<nlohmann::json> read_parsed(const std::string& path);

// As parse_hf_config().
Result<Workload> read_json(const nlohmann::json& whole, const std::string& source,
                           const ReadOptions& options);

}  // namespace rooftile::hf
