#include "rooftile/reports/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "rooftile/base/path.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/base/text.h"
#include "rooftile/reports/trace_words.h"

namespace rooftile {
namespace {

constexpr double kSmallKind = 0.005;  // share below which a kind has no row of its own

std::vector<std::string> kind_row(const KindShare& kind) {
  return {printable(kind.kind), count_text(kind.runs), time_text(kind.time),
          share_text(kind.share)};
}

// Of a GPU that is idle most of the time shares of the whole say little: they become shares of the
// time in which it works.
double scale_of_shares(const Report& report) {
  constexpr double kMostlyIdle = 0.5;
  if (report.traces.empty()) return 1;
  const TimeBreakdown& time = report.traces.front().time;
  if (time.gpu_busy <= Seconds() || time.gpu_busy >= kMostlyIdle * time.span) return 1;
  return time.span / time.gpu_busy;
}

// What was left out for one reason.
struct Skipped {
  std::int64_t count = 0;
  std::vector<std::pair<std::int64_t, std::string>> kinds;
};

// " (49 Add, 37 MatMul, 30 Transpose, …)", the most frequent first.
std::string kinds_text(Skipped skipped) {
  constexpr std::size_t kShown = 4;
  if (skipped.kinds.empty()) return "";
  std::stable_sort(skipped.kinds.begin(), skipped.kinds.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> parts;
  for (const auto& [count, kind] : skipped.kinds) {
    if (parts.size() == kShown) {
      parts.emplace_back("…");
      break;
    }
    parts.push_back(fmt::format("{} {}", count, printable(kind)));
  }
  return " (" + join(parts, ", ") + ')';
}

}  // namespace

std::string_view mode_name(Mode mode) { return kModeNames[static_cast<std::size_t>(mode)]; }

std::string_view severity_word(Level level, std::string_view minor) {
  if (level == Level::error) return "error";
  return level == Level::warning ? "warning" : minor;
}

std::string_view exactness_text(const Finding& finding) {
  switch (finding.fix.exactness) {
    case Exactness::bit_exact:
      return "same bits";
    case Exactness::exact_arithmetic:
      return "same result up to rounding";
    case Exactness::changes_numerics:
      return "changes the precision";
    case Exactness::changes_training:
      return finding.rule.starts_with("input_pipeline/")
                 ? "may change the order or augmentation of samples"
                 : "changes the model or its training";
    case Exactness::not_applicable:
      break;
  }
  return "";
}

std::string shown_path(const std::string& path) { return printable(normal_path(path)); }

PlaceText place_text(const Provenance& location, bool several_inputs) {
  PlaceText place;
  place.name = printable(location.node.empty() ? location.module : location.node);
  const std::string path = shown_path(location.file);
  if (location.line > 0) {
    place.path = fmt::format("{}:{}", path, location.line);
  } else if (several_inputs || place.name.empty()) {
    place.path = path;
  }
  return place;
}

std::string saving_text(const Finding& finding, const Report& report) {
  if (!finding.saving) return "";
  const Range<Seconds>& saving = *finding.saving;
  const std::string text = saving.low.value() > 0 ? "saves " + range_text(saving)
                                                  : "may save up to " + time_text(saving.high);
  const Seconds pass = finding.pass.value_or(report.total.expected);
  if (pass.value() <= 0) return text;
  return fmt::format("{}, likely {}", text, share_text(saving.expected / pass));
}

std::string skipped_text(const Report& report) {
  std::map<std::string, Skipped> by_reason;  // "unknown shape: MatMul" belongs to "unknown shape"
  for (const auto& [name, count] : report.skipped) {
    if (!is_missing_work(name)) continue;
    const std::size_t colon = name.find(": ");
    Skipped& skipped = by_reason[name.substr(0, colon)];
    skipped.count += count;
    if (colon != std::string::npos) skipped.kinds.emplace_back(count, name.substr(colon + 2));
  }
  std::vector<std::string> parts;
  for (const auto& [reason, skipped] : by_reason) {
    parts.push_back(
        fmt::format("{} × {}{}", skipped.count, printable(reason), kinds_text(skipped)));
  }
  return join(parts, ", ");
}

std::string scripts_text(const Report& report) {
  if (!report.scripts) return "";
  const SourceSummary& scripts = *report.scripts;
  std::string text =
      fmt::format("{} Python file{} with training code, {} lines", scripts.files,
                  scripts.files == 1 ? "" : "s", count_text(static_cast<double>(scripts.lines)));
  if (scripts.passed_over > 0) text += fmt::format("; {} without", scripts.passed_over);
  // What its run or its model shows says more: the loop may be a library's.
  const bool has_run = report.coverage.ops > 0 || !report.traces.empty();
  if (scripts.training == 0 && has_run) return text;
  return text + fmt::format("; {} of {} program{} train{} on a GPU", scripts.training,
                            scripts.programs, scripts.programs == 1 ? "" : "s",
                            scripts.training == 1 ? "s" : "");
}

std::string set_aside_text(const Report& report) {
  const SetAside& set_aside = report.set_aside;
  std::vector<std::string> parts;
  if (set_aside.allowed > 0) {
    parts.push_back(fmt::format("{} finding{} allowed by comments", set_aside.allowed,
                                set_aside.allowed == 1 ? "" : "s"));
  }
  if (set_aside.known > 0) {
    parts.push_back(fmt::format("{} known from the baseline", set_aside.known));
  }
  return join(parts, "; ");
}

std::string coverage_text(const Report& report) {
  if (report.coverage.ops <= 0 && report.scripts) return "";
  // Of a recording every operation has its measured time.
  if (!report.traces.empty() && report.coverage.ops_with_time == report.coverage.ops) return "";
  return fmt::format("{} of {} operations", count_text(report.coverage.ops_with_time),
                     count_text(report.coverage.ops));
}

// The largest saving among what changes the numbers, which is information where it is not asked
// for.
const Finding* largest_in_other_precision(const Report& report) {
  constexpr double kVisible = 0.05;  // of the pass
  const Finding* largest = nullptr;
  for (const Finding& finding : report.findings) {
    if (finding.fix.exactness != Exactness::changes_numerics) continue;
    // Scripts alone have no times, and then no finding is visibly large.
    if (!(expected_saving(finding) > kVisible * report.total.expected)) continue;
    if (largest == nullptr || expected_saving(finding) > expected_saving(*largest)) {
      largest = &finding;
    }
  }
  return largest;
}

// " (the largest part beside compute: communication, not overlapped, 5.3 %)": what stands without
// advice.
std::string without_advice(const Report& report) {
  constexpr double kVisible = 0.05;
  if (report.traces.empty()) return "";
  std::vector<PassPart> parts = pass_parts(report.traces.front(), report.traces.size() > 1);
  std::erase_if(parts, [](const PassPart& part) { return part.name == "compute"; });
  const auto largest = std::ranges::max_element(parts, {}, &PassPart::share);
  if (largest == parts.end() || largest->share < kVisible) return "";
  return fmt::format(" (the largest part beside compute: {}, {})", largest->name,
                     share_text(largest->share));
}

std::string nothing_found_text(const Report& report) {
  if (report.set_aside.known > 0) return "Nothing new.";
  if (const Finding* other = largest_in_other_precision(report);
      other != nullptr && report.not_judged_because.empty()) {
    return fmt::format("No change worth making in this precision; {} would save about {:.0f} %.",
                       other->rule, 100 * (expected_saving(*other) / report.total.expected));
  }
  if (report.launch_bound) {
    return fmt::format("No change worth making besides the launches{}.", without_advice(report));
  }
  if (report.not_judged_because.empty() && report.traces.empty()) return "No change worth making.";
  if (report.not_judged_because.empty()) {
    return fmt::format("No rule finds a change worth making{}.", without_advice(report));
  }
  return fmt::format("Not judged: {}.", printable(report.not_judged_because));
}

std::string options_text(const Report& report) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : report.options) {
    parts.push_back(printable(fmt::format("{} {}", name, value)));
  }
  return join(parts, ", ");
}

