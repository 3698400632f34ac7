#include "rooftile/rules/source_finding.h"

#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/step_waits.h"

namespace rooftile {
namespace {

using source::Call;
using source::Expr;
using source::File;
using source::Place;
using source::Statement;

constexpr std::size_t kMaxCode = 60;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

std::string place_text(const File& file, std::uint32_t byte, const File& from) {
  const Place place = file.place(byte);
  if (&file != &from) {
    return fmt::format("{}:{}", file.path.substr(file.path.rfind('/') + 1), place.line);
  }
  if (place.cell != 0) return fmt::format("cell {}, line {}", place.cell, place.line);
  return fmt::format("line {}", place.line);
}

// The line of a byte, without the newline.
std::string_view line_around(const File& file, std::uint32_t byte) {
  const std::string_view text = file.text;
  const std::size_t begin = text.substr(0, byte).rfind('\n') + 1;  // npos + 1 is 0
  return text.substr(begin, std::min(text.find('\n', byte), text.size()) - begin);
}

std::string with_single_spaces(std::string_view code) {
  std::string text;
  for (const char c : code) {
    if (!is_blank(c)) {
      text += c;
    } else if (!text.empty() && text.back() != ' ') {
      text += ' ';
    }
  }
  if (text.ends_with(' ')) text.pop_back();
  return text;
}

// Of UTF-8 text, which File::text is.
std::int64_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
}

SourceSpot spot_of(const File& file, std::uint32_t byte) {
  const std::string_view line = line_around(file, byte);
  const auto start = static_cast<std::size_t>(line.data() - file.text.data());
  SourceSpot spot;
  spot.line = std::ranges::upper_bound(file.line_starts, byte) - file.line_starts.begin();
  if (!file.is_notebook) {
    const std::string_view before = std::string_view(file.text).substr(start, byte - start);
    spot.column = 1 + count_characters(before);
  }
  spot.code = with_single_spaces(line);
  return spot;
}

}  // namespace

Finding finding_at(const File& file, std::uint32_t byte, std::string_view node, std::string message,
                   Fix fix) {
  const Place place = file.place(byte);
  Finding finding;
  finding.message = std::move(message);
  if (place.cell != 0) {
    finding.message += fmt::format(" (cell {}, line {})", place.cell, place.line);
  }
  finding.location = {file.path, static_cast<std::int64_t>(place.line), std::string(node), ""};
  finding.fix = std::move(fix);
  finding.spot = spot_of(file, byte);
  finding.spot.cell = place.cell;
  return finding;
}

Finding finding_at(const Call& call, std::string message, Fix fix) {
  const std::string_view function = call.function != nullptr ? call.function->name : "";
  return finding_at(*call.file, call.open_paren, function, std::move(message), std::move(fix));
}

Finding finding_at(const Statement& statement, std::string message, Fix fix) {
  const std::string_view function = statement.function != nullptr ? statement.function->name : "";
  return finding_at(*statement.file, statement.range.begin, function, std::move(message),
                    std::move(fix));
}

std::string place_text(const Call& call, const File& from) {
  return place_text(*call.file, call.open_paren, from);
}

std::string place_text(const Statement& statement, const File& from) {
  return place_text(*statement.file, statement.range.begin, from);
}

std::string code_text(const File& file, const Expr* expr) {
  if (expr == nullptr) return "the value";
  std::string text = with_single_spaces(file.slice(expr->range));
  if (text.size() <= kMaxCode) return text;
  // The end says what is done with it: "criterion(...).item()".
  constexpr std::size_t kEnd = kMaxCode / 3;
  return text.substr(0, kMaxCode - 3 - kEnd) + "..." + text.substr(text.size() - kEnd);
}

std::string_view whole_code(const File& file, const Expr* expr) {
  return expr == nullptr ? std::string_view() : file.slice(expr->range);
}

std::string receiver_text(const Call& call) { return code_text(*call.file, call.receiver); }

void add_of_evaluation(std::vector<Finding> of_evaluation, std::vector<Finding>& findings) {
  const std::size_t of_training = findings.size();
  for (Finding& finding : of_evaluation) {
    const auto end = findings.begin() + static_cast<std::ptrdiff_t>(of_training);
    const bool is_beside = std::any_of(findings.begin(), end, [&](const Finding& other) {
      return other.location.file == finding.location.file && other.own_level != Level::info;
    });
    if (!is_beside) finding.own_level = Level::info;
    findings.push_back(std::move(finding));
  }
}

void add_step(const source::SourceFacts& facts, const Statement& wait, Finding& finding) {
  const auto loops = source::step_loops_of(facts, wait);
  if (loops.empty()) return;
  const source::Loop& loop = *loops.front();
  const Place place = loop.file->place(loop.statement->range.begin);
  finding.step = place.cell == 0
                     ? fmt::format("{}:{}", loop.file->path, place.line)
                     : fmt::format("{}, cell {}, line {}", loop.file->path, place.cell, place.line);
}

void add_edit(const std::optional<source::SourceEdit>& edit, Fix& fix) {
  if (!edit || edit->file->is_notebook || edit->file->is_configuration) return;
  fix.edits.push_back({edit->file->path, edit->range.begin, edit->range.end, edit->replacement});
}

}  // namespace rooftile
