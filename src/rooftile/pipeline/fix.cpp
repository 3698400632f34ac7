#include "rooftile/pipeline/fix.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "rooftile/base/pattern.h"
#include "rooftile/base/run_limits.h"
#include "rooftile/formats/python/folder.h"
#include "rooftile/formats/python/source_text.h"
#include "rooftile/formats/python/syntax_tree.h"
#include "rooftile/rewriter/edit_plan.h"
#include "rooftile/rewriter/unified_diff.h"
#include "rooftile/rooftile.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile {
namespace {

// One round makes all edits that do not touch each other; few files need a third. A rule whose edit
// leaves its own finding would never end.
constexpr int kMaxRounds = 16;

bool has_syntax_errors(const std::string& bytes) {
  const Result<std::string> text = python::clean_text(bytes);
  if (!text) return true;
  const Result<python::SyntaxTree> tree = python::parse_python(*text);
  return !tree || tree->has_errors;
}

// Bytes that are no UTF-8 stand as other ones in the text that edits were made from.
bool edits_foreign_bytes(const std::string& bytes, std::string_view text,
                         const std::vector<TextEdit>& edits) {
  return std::ranges::any_of(edits, [&](const TextEdit& edit) {
    return edit.end > bytes.size() ||
           std::string_view(bytes).substr(edit.begin, edit.end - edit.begin) !=
               text.substr(edit.begin, edit.end - edit.begin);
  });
}

class Fixer {
 public:
  Fixer(std::span<const std::string> paths, const FixOptions& options)
      : paths_(paths.begin(), paths.end()), options_(options), read_(options.read) {}

  Result<FixResult> run() {
    while (true) {
      for (int round = 0; round < kMaxRounds; ++round) {
        const Result<bool> changed = make_round();
        if (!changed) return tl::unexpected(changed.error());
        if (*changed) continue;
        if (!has_new_findings()) return finished();
        break;
      }
      start_again();
    }
  }

 private:
  // Whether something was changed, or given up, so that another look is due.
  Result<bool> make_round() {
    Result<SourceFacts> facts = read_python(paths_, read_);
    if (!facts) return tl::unexpected(facts.error());
    // What was not read may be what makes an edit wrong.
    if (!scripts_must_end().empty()) {
      return fail(
          fmt::format("nothing was changed: not all files were read: {}", scripts_must_end()));
    }
    Workload workload;
    workload.source = std::make_shared<const SourceFacts>(std::move(*facts));
    Report report = options_.device ? check(workload, *options_.device, options_.rules)
                                    : check(workload, options_.rules);
    if (options_.filter) options_.filter(report);
    const EditPlan plan = plan_edits(report.findings, options_.with_unsafe, frozen_);
    count_left(report, plan);
    note_unfixable(report);
    if (plan.by_file.empty()) return false;
    const std::size_t frozen_before = frozen_.size();
    std::map<std::string, std::string> edited;
    for (const auto& [path, edits] : plan.by_file) {
      const std::string problem = edit_file(*workload.source, path, edits, edited);
      if (!problem.empty()) freeze(path, problem);
    }
    // Fixes of several files are made whole: with one given up, the round starts again without it.
    if (frozen_.size() > frozen_before) return true;
    changed_last_.clear();
    for (auto& [path, bytes] : edited) {
      changed_last_.insert(path);
      read_.contents[path] = std::move(bytes);
    }
    fixed_last_.clear();
    for (const std::size_t i : plan.fixed) {
      ++result_.fixed[report.findings[i].rule];
      fixed_last_.insert(report.findings[i].rule);
    }
    return true;
  }

  // Without the files whose fixes undo or repeat each other, or bring forth what only a person can
  // change, so that a second call does the same.
  void start_again() {
    for (const auto& [path, rule] : std::exchange(worse_, {})) {
      freeze(path, fmt::format("would have a new finding after its fixes, of {}", rule));
    }
    for (const std::string& path : std::exchange(changed_last_, {})) {
      if (!frozen_.contains(path)) freeze(path, "has fixes that bring forth others without end");
    }
    read_.contents = options_.read.contents;
    result_.fixed.clear();
    fixed_last_.clear();
    unfixable_.reset();
  }

  // How many findings of one file and rule have no edits; the level tells those that cost most.
  using Unfixable = std::map<std::tuple<std::string, std::string, Level>, std::int64_t>;

  // Notes also the files where a finding that the last edits should have ended is still there.
  void note_unfixable(const Report& report) {
    Unfixable now;
    for (const Finding& finding : report.findings) {
      if (finding.fix.edits.empty()) ++now[{finding.location.file, finding.rule, finding.level}];
    }
    if (!unfixable_) unfixable_ = now;
    for (const auto& [place, count] : now) {
      if (fixed_last_.contains(std::get<1>(place)) && count > count_of(unfixable_now_, place)) {
        add_worse(place);
      }
    }
    unfixable_now_ = std::move(now);
  }

  // Whether an edit left its finding, or the edits together brought one that costs time for
  // certain. Advice that follows on a change, as to copy what is now pinned without waiting, is
  // none of these.
  bool has_new_findings() {
    for (const auto& [place, count] : unfixable_now_) {
      const Level level = std::get<2>(place);
      const bool counts = level == Level::error || level == Level::warning;
      if (counts && count > count_of(*unfixable_, place)) add_worse(place);
    }
    if (!worse_.empty()) changed_last_.clear();
    return !worse_.empty();
  }

