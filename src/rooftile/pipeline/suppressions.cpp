#include "rooftile/pipeline/suppressions.h"

#include <fmt/format.h>

#include <algorithm>

#include "rooftile/base/text.h"

namespace rooftile {
namespace {

using source::File;
using source::Statement;
using source::Suppression;

// What a person writes is far below; a file that was made to be slow is not.
constexpr std::size_t kMaxComments = 10'000;  // in a file
constexpr std::size_t kMaxRules = 100;        // in a comment
constexpr std::size_t kMaxNotes = 50;

// First and last line.
struct Lines {
  std::int64_t first = 0, last = 0;

  bool contain(std::int64_t line) const { return first <= line && line <= last; }
};

std::int64_t line_of(const File& file, std::uint32_t byte) {
  return std::ranges::upper_bound(file.line_starts, byte) - file.line_starts.begin();
}

bool is_code(std::string_view line) {
  const std::string_view text = trim(line);
  return !text.empty() && text[0] != '#';
}

// The lines of a statement, of a compound one up to its colon.
Lines head_of(const Statement& statement) {
  const File& file = *statement.file;
  const std::int64_t first = line_of(file, statement.range.begin);
  const auto* body = &statement.body;
  if (statement.function_def != nullptr) body = &statement.function_def->body;
  if (statement.class_def != nullptr) body = &statement.class_def->body;
  if (body->empty()) {
    return {first, line_of(file, std::max(statement.range.begin + 1, statement.range.end) - 1)};
  }
  std::int64_t last = line_of(file, body->front()->range.begin);
  const auto line_text = [&](std::int64_t line) {
    const std::uint32_t begin = file.line_starts[static_cast<std::size_t>(line - 1)];
    return file.slice({begin, body->front()->range.begin});
  };
  // Comments between the colon and the body belong to the body.
  const std::string_view before = line_text(last);
  if (last > first && trim(before).empty()) {
    --last;
    while (last > first && !is_code(split(line_text(last), '\n').front())) --last;
  }
  return {first, last};
}

// The lines that a comment is about, besides its own.
Lines lines_about(const File& file, const Suppression& comment) {
  const std::int64_t line = comment.line;
  const auto below = std::ranges::partition_point(file.statements, [&](const Statement* statement) {
    return line_of(file, statement->range.begin) <= line;
  });
  const Statement* above = below == file.statements.begin() ? nullptr : *std::prev(below);
  for (; above != nullptr; above = above->parent) {
    const Lines head = head_of(*above);
    if (head.contain(line)) return head;
  }
  if (comment.own_line && below != file.statements.end()) return head_of(**below);
  return {line, line};
}

// "train.py:12", or "study.ipynb, cell 3, line 2".
std::string place_of(const File& file, const Suppression& comment) {
  const source::Place place = file.place(file.line_starts[comment.line - 1]);
  if (place.cell == 0) return fmt::format("{}:{}", file.path, place.line);
  return fmt::format("{}, cell {}, line {}", file.path, place.cell, place.line);
}

bool is_known_rule(std::string_view pattern) {
  return std::ranges::any_of(all_rules(),
                             [&](const Rule* rule) { return is_named(*rule, pattern); });
}

// Whether all rules of the pattern were run, so that silence means something.
bool was_run(std::string_view pattern, std::span<const Rule* const> rules) {
  return std::ranges::all_of(all_rules(), [&](const Rule* rule) {
    return !is_named(*rule, pattern) || std::ranges::find(rules, rule) != rules.end();
  });
}

class Comments {
 public:
  Comments(std::span<const Rule* const> rules, Report& report) : rules_(rules), report_(report) {}

  void apply(const File& file, const Suppression& comment) {
    if (!comment.problem.empty()) return note(file, comment, comment.problem);
    const Lines lines = lines_about(file, comment);
    if (comment.rules.size() > kMaxRules) return note(file, comment, "too many rules");
    for (const std::string_view pattern : comment.rules) {
      if (!is_known_rule(pattern)) {
        note(file, comment, fmt::format("no rule {} to allow", rooftile::quoted(pattern)));
      } else if (!take_out(file, comment.line, lines, pattern) && was_run(pattern, rules_)) {
        report_.set_aside.unused_comments.push_back(
            fmt::format("{}: {}", place_of(file, comment), pattern));
      }
    }
  }

 private:
  bool take_out(const File& file, std::int64_t own_line, const Lines& lines,
                std::string_view pattern) {
    const auto taken = std::erase_if(report_.findings, [&](const Finding& finding) {
      const std::int64_t line = finding.spot.line;
      return line > 0 && (line == own_line || lines.contain(line)) &&
             finding.location.file == file.path && is_of_rule(finding, pattern);
    });
    report_.set_aside.allowed += static_cast<std::int64_t>(taken);
    return taken > 0;
  }

  void note(const File& file, const Suppression& comment, const std::string& problem) {
    if (++notes_ > kMaxNotes) return;
    report_.notes.push_back(
        fmt::format("{}: comment not understood: {}", place_of(file, comment), problem));
  }

  std::span<const Rule* const> rules_;
  Report& report_;
  std::size_t notes_ = 0;
};

}  // namespace

void set_aside_allowed(const SourceFacts& facts, std::span<const Rule* const> rules,
                       Report& report) {
  Comments comments(rules, report);
  for (const auto& file : facts.files) {
    const std::size_t count = std::min(file->suppressions.size(), kMaxComments);
    for (const Suppression& comment : std::span(file->suppressions).first(count)) {
      comments.apply(*file, comment);
    }
  }
}

}  // namespace rooftile
