#include "rooftile/readers/python/settings.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <functional>
#include <set>

#include "rooftile/base/file.h"
#include "rooftile/base/text.h"
#include "rooftile/readers/python/source_files.h"
#include "rooftile/script/reach/unused.h"

namespace rooftile::source {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxSettingsBytes = std::size_t{64} << 10U;  // larger ones are data
constexpr std::size_t kMaxSettings = 500;                          // of one project
constexpr std::size_t kMaxFolderEntries = 5'000;
constexpr int kMaxFolderDepth = 6;

bool is_settings(const fs::path& path) {
  const std::string end = path.extension().string();
  return is_one_of(end, {".json", ".toml", ".yaml", ".yml"});
}

std::vector<fs::path> settings_below(const fs::path& root) {
  std::vector<fs::path> found;
  std::error_code error;
  std::size_t entries = 0;
  const auto end = fs::recursive_directory_iterator();
  const auto options = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator at(root, options, error); at != end && !error;
       at.increment(error)) {
    if (++entries > kMaxFolderEntries || found.size() >= kMaxSettings) break;
    const bool is_hidden = at->path().filename().string().starts_with(".");
    if (is_hidden || at.depth() >= kMaxFolderDepth) at.disable_recursion_pending();
    const bool is_file = at->is_regular_file(error) && !at->is_symlink(error);
    if (!is_hidden && is_file && is_settings(at->path())) {
      found.push_back(at->path());
    }
  }
  return found;
}

void for_words(std::string_view text, const std::function<void(std::string_view)>& use) {
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    if (end > at) use(text.substr(at, end - at));
    at = end + 1;
  }
}

}  // namespace

void read_settings(const SourceFacts& facts) {
  std::set<std::string_view> defined;
  std::set<fs::path> roots;
  for (const auto& file : facts.files) {
    for (const ClassDef* def : file->classes) defined.insert(def->name);
    std::error_code error;
    const fs::path path = fs::weakly_canonical(file->path, error);
    if (!error) roots.insert(project_folders(path.parent_path()).back());
  }
  auto& named = facts.store().kept<NamedInSettings>().names;
  for (const fs::path& root : roots) {
    for (const fs::path& path : settings_below(root)) {
      const auto text = read_file(path.string(), kMaxSettingsBytes);
      if (!text) continue;
      for_words(*text, [&](std::string_view word) {
        const auto found = defined.find(word);
        if (found != defined.end()) named.insert(*found);
      });
    }
  }
}

}  // namespace rooftile::source
