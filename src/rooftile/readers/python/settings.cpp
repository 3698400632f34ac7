#include "rooftile/readers/python/settings.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>

#include "rooftile/base/file.h"
#include "rooftile/base/text.h"
#include "rooftile/formats/yaml/scalars.h"
#include "rooftile/readers/python/source_files.h"
#include "rooftile/script/reach/default_settings.h"
#include "rooftile/script/reach/unused.h"
#include "rooftile/workload/source_walks.h"

namespace rooftile::source {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxSettingsBytes = std::size_t{64} << 10U;  // larger ones are data
constexpr std::size_t kMaxSettings = 500;                          // of one project
constexpr std::size_t kMaxMentioning = 100;
constexpr std::size_t kMaxFolderEntries = 5'000;
constexpr int kMaxFolderDepth = 6;

bool is_settings(const fs::path& path) {
  const std::string end = path.extension().string();
  return is_one_of(end, {".json", ".toml", ".yaml", ".yml"});
}

bool may_mention(const fs::path& path) {
  const std::string name = lower(path.filename().string());
  return name.ends_with(".md") || name.ends_with(".rst") || name.ends_with(".sh") ||
         name == "makefile";
}

struct ProjectFiles {
  std::vector<fs::path> settings, documents;
};

ProjectFiles files_below(const fs::path& root) {
  ProjectFiles found;
  std::error_code error;
  std::size_t entries = 0;
  const auto end = fs::recursive_directory_iterator();
  const auto options = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator at(root, options, error); at != end && !error;
       at.increment(error)) {
    if (++entries > kMaxFolderEntries || found.settings.size() >= kMaxSettings) break;
    const bool is_hidden = at->path().filename().string().starts_with(".");
    if (is_hidden || at.depth() >= kMaxFolderDepth) at.disable_recursion_pending();
    const bool is_file = at->is_regular_file(error) && !at->is_symlink(error);
    if (is_hidden || !is_file) continue;
    if (is_settings(at->path())) found.settings.push_back(at->path());
    if (may_mention(at->path()) && found.documents.size() < kMaxMentioning) {
      found.documents.push_back(at->path());
    }
  }
  return found;
}

// What documents and code call settings files: "base.yaml", and folders that stand before a part to
// fill in, `configs/<name>.yaml`.
class Mentions {
 public:
  void add(std::string_view text) {
    constexpr std::string_view kOutside = " \t\r\n\"'`()=,:/";
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find_first_of(kOutside, at), text.size());
      const std::string_view word = text.substr(at, end - at);
      const std::size_t dot = word.rfind('.');
      if (dot != std::string_view::npos && is_settings(fs::path(word))) files_.emplace(word);
      const bool is_folder = end + 1 < text.size() && text[end] == '/' && end > at;
      if (is_folder && contains(kPlaceholders, text.substr(end + 1, 1))) folders_.emplace(word);
      at = end + 1;
    }
  }

  bool names(const fs::path& path) const {
    return files_.contains(path.filename().string()) ||
           folders_.contains(path.parent_path().filename().string());
  }

 private:
  static constexpr std::string_view kPlaceholders = "<[{$*";
  std::set<std::string> files_, folders_;
};

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

using Classes = std::set<std::string_view>;

// `target: nets.UNet`, `_target_: …`, `class_path: …`: the class that the mapping makes.
const std::string_view* made_class(const yaml::Scalar& scalar, const Classes& defined) {
  const std::string_view path = scalar.path;
  const std::string_view key = path.substr(path.rfind('.') + 1);
  if (!is_one_of(key, {"target", "_target_", "class_path", "type"})) return nullptr;
  const auto found = defined.find(std::string_view(scalar.text).substr(scalar.text.rfind('.') + 1));
  return found == defined.end() ? nullptr : &*found;
}

// The name of the argument below the mapping: `params.width`, `init_args.widths.0`, `width`.
std::string_view argument_below(std::string_view path, std::string_view mapping) {
  if (!path.starts_with(mapping)) return {};
  path.remove_prefix(mapping.size());
  for (const std::string_view inner : {"params.", "init_args."}) {
    if (path.starts_with(inner)) path.remove_prefix(inner.size());
  }
  const std::size_t dot = path.find('.');
  if (dot == std::string_view::npos) return path;
  const bool is_item = path.find_first_not_of("0123456789", dot + 1) == std::string_view::npos;
  return is_item ? path.substr(0, dot) : std::string_view();
}

using Scalars = std::vector<yaml::Scalar>;

void add_texts(const Scalars& scalars, NamedInSettings& named) {
  for (const yaml::Scalar& scalar : scalars) {
    if (scalar.text.size() < 2 || parse_integer(scalar.text)) continue;
    named.texts.insert(scalar.text);
    named.texts.insert(lower(scalar.text));
  }
}

