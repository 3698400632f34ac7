// Other contents for files that somebody else owns: all of them or none, and nothing lost.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "rooftile/base/result.h"

namespace rooftile {

// Links in the path are followed. `before` is what the caller read and judged.
struct FileReplacement {
  std::string path;
  std::string before, after;
};

// Replaces all files or none. The new contents are complete on disk beside the files before the
// first one changes place with its file; what comes out then is compared with `before` once more,
// so an edit that somebody makes meanwhile is never lost. Mode, owner, extended attributes and ACL
// stay. Errors, after which every file is as it was: a file has changed, may not be written, is not
// a regular file, has a second hard link, or has an owner or attributes that cannot be kept;
// another process is replacing files with the same journal. `folder` keeps a journal while this
// runs. A process that is killed leaves it, and the next call, or recover_files(), puts back what
// is half done and removes what is left over.
Result<void> replace_files(const std::string& folder, std::span<const FileReplacement> files);

// Cleans up after a process that was killed in replace_files() with this folder. Nothing is done
// while another process still works there.
Result<void> recover_files(const std::string& folder);

}  // namespace rooftile
