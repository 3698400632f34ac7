// Findings in training scripts, fixed by their edits.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rooftile/base/replace_files.h"
#include "rooftile/base/result.h"
#include "rooftile/findings/report.h"
#include "rooftile/formats/toml/settings.h"
#include "rooftile/hardware/device.h"
#include "rooftile/readers/python/read_python.h"
#include "rooftile/rules/rule.h"

namespace rooftile {

struct FixOptions {
  std::vector<const Rule*> rules;
  std::optional<Device> device;  // to judge for; rules that need none do without
  bool with_unsafe = false;      // also edits that may change what the program computes
  PythonOptions read;
  // Takes findings out that are not to be fixed; may be empty.
  std::function<void(Report&)> filter;
};

struct FixResult {
  std::vector<FileReplacement> files;         // that change, by path
  std::map<std::string, std::int64_t> fixed;  // findings by rule
  std::int64_t unsafe_left = 0;               // fixes that with_unsafe would make
  std::int64_t by_hand = 0;                   // findings without edits, those of level info aside
  std::int64_t notebooks = 0;                 // findings in notebooks, which are not edited
  std::vector<std::string> problems;          // files that stay as they are, and why
};

// Makes edits until no fix is left, so that a second call changes nothing. Nothing is written.
// Files with syntax errors stay, and so does a file that the edits would break.
Result<FixResult> fix_scripts(std::span<const std::string> paths, const FixOptions& options);

// The changes as patch(1) and `git apply` take them.
std::string render_diff(const FixResult& result);

// The folder of all paths: where a journal stands while files are written.
std::string common_folder(std::span<const std::string> paths);

// Writes all files of a result, or none: base/replace_files.h.
Result<void> write_fixed(const FixResult& result, const std::string& folder);

// Takes out findings of rules that the settings ignore in their files.
void ignore_by_path(const toml_file::Settings& settings, Report& report);

}  // namespace rooftile
