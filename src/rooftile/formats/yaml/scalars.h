// The scalars of a YAML document, each under the keys that lead to it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/result.h"

namespace rooftile::yaml {

struct Scalar {
  std::string path;        // "train.workers"; items of lists by number: "defaults.0.model"
  std::string text;        // as the document means it, quotes and escapes resolved
  bool quoted = false;     // a text even where it looks like a number
  std::uint32_t line = 0;  // from 0
};

// The scalars of the first document in their order. Aliases and keys that are no scalars are left
// out with what is below them. Errors: no YAML (with the line), more than 1 MiB, 64 levels or
// 50,000 scalars.
Result<std::vector<Scalar>> read_scalars(std::string_view bytes);

}  // namespace rooftile::yaml
