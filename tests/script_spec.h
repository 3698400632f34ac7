// The fenced training scripts of the specs: which lines are marked, and what a rule says of them.
// Where a finding has edits, they are applied: the script still parses, and the finding is gone.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "rooftile/readers/python/read_python.h"
#include "rooftile/rooftile.h"

namespace rooftile {

struct ScriptFile {
  std::string name, text;
};

using ScriptLine = std::pair<std::string, std::int64_t>;
inline constexpr std::string_view kScriptMark = "# finding:";

inline bool has_file(const std::vector<ScriptFile>& files, const std::string& name) {
  return std::any_of(files.begin(), files.end(),
                     [&](const ScriptFile& file) { return file.name == name; });
}

inline std::size_t count_marks(const std::vector<ScriptFile>& files) {
  std::size_t marks = 0;
  for (const ScriptFile& file : files) {
    for (std::size_t at = file.text.find(kScriptMark); at != std::string::npos;
         at = file.text.find(kScriptMark, at + 1)) {
      ++marks;
    }
  }
  return marks;
}

// Takes the marks out, since comments may mean something to a rule; returns the marked lines, each
// with the level that it asks for in parentheses, or with none.
inline std::map<ScriptLine, std::string> take_marks(const Rule& rule,
                                                    std::vector<ScriptFile>& files) {
  std::map<ScriptLine, std::string> marked;
  for (ScriptFile& file : files) {
    std::istringstream in(file.text);
    std::string text;
    std::int64_t number = 0;
    for (std::string line; std::getline(in, line);) {
      ++number;
      const auto mark = line.find(kScriptMark);
      if (mark != std::string::npos) {
        std::string named, level;
        std::istringstream(line.substr(mark + kScriptMark.size())) >> named >> level;
        EXPECT_EQ(named, rule.id) << file.name << ":" << number << ": marks name the spec's rule";
        marked.emplace(ScriptLine{file.name, number}, level);
        line.erase(line.find_last_not_of(' ', mark - 1) + 1);
      }
      text += line + "\n";
    }
    file.text = text;
  }
  return marked;
}

// To read its constants takes longer than to read a script: one for all cases on a GPU.
inline const TimeModel& model_on(const std::string& gpu) {
  static std::map<std::string, TimeModel> models;
  auto known = models.find(gpu);
  if (known == models.end()) known = models.emplace(gpu, TimeModel(find_device(gpu).value())).first;
  return known->second;
}

inline std::vector<Finding> findings_in(const Rule& rule, const std::vector<ScriptFile>& files,
                                        const TimeModel& model) {
  std::vector<std::pair<std::string, std::string>> texts;
  for (const ScriptFile& file : files) texts.emplace_back(file.name, file.text);
  Result<SourceFacts> facts = read_python_texts(texts);
  if (!facts) {
    ADD_FAILURE() << to_string(facts.error());
    return {};
  }
  for (const auto& file : facts->files) {
    EXPECT_FALSE(file->has_errors) << "syntax error in\n" << file->text;
  }
  Workload workload;
  workload.source = std::make_shared<const SourceFacts>(*std::move(facts));
  const Analysis analysis = analyse(workload, model);
  const Rule* const only[] = {&rule};
  return run_rules({workload, analysis, model, Graph(workload)}, only);
}

// The files with all edits made, the last one first, so that places stay right.
inline std::vector<ScriptFile> edited(std::vector<ScriptFile> files,
                                      const std::vector<Finding>& findings) {
  std::vector<TextEdit> edits;
  for (const Finding& finding : findings) {
    edits.insert(edits.end(), finding.fix.edits.begin(), finding.fix.edits.end());
  }
  std::sort(edits.begin(), edits.end(),
            [](const TextEdit& a, const TextEdit& b) { return a.begin > b.begin; });
  for (ScriptFile& file : files) {
    for (const TextEdit& edit : edits) {
      if (edit.file != file.name) continue;
      EXPECT_LE(edit.end, file.text.size());
      file.text.replace(edit.begin, edit.end - edit.begin, edit.replacement);
    }
  }
  return files;
}

inline FixResult fix_all(const Rule& rule, const std::vector<ScriptFile>& files,
                         std::optional<Device> device = {}) {
  FixOptions options;
  options.rules = {&rule};
  options.device = std::move(device);
  options.with_unsafe = true;
  std::vector<std::string> paths;
  for (const ScriptFile& file : files) {
    paths.push_back(file.name);
    options.read.contents[file.name] = file.text;
  }
  return fix_scripts(paths, options).value();
}

// The fixer makes all edits, none breaks a file, and a second run has nothing to do.
inline void expect_settled(const Rule& rule, std::vector<ScriptFile> files, const Device& device) {
  const FixResult first = fix_all(rule, files, device);
  EXPECT_TRUE(first.problems.empty()) << first.problems.front();
  for (ScriptFile& file : files) {
    for (const FileReplacement& fixed : first.files) {
      if (fixed.path == file.name) file.text = fixed.after;
    }
  }
  const FixResult second = fix_all(rule, files, device);
  EXPECT_TRUE(second.files.empty()) << "a second run changes\n" << files.front().text;
}

// Without one of its lines a script is another one, often a broken one: edits still parse.
inline void expect_unbroken(const Rule& rule, const std::vector<ScriptFile>& files) {
  const std::string text = files.front().text;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    std::vector<ScriptFile> cut = files;
    cut.front().text.erase(begin, end - begin);
    for (const std::string& problem : fix_all(rule, cut).problems) {
      EXPECT_TRUE(problem.ends_with("it has syntax errors")) << problem << "\n" << cut.front().text;
    }
    begin = end;
  }
}

