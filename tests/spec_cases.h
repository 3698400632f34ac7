// The fenced workloads, traces and training scripts of the specs.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "rooftile/analysis/trace/measured_workload.h"
#include "rooftile/analysis/trace/summarize.h"
#include "rooftile/rooftile.h"
#include "rooftile/workload/training.h"
#include "rooftile/workload/workload_text.h"
#include "script_spec.h"
#include "tests/support/timeline_text.h"

namespace rooftile {

namespace fs = std::filesystem;
inline const fs::path kRoot = ROOFTILE_ROOT;

// One fenced workload of a spec.
struct SpecCase {
  std::string rule;     // id, from the file's path
  std::string heading;  // the "## " above it
  fs::path file;
  int line = 0;  // of the fence's first line
  bool is_trace = false;
  std::string info;  // what follows "workload" or "trace": device=h100_sxm mode=training
  std::string text;
  std::vector<ScriptFile> scripts;  // in place of a workload's text
};

inline std::string read_text(const fs::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

inline std::string rule_of(const fs::path& spec) {
  return spec.parent_path().filename().string() + "/" + spec.stem().string();
}

// The rest of the word that begins with `key`; empty where there is none.
inline std::string word_after(std::string_view key, const std::string& info) {
  std::istringstream in(info);
  for (std::string word; in >> word;) {
    if (word.starts_with(key)) return word.substr(key.size());
  }
  return "";
}

// Adds the file to the script of the heading; a second one of the same name starts another case.
inline void add_script(std::vector<SpecCase>& cases, SpecCase next) {
  const std::string name = word_after("file=", next.info);
  ScriptFile file{name.empty() ? "train.py" : name, ""};
  const bool joins = !cases.empty() && cases.back().heading == next.heading &&
                     !cases.back().scripts.empty() && !has_file(cases.back().scripts, file.name);
  if (!joins) cases.push_back(std::move(next));
  cases.back().scripts.push_back(std::move(file));
}

inline std::vector<SpecCase> cases_of(const fs::path& spec) {
  std::vector<SpecCase> cases;
  std::istringstream in(read_text(spec));
  std::string heading;
  bool inside = false;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (inside && line == "```") {
      inside = false;
    } else if (inside) {
      auto& scripts = cases.back().scripts;
      (scripts.empty() ? cases.back().text : scripts.back().text) += line + "\n";
    } else if (line.starts_with("## ")) {
      heading = line.substr(3);
    } else if (line.starts_with("```workload") || line.starts_with("```trace")) {
      inside = true;
      const bool is_trace = line.starts_with("```trace");
      const std::string info = line.substr(is_trace ? 8 : 11);
      cases.push_back({rule_of(spec), heading, spec, number, is_trace, info, "", {}});
    } else if (line.starts_with("```python")) {
      inside = true;
      add_script(cases, {rule_of(spec), heading, spec, number, false, line.substr(9), "", {}});
    }
  }
  return cases;
}

inline std::vector<fs::path> spec_files() {
  std::vector<fs::path> files;
  if (!fs::exists(kRoot / "tests/specs")) return files;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "tests/specs")) {
    if (entry.path().extension() == ".md") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

struct FenceOptions {
  std::string device;
  bool training = false;
};

inline FenceOptions options_of(const SpecCase& spec) {
  FenceOptions options;
  std::istringstream in(spec.info);
  for (std::string word; in >> word;) {
    if (word.starts_with("device=")) {
      options.device = word.substr(7);
    } else if (word == "mode=training") {
      options.training = true;
    } else {
      ADD_FAILURE() << "unknown option '" << word << "': expected device=ID or mode=training";
    }
  }
  return options;
}

inline const TimeModel& model_of(const SpecCase& spec) {
  const std::string gpu =
      spec.scripts.empty() ? options_of(spec).device : word_after("device=", spec.info);
  return model_on(gpu.empty() ? "h100_sxm" : gpu);
}

inline Result<Workload> read_traces(const std::string& text) {
  std::vector<TraceSummary> summaries;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find("\n---\n"), rest.size());
    const Result<Timeline> timeline = parse_timeline(rest.substr(0, end));
    if (!timeline) return tl::unexpected(timeline.error());
    summaries.push_back(summarize(*timeline));
    rest.remove_prefix(std::min(end + 5, rest.size()));
  }
  return measured_workload(std::move(summaries));
}

inline Result<Workload> read_case(const SpecCase& spec) {
  if (spec.is_trace) return read_traces(spec.text);
  if (spec.scripts.empty()) {
    Result<Workload> workload = parse_workload(spec.text, spec.file.filename().string());
    if (!workload) return workload;
    return options_of(spec).training ? derive_training(*std::move(workload))
                                     : derive_inference(*std::move(workload));
  }
  std::vector<ScriptFile> files = spec.scripts;
  take_marks(*find_rule(spec.rule), files);
  std::vector<std::pair<std::string, std::string>> texts;
  for (const ScriptFile& file : files) texts.emplace_back(file.name, file.text);
  Result<SourceFacts> facts = read_python_texts(texts);
  if (!facts) return tl::unexpected(facts.error());
  Workload workload;
  workload.source = std::make_shared<const SourceFacts>(*std::move(facts));
  return workload;
}

// The runner merges equal findings of several lines and drops what is not worth a line; a rule's
// own finding counts when all its operations are part of one that was kept.
inline bool is_kept(const Finding& finding, const std::vector<Finding>& kept) {
  return std::any_of(kept.begin(), kept.end(), [&](const Finding& candidate) {
    if (finding.ops.empty()) return candidate.message.starts_with(finding.message);
    return std::all_of(finding.ops.begin(), finding.ops.end(), [&](std::size_t op) {
      return std::count(candidate.ops.begin(), candidate.ops.end(), op) > 0;
    });
  });
}

inline std::vector<Finding> kept_findings(const RuleInput& input, const Rule& rule) {
  const Rule* const only[] = {&rule};
  const std::vector<Finding> kept = run_rules(input, only);
  std::vector<Finding> findings = detect(rule, input);
  std::erase_if(findings, [&](const Finding& finding) { return !is_kept(finding, kept); });
  return findings;
}

inline bool has_traces(const fs::path& spec) {
  return read_text(spec).find("```trace") != std::string::npos;
}

// '-' and ':' have a meaning in --gtest_filter.
inline std::string test_name(std::string text) {
  const auto is_special = [](unsigned char c) { return std::isalnum(c) == 0 && c != '/'; };
  std::replace_if(text.begin(), text.end(), is_special, '_');
  return text;
}

}  // namespace rooftile
