// rooftile fix: edits in training scripts, as a diff or written.
#include <fmt/format.h>

#include <algorithm>

#include "rooftile/base/text.h"
#include "rooftile/cli/commands.h"
#include "rooftile/cli/inputs.h"
#include "rooftile/cli/project.h"

namespace rooftile {
namespace {

std::string counted(std::int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// "3 findings in 2 files (precision/tf32-off × 2, optimizer/single-tensor × 1)".
std::string fixed_text(const FixResult& result) {
  std::int64_t findings = 0;
  std::vector<std::string> rules;
  for (const auto& [rule, count] : result.fixed) {
    findings += count;
    rules.push_back(fmt::format("{} × {}", rule, count));
  }
  return fmt::format("{} in {} ({})", counted(findings, "finding"),
                     counted(std::ssize(result.files), "file"), join(rules, ", "));
}

std::string remarks(const FixResult& result, bool written) {
  std::string text = result.files.empty() ? "Nothing to fix"
                                          : fmt::format("{} {}", written ? "Fixed" : "Would fix",
                                                        fixed_text(result));
  if (result.unsafe_left > 0) text += fmt::format("; {} more with --unsafe", result.unsafe_left);
  if (result.by_hand > 0) {
    text += fmt::format("; {} to change by hand", counted(result.by_hand, "finding"));
  }
  text += result.files.empty() || written ? ".\n" : ". --write does it.\n";
  if (result.notebooks > 0) text += "Note: notebooks are not edited.\n";
  for (const std::string& problem : result.problems) text += "Note: " + printable(problem) + ".\n";
  return text;
}

Result<void> require_scripts(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    if (!is_script(file)) return fail("is no Python file and no folder", file);
  }
  return {};
}

}  // namespace

Result<Outcome> run(const FixCommand& command, const TextStyle&) {
  const Result<void> scripts = require_scripts(command.input.files);
  if (!scripts) return tl::unexpected(scripts.error());
  InputOptions input = command.input;
  const auto project = open_project(command.rules, input);
  if (!project) return tl::unexpected(project.error());

  FixOptions options;
  options.rules = project->rules;
  options.with_unsafe = command.with_unsafe;
  options.read = {input.read.exclude, input.read.exclude_root, {}};
  options.filter = [&](Report& report) { ignore_by_path(project->settings, report); };
  if (!input.gpu.empty() || !input.gpu_file.empty() || !input.default_gpu.empty()) {
    auto device = pick_device(input);
    if (!device) return tl::unexpected(device.error());
    options.device = std::move(*device);
  }
  auto result = fix_scripts(input.files, options);
  if (!result) return tl::unexpected(result.error());
  if (!command.write) {
    return Outcome{render_diff(*result),
                   result->files.empty() ? ExitCode::clean : ExitCode::findings,
                   remarks(*result, false)};
  }
  const std::vector<std::string> unwritten = write_fixed(*result);
  result->problems.insert(result->problems.end(), unwritten.begin(), unwritten.end());
  return Outcome{"", unwritten.empty() ? ExitCode::clean : ExitCode::error, remarks(*result, true)};
}

}  // namespace rooftile
