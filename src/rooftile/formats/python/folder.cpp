#include "rooftile/formats/python/folder.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "rooftile/base/file.h"
#include "rooftile/base/run_limits.h"
#include "rooftile/base/text.h"

namespace rooftile::python {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxIgnoreBytes = std::size_t{1} << 20U;
constexpr std::size_t kMaxFiles = 1'000'000;
// Entries of all folders together: about five seconds on a disk.
constexpr std::int64_t kMaxEntries = 1'000'000;
constexpr std::size_t kMaxLeftOut = 256;
constexpr int kDeepestFolder = 64;
constexpr int kMaxGlobSteps = 10'000;

// Never a project's own code.
constexpr std::string_view kExcluded[] = {
    ".bzr",        ".direnv",  ".eggs",  ".git",          ".hg",          ".ipynb_checkpoints",
    ".mypy_cache", ".nox",     ".pyenv", ".pytest_cache", ".pytype",      ".ruff_cache",
    ".svn",        ".tox",     ".venv",  ".vscode",       "__pycache__",  "__pypackages__",
    "_build",      "buck-out", "build",  "dist",          "node_modules", "site-packages",
    "venv"};

// Stars take as little as they can; where the rest does not match, the last star takes more. A star
// behind another one makes going back to that one needless, but that `*` may not pass a slash,
// which
// `**` may.
class Glob {
 public:
  explicit Glob(std::int64_t most_steps)
      : most_steps_(static_cast<int>(std::min<std::int64_t>(most_steps, kMaxGlobSteps))) {}
  int steps() const { return steps_; }

  bool matches(std::string_view pattern, std::string_view text) {
    pattern_ = pattern;
    text_ = text;
    std::size_t p = 0, t = 0;
    while (++steps_ <= most_steps_) {
      if (p == pattern.size() && t == text.size()) return true;
      if (p < pattern.size() && pattern[p] == '*') {
        p = enter_star(p, t);
        continue;
      }
      std::size_t used = 1;
      if (p < pattern.size() && t < text.size() && matches_one(pattern.substr(p), text[t], used)) {
        p += used;
        ++t;
        continue;
      }
      if (!take_more(star_, p, t) && !take_more(deep_, p, t)) return false;
    }
    return false;
  }

 private:
  struct Star {
    std::size_t after = std::string_view::npos;  // in the pattern; npos: there is none
    std::size_t taken = 0;                       // end in the text
    bool folders = false;                        // `**/` takes whole folders
    bool deep = false;
  };

  // Where the pattern goes on.
  std::size_t enter_star(std::size_t p, std::size_t t) {
    const std::string_view rest = pattern_.substr(p);
    const bool folders = rest.starts_with("**/"), deep = rest.starts_with("**");
    const std::size_t after = p + (folders ? 3 : deep ? 2 : 1);
    star_ = {};
    (deep ? deep_ : star_) = {after, t, folders, deep};
    return after;
  }

  bool take_more(Star& star, std::size_t& p, std::size_t& t) {
    if (star.after == std::string_view::npos) return false;
    do {
      if (star.taken == text_.size() || (!star.deep && text_[star.taken] == '/')) {
        star = {};
        return false;
      }
      ++star.taken;
      ++steps_;
    } while (star.folders && text_[star.taken - 1] != '/');
    if (star.deep) star_ = {};
    p = star.after;
    t = star.taken;
    return true;
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

  std::string_view pattern_, text_;
  Star star_, deep_;
  int steps_ = 0, most_steps_;
};

struct Layer {
  std::string folder;  // with a slash at the end
  IgnoreRules rules;
};

class Walk {
 public:
  Result<FolderFiles> run(const std::string& folder) {
    std::error_code error;
    if (!fs::is_directory(folder, error)) return fail("is not a folder", folder);
    root_ = fs::canonical(folder, error);
    if (error) return fail(error.message(), folder);
    enter(folder, 0);
    std::ranges::sort(found_.files);
    return std::move(found_);
  }

 private:
  void enter(const std::string& folder, int depth) {
    std::error_code error;
    const fs::path real = fs::canonical(folder, error);
    if (error) return leave_out(folder, error.message());
    if (!finding_must_end().empty()) return leave_out(folder, std::string(finding_must_end()));
    if (depth > kDeepestFolder) return leave_out(folder, "too many folders deep");
    if (!seen_.insert(real.string()).second) return;
    const std::string prefix = folder.ends_with('/') ? folder : folder + "/";
    const Result<std::string> rules = read_file(prefix + ".gitignore", kMaxIgnoreBytes);
    if (rules) layers_.push_back({prefix, IgnoreRules(*rules)});
    std::vector<fs::directory_entry> entries;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      entries.push_back(*it);
    }
    if (error) leave_out(folder, error.message());
    entries_ += std::ssize(entries);
    if (entries_ > kMaxEntries) return leave_out(folder, "behind too many other files");
    std::ranges::sort(entries, {}, [](const fs::directory_entry& each) { return each.path(); });
    for (const fs::directory_entry& entry : entries) visit(entry, prefix, depth);
    if (rules) layers_.pop_back();
  }

  void visit(const fs::directory_entry& entry, const std::string& prefix, int depth) {
    std::error_code error;
    const std::string name = entry.path().filename().string();
    const std::string path = prefix + name;
    const bool is_folder = entry.is_directory(error);
    const bool wanted = is_folder || name.ends_with(".py") || name.ends_with(".ipynb");
    if (!wanted) return;
    if (entry.is_symlink(error) && leads_out(entry.path())) {
      return leave_out(path, std::string(kLinkOut));
    }
    if (is_folder) {
      const bool environment = fs::exists(path + "/pyvenv.cfg", error);
      if (std::ranges::binary_search(kExcluded, std::string_view(name)) || environment ||
          name.ends_with(".egg-info") || is_ignored(path, true)) {
        return;
      }
      return enter(path, depth + 1);
    }
    if (found_.files.size() >= kMaxFiles || is_ignored(path, false)) return;
    if (entry.is_regular_file(error)) found_.files.push_back(path);
  }

  bool leads_out(const fs::path& link) const {
    std::error_code error;
    const fs::path real = fs::canonical(link, error);
    return error || *real.lexically_relative(root_).begin() == "..";
  }

  void leave_out(const std::string& path, const std::string& reason) {
    if (found_.left_out.size() < kMaxLeftOut) found_.left_out.push_back({path, reason});
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

  fs::path root_;
  std::set<std::string> seen_;
  std::vector<Layer> layers_;
  std::int64_t entries_ = 0;
  FolderFiles found_;
};

}  // namespace

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
    Glob glob(steps_left_);
    const bool matched = glob.matches(rule->pattern, rule->anchored ? path : name);
    steps_left_ = std::max<std::int64_t>(0, steps_left_ - glob.steps());
    if (matched) {
      return rule->negated ? Verdict::kept : Verdict::ignored;
    }
  }
  return Verdict::none;
}

Result<FolderFiles> python_files(const std::string& folder) { return Walk().run(folder); }

}  // namespace rooftile::python
