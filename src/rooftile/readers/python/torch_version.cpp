#include "rooftile/readers/python/torch_version.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <system_error>
#include <vector>

#include "rooftile/base/file.h"
#include "rooftile/base/text.h"
#include "rooftile/readers/python/source_files.h"

namespace rooftile::source {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxBytes = std::size_t{1} << 20U;

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// The number at the front, which is taken off; at most 3 digits.
std::optional<int> take_number(std::string_view& text) {
  std::size_t digits = 0;
  int number = 0;
  for (; digits < text.size() && is_digit(text[digits]); ++digits) {
    if (digits == 3) return std::nullopt;
    number = 10 * number + (text[digits] - '0');
  }
  text.remove_prefix(digits);
  return digits == 0 ? std::nullopt : std::optional(number);
}

// Behind "torch": `>=1.8`, `==1.8.0`, ` 1.8+`, `="^2.0"`; none for `<2` and other words.
std::optional<TorchVersion> version_behind(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size() && std::string_view(" \t\"'`*:([=>~^v").find(text[at]) != text.npos) ++at;
  if (at == 0) return std::nullopt;
  text.remove_prefix(at);
  const auto major = take_number(text);
  if (!major || !text.starts_with('.')) return std::nullopt;
  text.remove_prefix(1);
  const auto minor = take_number(text);
  return minor ? std::optional(TorchVersion{*major, *minor}) : std::nullopt;
}

std::optional<TorchVersion> stated_in(const fs::path& folder,
                                      std::initializer_list<std::string_view> names) {
  std::optional<TorchVersion> least;
  for (const std::string_view name : names) {
    const auto text = read_file((folder / name).string(), kMaxBytes);
    const auto version = text ? stated_torch(*text) : std::nullopt;
    if (version && (!least || *version < *least)) least = version;
  }
  return least;
}

}  // namespace

std::optional<TorchVersion> stated_torch(std::string_view text) {
  constexpr std::string_view kName = "torch";
  const std::string low = lower(text);
  std::optional<TorchVersion> least;
  for (std::size_t at = low.find(kName); at != std::string::npos; at = low.find(kName, at + 1)) {
    const std::size_t begin = at >= 2 && low.compare(at - 2, 2, "py") == 0 ? at - 2 : at;
    // torch-scatter, timm-torch, import torch.nn are other things.
    const bool is_part = begin > 0 && (is_word(low[begin - 1]) || low[begin - 1] == '-');
    const auto version =
        is_part ? std::nullopt : version_behind(std::string_view(low).substr(at + kName.size()));
    if (version && (!least || *version < *least)) least = version;
  }
  return least;
}

std::optional<TorchVersion> torch_version_of(std::span<const std::string> paths) {
  std::set<fs::path> folders;
  for (const std::string& path : paths) {
    std::error_code error;
    fs::path folder = fs::weakly_canonical(path, error);
    if (error) continue;
    if (!fs::is_directory(folder, error)) folder = folder.parent_path();
    folders.insert(folder);
  }
  std::optional<TorchVersion> least;
  for (const fs::path& folder : folders) {
    for (const fs::path& one : project_folders(folder)) {
      auto version = stated_in(
          one, {"requirements.txt", "requirements/requirements.txt", "requirements/base.txt",
                "setup.py", "setup.cfg", "pyproject.toml", "environment.yml", "environment.yaml"});
      if (!version) version = stated_in(one, {"README.md", "readme.md", "README.rst"});
      if (!version) continue;
      if (!least || *version < *least) least = version;
      break;
    }
  }
  return least;
}

}  // namespace rooftile::source
