#include "rooftile/formats/python/folder.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "rooftile/base/file.h"
#include "rooftile/base/text.h"

namespace rooftile::python {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxIgnoreBytes = std::size_t{1} << 20U;
constexpr std::size_t kMaxFiles = 1'000'000;
constexpr int kDeepestFolder = 64;
constexpr int kMaxGlobSteps = 10'000;

// Never a project's own code.
constexpr std::string_view kExcluded[] = {
    ".bzr",        ".direnv",  ".eggs",  ".git",          ".hg",          ".ipynb_checkpoints",
    ".mypy_cache", ".nox",     ".pyenv", ".pytest_cache", ".pytype",      ".ruff_cache",
    ".svn",        ".tox",     ".venv",  ".vscode",       "__pycache__",  "__pypackages__",
    "_build",      "buck-out", "build",  "dist",          "node_modules", "site-packages",
    "venv"};

class Glob {
 public:
  bool matches(std::string_view pattern, std::string_view text) {
    while (!pattern.empty()) {
      if (++steps_ > kMaxGlobSteps) return false;
      if (pattern[0] == '*') return matches_star(pattern, text);
      if (text.empty()) return false;
      std::size_t used = 1;
      if (!matches_one(pattern, text[0], used)) return false;
      pattern.remove_prefix(used);
      text.remove_prefix(1);
    }
    return text.empty();
  }

 private:
  bool matches_star(std::string_view pattern, std::string_view text) {
    const bool deep = pattern.starts_with("**");
    std::string_view rest = pattern.substr(deep ? 2 : 1);
    // `**/x` also matches x itself.
    if (deep && rest.starts_with('/') && matches(rest.substr(1), text)) return true;
    for (std::size_t i = 0; i <= text.size(); ++i) {
      if (matches(rest, text.substr(i))) return true;
      if (steps_ > kMaxGlobSteps) return false;
      if (i < text.size() && text[i] == '/' && !deep) return false;
    }
    return false;
  }

  static bool matches_one(std::string_view pattern, char c, std::size_t& used) {
    if (pattern[0] == '?') return c != '/';
    if (pattern[0] == '\\' && pattern.size() > 1) {
      used = 2;
      return pattern[1] == c;
    }
    const std::size_t close = pattern[0] == '[' ? pattern.find(']', 2) : std::string_view::npos;
    if (close == std::string_view::npos) return pattern[0] == c;
    used = close + 1;
    return in_set(pattern.substr(1, close - 1), c);
  }

  static bool in_set(std::string_view set, char c) {
    const bool negated = set[0] == '!' || set[0] == '^';
    if (negated) set.remove_prefix(1);
    bool found = false;
    for (std::size_t i = 0; i < set.size(); ++i) {
      if (i + 2 < set.size() && set[i + 1] == '-') {
        found = found || (set[i] <= c && c <= set[i + 2]);
        i += 2;
      } else {
        found = found || set[i] == c;
      }
    }
    return found != negated && c != '/';
  }

  int steps_ = 0;
};

struct Layer {
  std::string folder;  // with a slash at the end
  IgnoreRules rules;
};

class Walk {
 public:
  Result<std::vector<std::string>> run(const std::string& folder) {
    std::error_code error;
    if (!fs::is_directory(folder, error)) return fail("is not a folder", folder);
    enter(folder, 0);
    std::ranges::sort(files_);
    return std::move(files_);
  }

 private:
  void enter(const std::string& folder, int depth) {
    std::error_code error;
    const fs::path real = fs::canonical(folder, error);
    if (error || depth > kDeepestFolder || !seen_.insert(real.string()).second) return;
    const std::string prefix = folder.ends_with('/') ? folder : folder + "/";
    const Result<std::string> rules = read_file(prefix + ".gitignore", kMaxIgnoreBytes);
    if (rules) layers_.push_back({prefix, IgnoreRules(*rules)});
    std::vector<fs::directory_entry> entries;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      entries.push_back(*it);
    }
    std::ranges::sort(entries, {}, [](const fs::directory_entry& each) { return each.path(); });
    for (const fs::directory_entry& entry : entries) visit(entry, prefix, depth);
    if (rules) layers_.pop_back();
  }

  void visit(const fs::directory_entry& entry, const std::string& prefix, int depth) {
    std::error_code error;
    const std::string name = entry.path().filename().string();
    const std::string path = prefix + name;
    const bool is_folder = entry.is_directory(error);
    if (is_folder) {
      const bool environment = fs::exists(path + "/pyvenv.cfg", error);
      if (std::ranges::binary_search(kExcluded, std::string_view(name)) || environment ||
          name.ends_with(".egg-info") || is_ignored(path, true)) {
        return;
      }
      return enter(path, depth + 1);
    }
    const bool wanted = name.ends_with(".py") || name.ends_with(".ipynb");
    if (!wanted || files_.size() >= kMaxFiles || is_ignored(path, false)) return;
    if (entry.is_regular_file(error)) files_.push_back(path);
  }

  // The innermost .gitignore that says something decides.
  bool is_ignored(const std::string& path, bool is_folder) const {
    for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
      const std::string_view inside = std::string_view(path).substr(layer->folder.size());
      const IgnoreRules::Verdict verdict = layer->rules.judge(inside, is_folder);
      if (verdict != IgnoreRules::Verdict::none) return verdict == IgnoreRules::Verdict::ignored;
    }
    return false;
  }

  std::set<std::string> seen_;
  std::vector<Layer> layers_;
  std::vector<std::string> files_;
};

}  // namespace

bool matches_glob(std::string_view pattern, std::string_view text) {
  return Glob().matches(pattern, text);
}

IgnoreRules::IgnoreRules(std::string_view text) {
  for (std::string_view line : split(text, '\n')) {
    while (line.ends_with('\r') || line.ends_with(' ')) line.remove_suffix(1);
    if (line.empty() || line[0] == '#') continue;
    Rule rule;
    rule.negated = line[0] == '!';
    if (rule.negated) line.remove_prefix(1);
    rule.folders_only = line.ends_with('/');
    if (rule.folders_only) line.remove_suffix(1);
    rule.anchored = line.find('/') != std::string_view::npos;
    if (line.starts_with('/')) line.remove_prefix(1);
    rule.pattern = line;
    if (!rule.pattern.empty()) rules_.push_back(std::move(rule));
  }
}

IgnoreRules::Verdict IgnoreRules::judge(std::string_view path, bool is_folder) const {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  for (auto rule = rules_.rbegin(); rule != rules_.rend(); ++rule) {
    if (rule->folders_only && !is_folder) continue;
    if (matches_glob(rule->pattern, rule->anchored ? path : name)) {
      return rule->negated ? Verdict::kept : Verdict::ignored;
    }
  }
  return Verdict::none;
}

Result<std::vector<std::string>> python_files(const std::string& folder) {
  return Walk().run(folder);
}

}  // namespace rooftile::python
