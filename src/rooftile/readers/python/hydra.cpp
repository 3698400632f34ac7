#include "rooftile/readers/python/hydra.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "rooftile/base/text.h"
#include "rooftile/formats/yaml/scalars.h"
#include "rooftile/readers/python/source_files.h"

namespace rooftile::source {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxConfigurations = 64;  // of one program
constexpr int kMaxDefaultsDepth = 8;            // of lists of defaults
constexpr std::uint32_t kMaxConfigurationLine = 20'000;

std::string_view text_of(const Argument* argument) {
  const bool is_text = argument != nullptr && argument->value->kind == ExprKind::text;
  return is_text ? argument->value->word() : std::string_view();
}

// `@hydra.main(…)` or `@main(…)`; null for other decorators.
const Call* start_of(const Expr& decorator) {
  const Call* call = decorator.call();
  const bool is_main = call != nullptr && (call->method == "main" || call->method == "hydra_main");
  return is_main ? call : nullptr;
}

std::string with_extension(std::string name) {
  return name.ends_with(".yaml") || name.ends_with(".yml") ? name : name + ".yaml";
}

// The file that the decorator names. Before version 1 its path was given whole.
std::optional<fs::path> named_file(const Call& start, const File& script) {
  const std::string folder(text_of(start.argument("config_path", 0)));
  const std::string name(text_of(start.argument("config_name", 1)));
  if (fs::path(folder).is_absolute() || fs::path(name).is_absolute()) return std::nullopt;
  const fs::path base = fs::path(script.path).parent_path();
  if (name.empty()) {
    return folder.ends_with(".yaml") ? std::optional(base / folder) : std::nullopt;
  }
  return base / folder / with_extension(name);
}

bool is_identifier(std::string_view word) {
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  return !word.empty() && std::isdigit(static_cast<unsigned char>(word[0])) == 0 &&
         std::ranges::all_of(word, is_word);
}

bool are_identifiers(std::string_view path) {
  return std::ranges::all_of(split(path, '.'), is_identifier);
}

// The value as Python writes it; empty for what is computed or would need escapes.
std::string python_value(const yaml::Scalar& scalar) {
  const std::string_view text = scalar.text;
  if (!scalar.quoted) {
    if (is_one_of(text, {"", "~", "null", "Null", "NULL"})) return "None";
    if (is_one_of(lower(text), {"true", "yes", "on"})) return "True";
    if (is_one_of(lower(text), {"false", "no", "off"})) return "False";
    if (parse_number(text)) return std::string(text);
  }
  const bool is_plain = std::ranges::all_of(text, [](char c) {
    return static_cast<unsigned char>(c) >= ' ' && c != '"' && c != '\\' && c != '$';
  });
  return is_plain ? fmt::format("\"{}\"", text) : std::string();
}

// One entry of a list of defaults: the file, and under what its values are put.
struct Default {
  fs::path file;
  std::string package;
};

// `# @package _global_` or a name, in the comments at the top.
std::optional<std::string> stated_package(std::string_view text) {
  for (const std::string_view line : split(text, '\n')) {
    if (!line.starts_with('#')) return std::nullopt;
    const std::size_t at = line.find("@package");
    if (at == std::string_view::npos) continue;
    const std::string name(trim(line.substr(at + std::string_view("@package").size())));
    return name == "_global_" ? std::string() : name;
  }
  return std::nullopt;
}

std::string joined(const std::string& outer, const std::string& inner) {
  return outer.empty() || inner.empty() ? outer + inner : outer + "." + inner;
}

// The root of the script's project; of a folder that stands alone its parent, since configurations
// often stand beside it. Nothing outside is read.
fs::path project_of(const std::string& script) {
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(script, error).parent_path();
  const fs::path root = project_folders(folder).back();
  return root == folder && !is_project_root(root) ? folder.parent_path() : root;
}

class Configuration {
 public:
  Configuration(const PythonOptions& options, FactsMemory& memory, fs::path project)
      : options_(options), memory_(memory), project_(std::move(project)) {}

  std::vector<ParsedFile> read(const fs::path& file) {
    root_ = file.parent_path();
    add({file, ""}, 0);
    return std::move(files_);
  }

