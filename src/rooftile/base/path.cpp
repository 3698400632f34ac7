#include "rooftile/base/path.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

namespace rooftile {
namespace {

std::string percent_encoded(const std::string& path) {
  static constexpr std::string_view kUnreserved = "-._~/";  // beside letters and digits
  std::string encoded;
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       kUnreserved.find(c) != std::string_view::npos;
    encoded += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return encoded;
}

}  // namespace

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

std::string path_uri(const std::string& path) {
  const std::string normal = normal_path(path);
  return (normal.starts_with('/') ? "file://" : "") + percent_encoded(normal);
}

std::string file_uri(const std::string& path) {
  std::error_code unknown;
  return "file://" + percent_encoded(std::filesystem::absolute(path, unknown).lexically_normal());
}

}  // namespace rooftile
