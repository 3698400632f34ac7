// Training scripts and folders of them, in the list of readers.
#include <filesystem>
#include <system_error>

#include "rooftile/readers/python/read_python.h"
#include "rooftile/readers/reader.h"

namespace rooftile {
namespace {

bool is_script_or_folder(std::string_view path, std::string_view /*head*/) {
  std::error_code ignored;
  return path.ends_with(".py") || path.ends_with(".ipynb") ||
         std::filesystem::is_directory(path, ignored);
}

Result<source::SourceFacts> read_scripts(std::span<const std::string> paths,
                                         const ReadOptions& options) {
  return read_python(paths, {options.exclude, options.exclude_root, {}, options.on_gpu});
}

}  // namespace

extern const Reader python_reader{
    .name = "python", .recognises = is_script_or_folder, .read_together = read_scripts};

}  // namespace rooftile