inline void expect_fixed(const Rule& rule, const std::vector<ScriptFile>& files,
                         const std::vector<Finding>& findings, const TimeModel& model) {
  const auto has_edits = [](const Finding& finding) { return !finding.fix.edits.empty(); };
  if (std::none_of(findings.begin(), findings.end(), has_edits)) return;
  expect_settled(rule, files, model.device());
  expect_unbroken(rule, files);
  const std::vector<ScriptFile> fixed = edited(files, findings);
  const auto fixable = std::count_if(findings.begin(), findings.end(), has_edits);
  const std::vector<Finding> left = findings_in(rule, fixed, model);
  EXPECT_LE(static_cast<std::ptrdiff_t>(left.size()),
            static_cast<std::ptrdiff_t>(findings.size()) - fixable)
      << "after the edits:\n"
      << fixed.front().text << (left.empty() ? "" : left.front().message);
}

inline void run_script_case(const Rule& rule, std::vector<ScriptFile> files,
                            const std::string& gpu) {
  const TimeModel& model = model_on(gpu);
  const std::map<ScriptLine, std::string> marked = take_marks(rule, files);
  const std::vector<Finding> findings = findings_in(rule, files, model);
  std::set<ScriptLine> found;
  for (const Finding& finding : findings) {
    const ScriptLine line{finding.location.file, finding.location.line};
    EXPECT_TRUE(found.insert(line).second) << "two findings at line " << line.second;
    EXPECT_TRUE(marked.contains(line))
        << line.first << ":" << line.second << " should stay silent, but: " << finding.message;
    const auto asked = marked.find(line);
    if (asked != marked.end() && !asked->second.empty()) {
      EXPECT_EQ("(" + std::string(to_string(finding.level)) + ")", asked->second)
          << line.first << ":" << line.second;
    }
    EXPECT_FALSE(finding.fix.text.empty()) << finding.message;
    EXPECT_FALSE(finding.evidence.empty()) << finding.message;
  }
  for (const auto& [line, level] : marked) {
    EXPECT_TRUE(found.contains(line))
        << line.first << ":" << line.second << " should get a finding";
  }
  expect_fixed(rule, files, findings, model);
}

}  // namespace rooftile
