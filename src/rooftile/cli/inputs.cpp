#include "rooftile/cli/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "rooftile/base/text.h"
#include "rooftile/cli/progress_bar.h"

namespace rooftile {
namespace {

bool is_named_by_any(const Rule& rule, const std::vector<std::string>& patterns) {
  return std::ranges::any_of(patterns,
                             [&](const std::string& pattern) { return is_named(rule, pattern); });
}

std::vector<std::string> rule_ids() {
  std::vector<std::string> ids;
  for (const Rule* rule : all_rules()) ids.emplace_back(rule->id);
  return ids;
}

Error unknown_rule(const std::string& id) {
  const std::vector<std::string> close = nearest(id, rule_ids());
  return {fmt::format("no rule {}; {}", rooftile::quoted(id),
                      close.empty() ? "`rooftile rules` lists them"
                                    : fmt::format("did you mean {}?", join(close, ", "))),
          ""};
}

Result<void> require_matches(const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    const bool found = std::ranges::any_of(
        all_rules(), [&](const Rule* rule) { return is_named(*rule, pattern); });
    if (!found) return tl::unexpected(unknown_rule(pattern));
  }
  return {};
}

}  // namespace

Result<std::vector<TraceList>> read_recordings(const std::vector<std::string>& files,
                                               std::string_view otherwise) {
  ProgressBar bar;
  ReadOptions options;
  options.progress = [&bar](std::uint64_t done, std::uint64_t total) { bar.show(done, total); };
  const auto workloads = read_each(files, options);
  if (!workloads) return tl::unexpected(workloads.error());
  std::vector<TraceList> recordings;
  for (std::size_t i = 0; i < files.size(); ++i) {
    recordings.push_back((*workloads)[i].traces);
    if (!recordings.back().empty()) continue;
    return fail(fmt::format("expected a recording of a run{}", otherwise), files[i]);
  }
  return recordings;
}

Result<Workload> read_inputs(const InputOptions& options, const Device* device) {
  ReadOptions read_options = options.read;
  read_options.on_gpu =
      !options.gpu.empty() || !options.gpu_file.empty() || !options.default_gpu.empty();
  // Loads the constants of the time model, which stay loaded.
  if (device != nullptr) read_options.meanwhile = [device] { (void)TimeModel(*device); };
  ProgressBar bar;
  read_options.progress = [&bar](std::uint64_t done, std::uint64_t total) {
    bar.show(done, total);
  };
  return read_all(options.files, read_options);
}

namespace {

// A GPU file may bring constants of the time model, which only the model can check.
Result<Device> read_measured_device(const std::string& path) {
  Result<Device> device = read_device_file(path);
  if (!device) return device;
  if (const auto model = TimeModel::create(*device); !model) {
    return fail(model.error().message, fmt::format("{}: {}", path, model.error().where));
  }
  return device;
}

}  // namespace

Result<Device> pick_device(const InputOptions& options) {
  if (!options.gpu_file.empty()) return read_measured_device(options.gpu_file);
  if (options.gpu.ends_with(".json")) return read_measured_device(options.gpu);
  const std::string& name = options.gpu.empty() ? options.default_gpu : options.gpu;
  if (name == "auto") return detect_device();
  if (!name.empty()) return find_device(name);
  return fail("--gpu is missing: add --gpu h100 for example; `rooftile gpus` lists the names");
}

namespace {

bool names_gpu(const InputOptions& options) {
  return !options.gpu.empty() || !options.gpu_file.empty();
}

}  // namespace

Result<Subject> read_subject(const InputOptions& options) {
  Subject subject;
  if (names_gpu(options)) {
    auto device = pick_device(options);
    if (!device) return tl::unexpected(device.error());
    subject.device = std::move(*device);
  }
  auto workload = read_inputs(options, subject.device ? &*subject.device : nullptr);
  if (!workload) return tl::unexpected(workload.error());
  subject.workload = std::move(*workload);
  if (subject.device) return subject;
  if (subject.workload.traces.empty()) {
    const bool needs_none = subject.workload.ops.empty() && subject.workload.source;
    if (needs_none && options.default_gpu.empty()) return subject;
    auto device = pick_device(options);
    if (!device) return tl::unexpected(device.error());
    subject.device = std::move(*device);
    return subject;
  }
  auto recorded = recorded_device(subject.workload);
  if (recorded) {
    const TraceSummary& trace = subject.workload.traces.front();
    if (!find_device(trace.device->name)) {
      subject.workload.notes.push_back(fmt::format(
          "recorded on {}, which is judged as {}; its clocks and memory bandwidth may differ",
          trace.device->name, recorded->name));
    }
    subject.device = std::move(*recorded);
  } else if (!is_of_host_alone(subject.workload.traces.front())) {
    subject.workload.notes.push_back(recorded.error().message);
  }
  return subject;
}

Result<std::vector<const Rule*>> pick_rules(const std::vector<std::string>& select,
                                            const std::vector<std::string>& ignore) {
  for (const auto* patterns : {&select, &ignore}) {
    const auto known = require_matches(*patterns);
    if (!known) return tl::unexpected(known.error());
  }
  std::vector<const Rule*> rules;
  for (const Rule* rule : all_rules()) {
    if (!select.empty() && !is_named_by_any(*rule, select)) continue;
    if (!is_named_by_any(*rule, ignore)) rules.push_back(rule);
  }
  return rules;
}

Result<std::vector<const Rule*>> rules_named(std::string_view name) {
  if (const Rule* rule = find_rule(name)) return std::vector{rule};
  const std::string_view area = name.substr(0, name.find_last_not_of("/*") + 1);
  std::vector<const Rule*> of_area, of_name;
  for (const Rule* rule : all_rules()) {
    const std::size_t slash = rule->id.find('/');
    if (rule->id.substr(0, slash) == area) of_area.push_back(rule);
    if (is_named(*rule, fmt::format("*/{}", name))) of_name.push_back(rule);
  }
  if (!of_area.empty()) return of_area;
  if (!of_name.empty()) return of_name;
  return tl::unexpected(unknown_rule(std::string(name)));
}

}  // namespace rooftile