namespace {

// "bound by math 71 %, memory 25 %, latency 4 %": largest first, nothing below a hundredth.
std::string bound_line(const BoundShares& shares) {
  std::vector<std::pair<double, std::string_view>> parts{
      {shares.math, "math"},
      {shares.memory, "memory"},
      {shares.latency, "latency"},
      {shares.other, "communication or unknown"}};
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  constexpr double kVisible = 0.01;
  std::vector<std::string> words;
  for (const auto& [share, name] : parts) {
    if (share >= kVisible) words.push_back(fmt::format("{} {}", name, share_text(share)));
  }
  return words.empty() ? "" : "Time is bound by " + join(words, ", ");
}

}  // namespace

std::string_view fit_words(const std::string& verdict) {
  return verdict == "does_not_fit" ? "does not fit" : std::string_view(verdict);
}

std::string largest_batch_text(std::optional<std::int64_t> roomy, std::optional<std::int64_t> tight,
                               bool about) {
  if (tight.value_or(0) <= 0) return "";
  const auto number = [&](std::int64_t batch) {
    return about ? "about " + count_text(to_double(batch)) : std::to_string(batch);
  };
  if (roomy.value_or(0) <= 0) {
    return fmt::format("No batch leaves a tenth of it free; up to {} would be tight.",
                       number(*tight));
  }
  std::string text =
      fmt::format("Largest batch that leaves a tenth of it free: {}", number(*roomy));
  if (*tight > *roomy) text += fmt::format("; up to {} would be tight", number(*tight));
  return text + '.';
}

