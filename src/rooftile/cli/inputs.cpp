#include "rooftile/cli/inputs.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <utility>

#include "rooftile/base/text.h"

namespace rooftile {
namespace {

// Values of different files must not meet by name: a rule would see an edge that is not there.
void rename_values(Workload& workload, std::size_t file) {
  const std::string prefix = fmt::format("{}#", file);
  for (Op& op : workload.ops) {
    for (std::string& value : op.inputs) value.insert(0, prefix);
    for (std::string& value : op.outputs) value.insert(0, prefix);
  }
}

template <class T>
void append(std::vector<T>& to, std::vector<T>&& from) {
  std::move(from.begin(), from.end(), std::back_inserter(to));
}

void append(Workload& to, Workload&& from) {
  const double parameters = count_parameters(to) + count_parameters(from);
  constexpr double kLargest = 9e18;
  to.parameters = static_cast<std::int64_t>(std::min(parameters, kLargest));
  append(to.ops, std::move(from.ops));
  append(to.sources, std::move(from.sources));
  append(to.notes, std::move(from.notes));
  for (const auto& [name, count] : from.skipped) to.skipped[name] += count;
}

bool matches_any(std::string_view id, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return fnmatch(pattern.c_str(), std::string(id).c_str(), 0) == 0;
  });
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
  const std::vector<std::string> ids = rule_ids();
  for (const std::string& pattern : patterns) {
    const bool found = std::any_of(ids.begin(), ids.end(),
                                   [&](const auto& id) { return matches_any(id, {pattern}); });
    if (!found) return tl::unexpected(unknown_rule(pattern));
  }
  return {};
}

}  // namespace

Result<Workload> read_inputs(const InputOptions& options, const Device* device) {
  ReadOptions read_options = options.read;
  // Loads the constants of the time model, which stay loaded.
  if (device != nullptr) read_options.meanwhile = [device] { (void)TimeModel(*device); };
  Result<Workload> whole = read(options.files.front(), read_options);
  for (std::size_t i = 1; whole && i < options.files.size(); ++i) {
    Result<Workload> next = read(options.files[i], read_options);
    if (!next) return next;
    rename_values(*next, i);
    append(*whole, std::move(*next));
  }
  return whole;
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
  if (options.gpu == "auto") return detect_device();
  if (!options.gpu.empty()) return find_device(options.gpu);
  return fail("--gpu is missing: add --gpu h100 for example; `rooftile gpus` lists the names");
}

Result<std::vector<const Rule*>> pick_rules(const std::vector<std::string>& select,
                                            const std::vector<std::string>& ignore) {
  for (const auto* patterns : {&select, &ignore}) {
    const auto known = require_matches(*patterns);
    if (!known) return tl::unexpected(known.error());
  }
  std::vector<const Rule*> rules;
  for (const Rule* rule : all_rules()) {
    if (!select.empty() && !matches_any(rule->id, select)) continue;
    if (!matches_any(rule->id, ignore)) rules.push_back(rule);
  }
  return rules;
}

Result<const Rule*> pick_rule(const std::string& id) {
  const Rule* rule = find_rule(id);
  if (rule == nullptr) return tl::unexpected(unknown_rule(id));
  return rule;
}

}  // namespace rooftile
