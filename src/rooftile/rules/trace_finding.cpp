#include "rooftile/rules/trace_finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "rooftile/base/quantity_text.h"

namespace rooftile {
namespace {

struct Worst {
  Finding finding;
  std::optional<std::int64_t> rank;
  std::size_t ranks = 0;  // that show the same
};

void note_ranks(Worst& worst, std::size_t all) {
  if (all < 2) return;
  const std::string which = worst.rank ? fmt::format("rank {}", *worst.rank) : "one rank";
  worst.finding.evidence.push_back(
      worst.ranks == 1
          ? Evidence::found(fmt::format("only {} of {} traces shows it", which, all))
          : Evidence::found(fmt::format("{} of {} traces show it; the numbers are those of {}",
                                        worst.ranks, all, which)));
}

}  // namespace

std::vector<Finding> judge_ranks(std::span<const TraceSummary> ranks, const TraceJudge& judge) {
  std::vector<std::string> order;
  std::map<std::string, Worst> worst_of;
  for (const TraceSummary& trace : ranks) {
    if (trace.time.span <= Seconds(0)) continue;
    for (TraceCase& found : judge(trace)) {
      const auto [entry, is_new] = worst_of.try_emplace(found.key);
      Worst& worst = entry->second;
      ++worst.ranks;
      if (is_new) order.push_back(found.key);
      if (is_new || expected_saving(found.finding) > expected_saving(worst.finding)) {
        worst.finding = std::move(found.finding);
        worst.rank = trace.rank;
      }
    }
  }
  std::vector<Finding> findings;
  for (const std::string& key : order) {
    Worst& worst = worst_of[key];
    note_ranks(worst, ranks.size());
    findings.push_back(std::move(worst.finding));
  }
  return findings;
}

std::vector<Finding> judge_ranks(const RuleInput& input,
                                 std::vector<TraceCase> (*judge)(const RuleInput&,
                                                                 const TraceSummary&)) {
  return judge_ranks(input.workload.traces,
                     [&](const TraceSummary& trace) { return judge(input, trace); });
}

void add_if_visible(const TraceSummary& trace, std::string key, Finding finding,
                    std::vector<TraceCase>& cases) {
  if (!is_visible(trace, finding.saving->expected * window_steps(trace))) return;
  cases.push_back({std::move(key), std::move(finding)});
}

bool is_visible(const TraceSummary& trace, Seconds in_window) {
  return trace.time.span > Seconds(0) && in_window >= threshold::kReported * trace.time.span;
}

Finding about_trace(const TraceSummary& trace, std::string message, Fix fix,
                    std::optional<Range<Seconds>> saving) {
  Finding finding;
  finding.message = std::move(message);
  finding.fix = std::move(fix);
  if (!trace.files.empty()) finding.location.file = trace.files.front();
  finding.pass = pass_time(trace);
  if (saving) {
    const Range<Seconds> held{std::min(saving->low, trace.time.span),
                              std::min(saving->expected, trace.time.span),
                              std::min(saving->high, trace.time.span)};
    finding.saving = held * (1 / window_steps(trace));
  }
  return finding;
}

Finding about_site(const TraceSummary& trace, const TraceSite& site, std::string message, Fix fix,
                   std::optional<Range<Seconds>> saving) {
  Finding finding = about_trace(trace, std::move(message), std::move(fix), saving);
  if (site.source.line > 0) finding.location = site.source;
  finding.location.node = site.op;
  finding.location.module = site.module;
  return finding;
}

Finding about_group(const TraceSummary& trace, const UseGroup& group, std::string message, Fix fix,
                    std::optional<Range<Seconds>> saving) {
  if (group.uses.empty()) {
    Finding finding = about_trace(trace, std::move(message), std::move(fix), saving);
    finding.location.node = group.kernel->name;
    return finding;
  }
  TraceSite site = group.uses.front()->site;
  if (site.op.empty()) site.op = group.name;
  return about_site(trace, site, std::move(message), std::move(fix), saving);
}

std::vector<std::size_t> workload_ops_of(const RuleInput& input, const UseGroup& group) {
  std::vector<std::size_t> ops;
  for (std::size_t i = 0; i < input.workload.ops.size(); ++i) {
    const Op& op = input.workload.ops[i];
    const bool is_one = std::any_of(group.uses.begin(), group.uses.end(), [&](const OpUse* use) {
      return use->op && use->op->phase == op.phase && use->op->dtypes == op.dtypes &&
             use->op->body == op.body;
    });
    if (is_one) ops.push_back(i);
  }
  return ops;
}

std::string cost_text(const TraceSummary& trace, Seconds in_window) {
  const std::string share = share_text(in_window / trace.time.span);
  if (trace.steps.durations.empty()) {
    return fmt::format("{} ({} of the trace)", time_text(in_window), share);
  }
  return fmt::format("{} per step ({})", time_text(per_step(trace, in_window)), share);
}

std::string count_text(const TraceSummary& trace, std::int64_t in_window, std::string_view noun) {
  const std::size_t steps = trace.steps.durations.size();
  const auto counted = [&](const std::string& number) {
    if (number == "1") return fmt::format("1 {}", noun);
    if (noun.ends_with('y'))
      return fmt::format("{} {}ies", number, noun.substr(0, noun.size() - 1));
    return fmt::format("{} {}s", number, noun);
  };
  if (steps == 0) return counted(fmt::format("{}", in_window));
  const double each = static_cast<double>(in_window) / static_cast<double>(steps);
  if (each < 0.95)
    return fmt::format("{} in {} steps", counted(fmt::format("{}", in_window)), steps);
  const bool is_whole = in_window % static_cast<std::int64_t>(steps) == 0;
  return counted(fmt::format("{:.{}f}", each, is_whole || each >= 10 ? 0 : 1)) + " per step";
}

namespace {

constexpr double kHardly = 0.1;  // of a gain: what is left of it is none

// What sets the pace where it is not the GPU.
std::string_view pace_maker(const TraceSummary& trace) {
  const auto idle = [&](IdleCause cause) {
    const auto found = trace.time.idle_by_cause.find(cause);
    return found == trace.time.idle_by_cause.end() ? Seconds() : found->second;
  };
  const Seconds host =
      idle(IdleCause::launch) + idle(IdleCause::host_work) + idle(IdleCause::asleep);
  return idle(IdleCause::data_loading) > host ? "loader" : "host";
}

}  // namespace

void note_pace(const TraceSummary& trace, Finding& finding) {
  constexpr double kMostlyHost = 0.7;
  const double share = trace.kernel_time_share.value_or(1);
  if (share >= kMostlyHost || share < kHardly) return;
  finding.message +=
      fmt::format("; the {} sets the pace: about {} of kernel time saved shortens the step",
                  pace_maker(trace), share_text(share));
}

void put_off(const TraceSummary& trace, Finding& finding) {
  const double share =
      std::min(trace.kernel_time_share.value_or(1), trace.copy_time_share.value_or(1));
  const bool is_little =
      finding.saving && finding.saving->expected < kHardly * finding.saving->high;
  if (share >= kHardly || !is_little || finding.level == Level::error) return;
  finding.message += fmt::format("; nothing to gain before the {} is faster, then up to {}",
                                 pace_maker(trace), time_text(finding.saving->high));
  finding.saving.reset();
  finding.level = Level::info;
}

std::optional<double> kernels_between_waits(const TraceSummary& trace) {
  constexpr double kFew = 8;
  // One read of a value is a copy and a wait: two calls of the runtime, one event.
  std::map<std::string, std::int64_t> by_place;
  Seconds exposed;
  for (const SyncUse& sync : trace.syncs) {
    std::int64_t& count = by_place[sync.site.op + place_text(sync.site)];
    count = std::max(count, sync.count);
    exposed += sync.exposed;
  }
  std::int64_t waits = 0;
  for (const auto& [place, count] : by_place) waits += count;
  if (waits == 0 || !is_visible(trace, exposed)) return std::nullopt;
  const double kernels = static_cast<double>(table_count(trace, kernels_in_tables(trace)));
  const double between = kernels / static_cast<double>(waits);
  return between < kFew ? std::optional(between) : std::nullopt;
}

std::optional<double> rounds_of(const TraceSummary& trace, const SyncUse& sync) {
  constexpr std::uint64_t kFlag = 64;  // bytes
  const bool reads_flags = std::ranges::any_of(trace.copies, [&](const CopyUse& copy) {
    return copy.site == sync.site && copy.shape.kind == CopyKind::device_to_host &&
           2 * copy.count > sync.count &&
           copy.shape.bytes <= kFlag * static_cast<std::uint64_t>(copy.count);
  });
  return reads_flags ? kernels_between_waits(trace) : std::nullopt;
}

std::string pace_text(double kernels_between) {
  return kernels_between < 1.5 ? "after every kernel"
                               : fmt::format("every {:.2g} kernels", kernels_between);
}

namespace {

struct Maker {
  std::string_view op, call;
  bool draws = false;  // random numbers
};

constexpr std::array<Maker, 9> kMakers{{{"aten::normal_", "randn", true},
                                        {"aten::uniform_", "rand", true},
                                        {"aten::random_", "randint", true},
                                        {"aten::bernoulli_", "bernoulli", true},
                                        {"aten::randn", "randn", true},
                                        {"aten::rand", "rand", true},
                                        {"aten::randint", "randint", true},
                                        {"aten::fill_", "full"},
                                        {"aten::zero_", "zeros"}}};

const Maker* maker_named(std::string_view op) {
  const auto found = std::ranges::find(kMakers, op, &Maker::op);
  return found == kMakers.end() ? nullptr : &*found;
}

}  // namespace

std::optional<std::string_view> maker_of_tensors(std::string_view op) {
  const Maker* maker = maker_named(op);
  return maker == nullptr ? std::nullopt : std::optional(maker->call);
}

std::optional<Fix> made_on_gpu(std::string_view op) {
  const Maker* maker = maker_named(op);
  if (maker == nullptr) return std::nullopt;
  return Fix{fmt::format(
                 "Make the tensor on the GPU: torch.{}(..., device=\"cuda\"){}", maker->call,
                 maker->draws ? ", which draws other random numbers" : ", or once before the loop"),
             maker->draws ? Exactness::not_applicable : Exactness::bit_exact};
}

namespace {

bool is_in_engine(const TraceSite& site) {
  constexpr std::array<std::string_view, 3> kPackages{"vllm/", "sglang/", "tensorrt_llm/"};
  return std::ranges::any_of(kPackages, [&](std::string_view package) {
    return site.source.file.find(package) != std::string::npos;
  });
}

}  // namespace

bool is_served(const TraceSummary& trace) {
  constexpr std::array<std::string_view, 5> kLabels{"execute_context_", "execute_new_",
                                                    "gpu_model_runner: ", "step[", "[Executor]"};
  return trace.steps.source == StepSource::engine ||
         std::ranges::any_of(trace.annotations,
                             [&](const PlaceUse& range) {
                               return std::ranges::any_of(kLabels, [&](std::string_view label) {
                                 return range.name.starts_with(label);
                               });
                             }) ||
         std::ranges::any_of(trace.ops, is_in_engine, &OpUse::site) ||
         std::ranges::any_of(trace.syncs, is_in_engine, &SyncUse::site);
}

std::string place_text(const TraceSite& site) {
  if (site.source.line > 0) return fmt::format("{}:{}", site.source.file, site.source.line);
  return site.module.empty() ? site.op : site.module;
}

std::string group_text(const UseGroup& group) {
  if (group.uses.empty()) return "kernel " + short_kernel_name(group.kernel->name);
  std::string text = group.name;
  if (!group.shape.empty()) text += ' ' + group.shape;
  const TraceSite& site = group.uses.front()->site;
  if (site.module.empty() && site.source.line == 0) return text;
  text += " in " + place_text(site);
  const std::size_t more = group.uses.size() - 1;
  if (more > 0) text += fmt::format(" and {} more place{}", more, more > 1 ? "s" : "");
  return text;
}

}  // namespace rooftile
