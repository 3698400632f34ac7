#include "rooftile/base/path.h"

#include <filesystem>
#include <system_error>

namespace rooftile {

std::string normal_path(const std::string& path) {
  namespace fs = std::filesystem;
  if (path.empty() || path == "-") return path;
  const fs::path normal = fs::path(path).lexically_normal();
  std::error_code error;
  const fs::path here = fs::current_path(error);
  if (error) return normal.string();
  const fs::path below = (here / normal).lexically_normal().lexically_relative(here);
  if (below.empty() || *below.begin() == "..") return normal.string();
  return below.string();
}

}  // namespace rooftile
