// Files that appear complete or not at all.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "rooftile/base/result.h"

namespace rooftile {

// A new file takes the place of `target` once it is complete; an error leaves the old one.
// `target` must be no link, since the link would be replaced.
Result<void> write_atomically(const std::string& target, std::string_view bytes,
                              mode_t permissions);

}  // namespace rooftile