void add_sizes(const Scalars& scalars, const Classes& defined, NamedInSettings& named) {
  for (const yaml::Scalar& scalar : scalars) {
    const std::string_view* made = made_class(scalar, defined);
    if (made == nullptr) continue;
    const std::string_view mapping =
        std::string_view(scalar.path).substr(0, scalar.path.rfind('.') + 1);
    auto& sizes = named.sizes[*made];
    for (const yaml::Scalar& other : scalars) {
      const std::string_view argument = argument_below(other.path, mapping);
      const auto size = other.quoted ? std::nullopt : parse_integer(other.text);
      if (argument.empty() || !size) continue;
      std::int64_t& largest = sizes[std::string(argument)];
      largest = std::max(largest, *size);
    }
  }
}

// JSON as projects write it, with `// …` behind its values.
std::string without_comments(std::string_view json) {
  std::string text;
  for (std::string_view line : split(json, '\n')) {
    bool is_quoted = false;
    for (std::size_t at = 0; at < line.size(); ++at) {
      if (line[at] == '"' && (at == 0 || line[at - 1] != '\\')) is_quoted = !is_quoted;
      if (!is_quoted && line.substr(at).starts_with("//")) line = line.substr(0, at);
    }
    text += line;
    text += '\n';
  }
  return text;
}

// The text as YAML, of which JSON is a part; empty for what cannot be read.
std::optional<std::string> readable(const fs::path& path) {
  const auto text = read_file(path.string(), kMaxSettingsBytes);
  if (!text) return std::nullopt;
  return path.extension() == ".json" ? without_comments(*text) : *text;
}

void read_one(const fs::path& path, bool is_documented, const Classes& defined,
              NamedInSettings& named) {
  const auto text = readable(path);
  if (!text) return;
  for_words(*text, [&](std::string_view word) {
    const auto found = defined.find(word);
    if (found != defined.end()) named.names.insert(*found);
  });
  const auto scalars = yaml::read_scalars(*text);
  if (path.extension() == ".toml" || !scalars) return;
  for (const yaml::Scalar& each : *scalars) {
    named.keys.insert(each.path.substr(each.path.rfind('.') + 1));
  }
  add_sizes(*scalars, defined, named);
  if (is_documented) add_texts(*scalars, named);
}

std::vector<fs::path> folders_of_project(const fs::path& script) {
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(script, error).parent_path();
  return error ? std::vector<fs::path>() : project_folders(folder);
}

// The only settings file of the project that a text of the script names; empty where there are
// several, or none.
fs::path named_settings(const File& script) {
  std::set<fs::path> found;
  std::optional<std::vector<fs::path>> above;
  const auto add = [&](const Expr& text) {
    if (text.kind != ExprKind::text || !is_settings(fs::path(text.word()))) return;
    if (!above) above = folders_of_project(script.path);
    std::error_code error;
    for (const fs::path& each : *above) {
      const fs::path path = each / text.word();
      if (fs::is_regular_file(path, error) && lies_in(above->back(), path)) found.insert(path);
    }
  };
  for (const Statement* statement : script.statements) {
    const auto visit_all = [&](const Expr* expr) {
      visit(expr, [&](const Expr& part) {
        add(part);
        return true;
      });
    };
    for_own_expressions(*statement, visit_all);
    if (statement->function_def == nullptr) continue;
    for (const Parameter& each : statement->function_def->parameters) visit_all(each.default_value);
  }
  return found.size() == 1 ? *found.begin() : fs::path();
}

void read_default_settings(const SourceFacts& facts) {
  auto& by_entry = facts.store().kept<DefaultSettings>().by_entry;
  for (const Program& program : facts.programs) {
    const fs::path path = program.entry == nullptr ? fs::path() : named_settings(*program.entry);
    const auto text = path.empty() ? std::nullopt : readable(path);
    const auto scalars = text ? std::optional(yaml::read_scalars(*text)) : std::nullopt;
    if (!scalars || !*scalars) continue;
    auto& values = by_entry[program.entry];
    for (const yaml::Scalar& each : **scalars) values.emplace_back(each.path, each.text);
  }
}

}  // namespace

void read_settings(const SourceFacts& facts) {
  Classes defined;
  std::set<fs::path> folders;
  Mentions mentions;
  for (const auto& file : facts.files) {
    for (const ClassDef* def : file->classes) defined.insert(def->name);
    mentions.add(file->text);
    std::error_code error;
    const fs::path path = fs::weakly_canonical(file->path, error);
    if (!error) folders.insert(path.parent_path());
  }
  std::set<fs::path> roots;
  for (const fs::path& folder : folders) roots.insert(project_folders(folder).back());
  auto& named = facts.store().kept<NamedInSettings>();
  for (const fs::path& root : roots) {
    const ProjectFiles files = files_below(root);
    for (const fs::path& path : files.documents) {
      if (const auto text = read_file(path.string(), kMaxSettingsBytes)) mentions.add(*text);
    }
    const auto is_named = [&](const fs::path& path) { return mentions.names(path); };
    const bool is_none_named = std::ranges::none_of(files.settings, is_named);
    for (const fs::path& path : files.settings) {
      read_one(path, is_none_named || is_named(path), defined, named);
    }
  }
  read_default_settings(facts);
}

}  // namespace rooftile::source
