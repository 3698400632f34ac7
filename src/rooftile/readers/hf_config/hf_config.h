// Reader of Hugging Face config.json files: docs/formats/hf_config.md.
#pragma once

#include <string>
#include <string_view>

#include "rooftile/readers/reader.h"

namespace rooftile {

extern const Reader hf_config_reader;

// The forward workload of the model that the JSON text describes; `source` is named in errors and
// provenance. Fails on anything that is not a config of a known architecture.
Result<Workload> parse_hf_config(std::string_view text, const std::string& source,
                                 const ReadOptions& options);

}  // namespace rooftile
