// Files that appear complete or not at all.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "rooftile/base/result.h"

namespace rooftile {

// Writes all bytes to an open file; 0, or the errno of the write that failed.
int write_all(int fd, std::string_view bytes);

// A new file takes the place of `target` once it is complete on disk; an error leaves the old one.
// `target` must be no link, since the link would be replaced.
Result<void> write_atomically(const std::string& target, std::string_view bytes,
                              mode_t permissions);

// Other bytes for a file that still holds `before`: anything else is an error, as is a file that
// may not be written. Links are followed, and mode and, where allowed, owner stay.
Result<void> replace_contents(const std::string& path, std::string_view before,
                              std::string_view after);

}  // namespace rooftile