  static std::int64_t count_of(const Unfixable& unfixable, const Unfixable::key_type& place) {
    const auto found = unfixable.find(place);
    return found == unfixable.end() ? 0 : found->second;
  }

  void add_worse(const Unfixable::key_type& place) {
    const auto& [file, rule, level] = place;
    if (before_.contains(file) && !frozen_.contains(file)) worse_.try_emplace(file, rule);
  }

  void count_left(const Report& report, const EditPlan& plan) {
    result_.notebooks = std::ranges::count_if(report.findings, [](const Finding& finding) {
      return finding.location.file.ends_with(".ipynb");
    });
    result_.unsafe_left = plan.unsafe;
    result_.by_hand = std::ranges::count_if(report.findings, [](const Finding& finding) {
      return finding.fix.edits.empty() && finding.level != Level::info;
    });
  }

  // Empty, or why the file has to stay.
  std::string edit_file(const SourceFacts& facts, const std::string& path,
                        const std::vector<TextEdit>& edits,
                        std::map<std::string, std::string>& edited) {
    const auto file = std::ranges::find(facts.files, path, [](const auto& f) { return f->path; });
    if (file == facts.files.end() || (*file)->is_notebook) return "is no script";
    if ((*file)->has_errors) return "has syntax errors";
    const Result<std::string> bytes = read_script(path, read_);
    if (!bytes) return bytes.error().message;
    before_.try_emplace(path, *bytes);
    const Result<std::string> text = python::clean_text(*bytes);
    if (!text || *text != (*file)->text) return "has changed while it was read";
    if (edits_foreign_bytes(*bytes, *text, edits)) {
      return "has bytes that are not UTF-8 where a fix would edit";
    }
    Result<std::string> after = edited_text(*bytes, edits);
    if (!after) return after.error().message;
    if (has_syntax_errors(*after)) return "would have syntax errors after its fixes";
    edited[path] = std::move(*after);
    return "";
  }

  void freeze(const std::string& path, const std::string& problem) {
    frozen_.insert(path);
    result_.problems.push_back(fmt::format("{} stays as it is: it {}", path, problem));
  }

  Result<FixResult> finished() {
    for (const auto& [path, before] : before_) {
      const auto now = read_.contents.find(path);
      if (now == read_.contents.end() || now->second == before) continue;
      result_.files.push_back({path, before, now->second});
    }
    return std::move(result_);
  }

  std::vector<std::string> paths_;
  const FixOptions& options_;
  PythonOptions read_;  // with the contents so far
  std::map<std::string, std::string> before_;
  std::set<std::string> frozen_, changed_last_;
  std::set<std::string> fixed_last_;          // rules
  std::map<std::string, std::string> worse_;  // a rule of a new finding in the file
  std::optional<Unfixable> unfixable_;        // before any edit
  Unfixable unfixable_now_;
  FixResult result_;
};

// Relative to the folder of the settings, as their patterns are.
std::string path_below(const std::string& folder, const std::string& file) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path root = fs::weakly_canonical(folder.empty() ? "." : folder, error);
  return fs::weakly_canonical(file, error).lexically_relative(root).string();
}

bool ignores(const toml_file::PathIgnore& ignore, const std::string& path, const Finding& finding) {
  const bool names_rule = std::ranges::any_of(
      ignore.rules, [&](const auto& entry) { return is_of_rule(finding, entry.text); });
  if (!names_rule) return false;
  const python::IgnoreRules patterns(ignore.path);
  for (std::size_t end = path.find('/');; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    const bool is_folder = end != std::string::npos;
    if (patterns.judge(part, is_folder) == python::IgnoreRules::Verdict::ignored) return true;
    if (!is_folder) return false;
  }
}

}  // namespace

Result<FixResult> fix_scripts(std::span<const std::string> paths, const FixOptions& options) {
  return Fixer(paths, options).run();
}

std::string render_diff(const FixResult& result) {
  std::string text;
  for (const FileReplacement& file : result.files) {
    text += unified_diff(file.path, file.before, file.after);
  }
  return text;
}

std::string common_folder(std::span<const std::string> paths) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path common;
  for (const std::string& path : paths) {
    fs::path folder = fs::canonical(path, error);
    if (!fs::is_directory(folder, error)) folder = folder.parent_path();
    if (common.empty()) common = folder;
    while (common != common.root_path() && *folder.lexically_relative(common).begin() == "..") {
      common = common.parent_path();
    }
  }
  return common.string();
}

Result<void> write_fixed(const FixResult& result, const std::string& folder) {
  return replace_files(folder, result.files);
}

void ignore_by_path(const toml_file::Settings& settings, Report& report) {
  if (settings.path_ignores.empty()) return;
  std::map<std::string, std::string> paths;
  std::erase_if(report.findings, [&](const Finding& finding) {
    const std::string& file = finding.location.file;
    const auto known = paths.try_emplace(file);
    std::string& path = known.first->second;
    if (known.second) path = path_below(settings.folder, file);
    return std::ranges::any_of(settings.path_ignores,
                               [&](const auto& ignore) { return ignores(ignore, path, finding); });
  });
}

}  // namespace rooftile
