#include "tests/support/conclusions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <sstream>

#include "rooftile/analysis/memory/memory.h"
#include "rooftile/base/text.h"
#include "rooftile/workload/trace_summary_json.h"
#include "rooftile/workload/workload_text.h"
#include "tests/support/facts_text.h"
#include "tests/support/queries_text.h"

namespace rooftile {
namespace {

std::string digits(const Range<Seconds>& time) {
  return fmt::format("{:.3g} {:.3g} {:.3g}", time.low.value() * 1e6, time.expected.value() * 1e6,
                     time.high.value() * 1e6);
}

std::string digits(const Range<Bytes>& bytes) {
  return fmt::format("{:.3g} {:.3g} {:.3g}", bytes.low.value(), bytes.expected.value(),
                     bytes.high.value());
}

std::string time_text(const TimeEstimate& time) {
  std::string text =
      fmt::format(" {} us {}: {:.3g} {:.3g} {:.3g}", digits(time.time), to_string(time.bound),
                  time.launch.value() * 1e6, time.compute.value() * 1e6, time.memory.value() * 1e6);
  if (time.grid) {
    text += fmt::format(" tile {}x{} waves {:.3g}", time.grid->tile.rows, time.grid->tile.cols,
                        time.grid->waves);
  }
  if (time.split_k != 1) text += fmt::format(" split {}", time.split_k);
  if (time.winograd) text += " Winograd";
  return text;
}

std::string product_text(const MatrixProduct& one) {
  return fmt::format(" {}{}x{}x{}*{}*{} {}{} {}{} {}{}", one.part, one.m, one.n, one.k, one.batch,
                     one.repeats, one.a.contiguous_dim, one.a.contiguous, one.b.contiguous_dim,
                     one.b.contiguous, one.out.contiguous_dim, one.out.contiguous);
}

// Of an operation's text: all but the time that it ran, which has more digits than are compared.
std::string without_time(std::string text) {
  const std::size_t at = text.find(" measured_s=");
  if (at != std::string::npos) text.erase(at, text.find(' ', at + 1) - at);
  return text;
}

// The numbers of a sentence.
std::string numbers_of(std::string_view text) {
  std::string numbers;
  bool is_inside = false;
  for (const char c : text) {
    const bool is_digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (is_digit && !is_inside) numbers += ' ';
    is_inside = is_digit || (is_inside && c == '.');
    if (is_inside) numbers += c;
  }
  return numbers;
}

template <class T>
std::string digits(const std::optional<T>& number) {
  return number ? fmt::format("{:.4g}", static_cast<double>(*number)) : "-";
}

}  // namespace

std::string workload_line(const Workload& workload) {
  return fmt::format(
      "{} {} parameters {} batch {} sequence {} cache {} state {} weights {} notes {}",
      static_cast<int>(workload.mode), static_cast<int>(workload.graph),
      digits(workload.parameters), digits(workload.batch), digits(workload.sequence),
      digits(workload.kv_cache_bytes), digits(workload.recurrent_state_bytes),
      digits(workload.weight_bytes), workload.notes.size());
}

std::vector<std::string> operation_lines(const Workload& workload, const Analysis& analysis,
                                         const Device& device) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const OpAnalysis& op = analysis.ops[i];
    std::string line = without_time(std::string(trim(to_text(workload.ops[i]))));
    if (workload.ops[i].measured) {
      line += fmt::format(" ran {:.3g} us", workload.ops[i].measured->value() * 1e6);
    }
    line += fmt::format(": {:.3g} flop {:.3g} bytes", op.cost.flop.value(), op.cost.bytes.value());
    for (const MatrixProduct& product : op.products) line += product_text(product);
    if (op.time) line += time_text(*op.time);
    lines.push_back(std::move(line));
  }
  if (workload.ops.empty()) return lines;
  lines.push_back(workload_line(workload));
  const MemoryEstimate memory = estimate_memory(workload, device);
  lines.push_back(
      fmt::format("total {} memory {}: {:.3g}, {}, {}, {}, {}, {}, {}", digits(analysis.total),
                  to_string(memory.fit()), memory.weights.value(), digits(memory.gradients),
                  digits(memory.optimizer), digits(memory.activations), digits(memory.kv_cache),
                  digits(memory.recurrent_state), digits(memory.workspace)));
  return lines;
}

std::vector<std::string> summary_lines(const TraceSummary& summary) {
  std::vector<std::string> lines;
  std::istringstream in(write_trace_summary(summary));
  for (std::string line; std::getline(in, line);) {
    const std::size_t end = line.find_last_not_of(" ,");
    const std::string_view said = std::string_view(line).substr(0, end + 1);
    const auto ends = [&](std::string_view word) { return said.ends_with(word); };
    if (ends(": null") || ends(": 0") || ends(": 0.0") || ends(": []") || ends(": {}") ||
        ends(": \"\"") || ends(": false")) {
      continue;
    }
    lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> finding_lines(const std::vector<Finding>& findings) {
  std::vector<std::string> lines;
  for (const Finding& finding : findings) {
    const Provenance& at = finding.location;
    std::string line = fmt::format("{} {} {}{}:{} x{}", to_string(finding.level), finding.rule,
                                   at.file, at.node, at.line, finding.count);
    if (finding.saving) line += " saves " + digits(*finding.saving);
    line += " said" + numbers_of(finding.message) + ";" + numbers_of(finding.fix.text);
    for (const Evidence& evidence : finding.evidence) line += ";" + numbers_of(evidence.text);
    line += fmt::format(" {}", to_string(finding.fix.exactness));
    if (!finding.covered_by.empty()) line += " in " + finding.covered_by;
    for (const TextEdit& edit : finding.fix.edits) {
      line += fmt::format(" {}edit {}-{} '{}'", finding.fix.safe ? "safe " : "", edit.begin,
                          edit.end, edit.replacement);
    }
    for (char& c : line) c = c == '\n' ? '|' : c;
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<std::string> conclusions(const Workload& workload, const TimeModel& model) {
  const Analysis analysis = analyse(workload, model);
  const Graph graph(workload);
  const RuleInput input{workload, analysis, model, graph};
  std::vector<std::string> lines = finding_lines(run_rules(input, all_rules()));
  const auto add = [&](std::vector<std::string> more) {
    lines.insert(lines.end(), std::make_move_iterator(more.begin()),
                 std::make_move_iterator(more.end()));
  };
  add(operation_lines(workload, analysis, model.device()));
  for (const TraceSummary& trace : workload.traces) add(summary_lines(trace));
  for (const auto& [name, count] : workload.skipped) {
    lines.push_back(fmt::format("skipped {} x{}", name, count));
  }
  if (workload.source != nullptr) {
    add(query_lines(*workload.source));
    add(facts_lines(*workload.source));
  }
  return lines;
}

}  // namespace rooftile
