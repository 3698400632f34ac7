#include "rooftile/cli/project.h"

#include <fmt/format.h>

#include "rooftile/base/text.h"
#include "rooftile/cli/inputs.h"

namespace rooftile {
namespace {

using toml_file::Entry;
using toml_file::Settings;

std::vector<std::string> texts_of(const std::vector<Entry>& entries) {
  std::vector<std::string> texts;
  for (const Entry& entry : entries) texts.push_back(entry.text);
  return texts;
}

// Wrong patterns are told with their place; those of flags have none.
Result<void> require_rules(const Settings& settings) {
  std::vector<const std::vector<Entry>*> lists{&settings.select, &settings.ignore};
  for (const auto& ignore : settings.path_ignores) lists.push_back(&ignore.rules);
  for (const auto* entries : lists) {
    for (const Entry& entry : *entries) {
      const auto known = pick_rules({entry.text}, {});
      if (!known) return fail(known.error().message, settings.where(entry));
    }
  }
  return {};
}

Result<void> take_gpu(const Settings& settings, InputOptions& input) {
  if (!settings.gpu || !input.gpu.empty() || !input.gpu_file.empty()) return {};
  input.default_gpu = settings.gpu->text;
  if (input.default_gpu == "auto") return {};
  const auto device = find_device(input.default_gpu);
  if (!device) return fail(device.error().message, settings.where(*settings.gpu));
  return {};
}

}  // namespace

Result<Project> open_project(const RuleChoice& choice, InputOptions& input) {
  Project project;
  if (!choice.no_settings) {
    auto settings = toml_file::find_settings(input.files.front());
    if (!settings) return tl::unexpected(settings.error());
    project.settings = std::move(*settings);
  }
  const Settings& settings = project.settings;
  const Result<void> known = require_rules(settings);
  if (!known) return tl::unexpected(known.error());
  const Result<void> gpu = take_gpu(settings, input);
  if (!gpu) return tl::unexpected(gpu.error());
  input.read.exclude = join(texts_of(settings.exclude), "\n");
  input.read.exclude_root = settings.folder;
  auto rules = pick_rules(choice.select.empty() ? texts_of(settings.select) : choice.select,
                          choice.ignore.empty() ? texts_of(settings.ignore) : choice.ignore);
  if (!rules) return tl::unexpected(rules.error());
  project.rules = std::move(*rules);
  return project;
}

}  // namespace rooftile
