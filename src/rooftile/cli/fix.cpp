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

// "3 findings in 2 files (precision/tf32-off × 2, optimizer/one-kernel-per-tensor × 1)".
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

// As it stands on disk when this is printed.
enum class Written { nothing_asked, all, failed };

std::string remarks(const FixResult& result, Written written) {
  const std::string_view done = written == Written::all      ? "Fixed"
                                : written == Written::failed ? "Changed nothing: could not fix"
                                                             : "Would fix";
  std::string text =
      result.files.empty() ? "Nothing to fix" : fmt::format("{} {}", done, fixed_text(result));
  if (result.unsafe_left > 0) text += fmt::format("; {} more with --unsafe", result.unsafe_left);
  if (result.by_hand > 0) {
    text += fmt::format("; {} to change by hand", counted(result.by_hand, "finding"));
  }
  const bool offers = !result.files.empty() && written == Written::nothing_asked;
  text += offers ? ". --write does it.\n" : ".\n";
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

// A patch is bytes; a terminal is shown none that it would obey.
std::string shown_diff(const FixResult& result, const TextStyle& style) {
  std::string diff = render_diff(result);
  if (!style.terminal) return diff;
  std::string text;
  for (const std::string_view line : split(diff, '\n')) text += printable(line) + '\n';
  text.pop_back();
  return text;
}

}  // namespace

Result<Outcome> run(const FixCommand& command, const TextStyle& style) {
  const Result<void> scripts = require_scripts(command.input.files);
  if (!scripts) return tl::unexpected(scripts.error());
  InputOptions input = command.input;
  const auto project = open_project(command.rules, input);
  if (!project) return tl::unexpected(project.error());

  FixOptions options;
  options.rules = project->rules;
  options.with_unsafe = command.with_unsafe;
  const bool on_gpu = !input.gpu.empty() || !input.gpu_file.empty() || !input.default_gpu.empty();
  options.read = {input.read.exclude, input.read.exclude_root, {}, on_gpu};
  options.filter = [&](Report& report) { ignore_by_path(project->settings, report); };
  if (on_gpu) {
    auto device = pick_device(input);
    if (!device) return tl::unexpected(device.error());
    options.device = std::move(*device);
  }
  // What a killed run left half done is put back before anything is read.
  const std::string folder = common_folder(input.files);
  const Result<void> clean = command.write ? recover_files(folder) : Result<void>();
  if (!clean) return tl::unexpected(clean.error());
  auto result = fix_scripts(input.files, options);
  if (!result) return tl::unexpected(result.error());
  if (!command.write) {
    return Outcome{shown_diff(*result, style),
                   result->files.empty() ? ExitCode::clean : ExitCode::findings,
                   remarks(*result, Written::nothing_asked)};
  }
  const Result<void> written = write_fixed(*result, folder);
  if (!written) result->problems.push_back(to_string(written.error()));
  return Outcome{"", written ? ExitCode::clean : ExitCode::error,
                 remarks(*result, written ? Written::all : Written::failed)};
}

}  // namespace rooftile