namespace {

std::string memory_parts(const MemorySummary& memory) {
  const std::pair<std::string_view, Bytes> parts[] = {
      {"weights", memory.weights},
      {"gradients", memory.gradients.expected},
      {"optimizer", memory.optimizer.expected},
      {"KV cache", memory.kv_cache.expected},
      {"recurrent state", memory.recurrent_state.expected},
      {"activations", memory.activations.expected},
      {"workspace", memory.workspace.expected}};
  std::vector<std::string> words;
  for (const auto& [name, bytes] : parts) {
    if (bytes > Bytes()) words.push_back(fmt::format("{} {}", name, bytes_text(bytes)));
  }
  return join(words, ", ");
}

std::string memory_line(const MemorySummary& memory) {
  std::string line = fmt::format("Memory {} of {} usable{}: {}; {}.", bytes_text(memory.total),
                                 bytes_text(memory.usable),
                                 memory.shared_with_cpu ? ", shared with what runs on the CPU" : "",
                                 fit_words(memory.verdict), memory_parts(memory));
  const std::string largest =
      largest_batch_text(memory.largest_batch, memory.largest_tight_batch, true);
  return largest.empty() ? line : line + " " + largest;
}

// Engines replay decode steps from CUDA graphs; scripts may not.
std::string decode_launch_line(const Report& report) {
  const Seconds kernels = report.total.expected;
  const std::string_view against = report.host.expected > kernels ? "longer than the GPU runs"
                                   : report.host.high > kernels
                                       ? "which may take longer than the GPU"
                                       : "which hides behind the kernels";
  return fmt::format(
      "The time is that of an engine with CUDA graphs. In eager mode PyTorch's host code needs {} "
      "to launch the {} operations, {}.",
      range_text(report.host), count_text(report.launches), against);
}

// "operations on Tensor Cores take 97 % of it, and wait for memory in 95 %"
std::string tensor_core_text(const Report& report) {
  constexpr double kVisible = 0.01;
  std::vector<std::string> waits;
  const auto& [memory, latency] = report.tensor_cores_wait_for;
  if (memory >= kVisible) waits.push_back("for memory in " + share_text(memory));
  if (latency >= kVisible) waits.push_back("for their latency in " + share_text(latency));
  std::string text =
      fmt::format("operations on Tensor Cores take {} of it", share_text(report.tensor_core_share));
  return waits.empty() ? text : text + ", and wait " + join(waits, ", ");
}

}  // namespace

std::vector<std::string> step_lines(const Report& report) {
  std::vector<std::string> lines;
  const std::string bounds = bound_line(report.bound_share);
  if (!bounds.empty() && is_sufficient(report.coverage)) {
    lines.push_back(fmt::format("{}; {}.", bounds, tensor_core_text(report)));
  }
  if (!report.memory.verdict.empty()) lines.push_back(memory_line(report.memory));
  if (report.launch_bound) {
    lines.push_back(fmt::format(
        "Launch-bound: without compilation PyTorch's host code needs {} to launch the {} "
        "operations, longer than the GPU runs. A CUDA graph, "
        "torch.compile(mode=\"reduce-overhead\") or a larger batch hides the launches.",
        range_text(report.host), count_text(report.launches)));
  } else if (report.mode == Mode::decode && is_sufficient(report.coverage)) {
    lines.push_back(decode_launch_line(report));
  }
  return lines;
}

TextTable kinds_table(const Report& report, bool with_bars) {
  const bool recorded = !report.traces.empty();
  const double scale = scale_of_shares(report);
  TextTable table{{{recorded ? "kernels" : "time goes to"},
                   {"runs", true},
                   {"time", true},
                   {scale != 1 ? "of busy time" : "share", true}},
                  {}};
  KindShare rest;
  rest.kind = "the rest";
  const KindShare* only = nullptr;
  std::vector<double> shares;  // by row
  std::vector<KindShare> kinds = report.kinds;
  for (KindShare& kind : kinds) kind.share *= scale;
  for (const KindShare& kind : kinds) {
    if (kind.share >= kSmallKind) {
      table.rows.push_back(kind_row(kind));
      shares.push_back(kind.share);
      continue;
    }
    only = rest.runs == 0 ? &kind : nullptr;
    rest.runs += kind.runs;
    rest.time += kind.time;
    rest.share += kind.share;
  }
  if (rest.runs > 0) {
    const KindShare& last = only != nullptr ? *only : rest;
    table.rows.push_back(kind_row(last));
    shares.push_back(last.share);
  }
  if (!with_bars) return table;
  constexpr int kBarWidth = 20;
  table.columns.push_back({});
  for (std::size_t i = 0; i < shares.size(); ++i) {
    table.rows[i].push_back(bar(shares[i], kBarWidth));
  }
  return table;
}

}  // namespace rooftile