 private:
  void add(const Default& given, int depth) {
    const std::string path = given.file.lexically_normal().string();
    if (depth > kMaxDefaultsDepth || seen_.size() >= kMaxConfigurations ||
        !seen_.insert(path).second || !lies_in(project_, given.file))
      return;
    const Result<std::string> bytes = read_bytes(path, options_);
    if (!bytes) return;
    const Result<std::vector<yaml::Scalar>> scalars = yaml::read_scalars(*bytes);
    if (!scalars) return;
    const std::string package = stated_package(*bytes).value_or(given.package);
    for (const yaml::Scalar& scalar : *scalars) {
      if (!scalar.path.starts_with("defaults.")) continue;
      if (const auto next = default_of(scalar, given.file.parent_path(), package)) {
        add(*next, depth + 1);
      }
    }
    Candidate candidate;
    candidate.path = path;
    candidate.bytes = assignments(*scalars, package);
    ParsedFile parsed = parse_file(std::move(candidate), memory_);
    if (parsed.file != nullptr) files_.push_back(std::move(parsed));
  }

  // `- model: resnet`, `- override /optimizer@train.optimizer: adam`, `- base`.
  std::optional<Default> default_of(const yaml::Scalar& scalar, const fs::path& folder,
                                    const std::string& package) const {
    const std::size_t dot = scalar.path.find('.', std::string_view("defaults.").size());
    const std::string& name = scalar.text;
    if (name == "_self_" || contains_any(name, {"$", ".."}) || name.starts_with('/')) return {};
    if (dot == std::string::npos) return Default{folder / with_extension(name), package};
    std::string key = scalar.path.substr(dot + 1);
    for (const std::string_view word : {"override ", "optional "}) {
      if (key.starts_with(word)) key.erase(0, word.size());
    }
    const bool is_absolute = key.starts_with('/');
    if (is_absolute) key.erase(0, 1);
    if (key.starts_with("hydra/") || contains_any(key, {"$", ".."})) return {};
    const std::size_t at = key.find('@');
    std::string group = key.substr(0, at);
    std::string inner = at == std::string::npos ? group : key.substr(at + 1);
    std::ranges::replace(inner, '/', '.');
    const bool is_global = inner == "_global_";
    return Default{(is_absolute ? root_ : folder) / group / with_extension(name),
                   is_global                        ? ""
                   : is_absolute || package.empty() ? inner
                                                    : joined(package, inner)};
  }

  static std::string assignments(const std::vector<yaml::Scalar>& scalars,
                                 const std::string& package) {
    std::string text;
    std::uint32_t line = 0;
    for (const yaml::Scalar& scalar : scalars) {
      const std::string path = joined(package, scalar.path);
      const std::string value = python_value(scalar);
      if (value.empty() || scalar.line > kMaxConfigurationLine || !are_identifiers(path)) continue;
      const bool shares_line = scalar.line <= line && !text.empty() && !text.ends_with('\n');
      for (; line < scalar.line; ++line) text += '\n';
      text += fmt::format("{}cfg.{} = {}", shares_line ? "; " : "", path, value);
    }
    return text + '\n';
  }

  const PythonOptions& options_;
  FactsMemory& memory_;
  fs::path root_, project_;
  std::set<std::string> seen_;
  std::vector<ParsedFile> files_;
};

}  // namespace

std::vector<ParsedFile> read_configurations(std::span<const ParsedFile> scripts,
                                            const PythonOptions& options, FactsMemory& memory) {
  std::vector<ParsedFile> all;
  std::set<fs::path> done;
  for (const ParsedFile& script : scripts) {
    if (script.file == nullptr || !script.file->imports_from("hydra")) continue;
    for (const FunctionDef* def : script.file->functions) {
      for (const Expr* decorator : def->decorators) {
        const Call* start = start_of(*decorator);
        const auto file = start == nullptr ? std::nullopt : named_file(*start, *script.file);
        if (!file || !done.insert(*file).second) continue;
        for (ParsedFile& each :
             Configuration(options, memory, project_of(script.file->path)).read(*file))
          all.push_back(std::move(each));
      }
    }
  }
  return all;
}

}  // namespace rooftile::source
