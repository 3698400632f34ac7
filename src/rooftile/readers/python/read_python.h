// Training scripts as neutral facts.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "rooftile/base/result.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile {

struct PythonOptions {
  std::string exclude;       // patterns as in a .gitignore, one a line, for files found in folders
  std::string exclude_root;  // the folder that they are relative to; empty: the current one
  std::map<std::string, std::string> contents;  // by path, in the place of a file's own
  // The user names a GPU: devices that the source leaves open are one. Files given by name count as
  // such in any case.
  bool on_gpu = false;
};

// Reads files (.py, .ipynb) and folders. A file given by name that cannot be read is an error; one
// found in a folder is skipped and listed. Files that no training library is named in are left out
// unless others import them or they import others.
Result<SourceFacts> read_python(std::span<const std::string> paths,
                                const PythonOptions& options = {});

// The bytes of a script within our limits, as read_python() reads them.
Result<std::string> read_script(const std::string& path, const PythonOptions& options = {});

// The facts of one script that is at hand.
Result<SourceFacts> read_python_text(std::string_view path, std::string_view bytes);
// Of several, by path, as if they were files.
Result<SourceFacts> read_python_texts(
    std::span<const std::pair<std::string, std::string>> path_and_bytes);

}  // namespace rooftile
