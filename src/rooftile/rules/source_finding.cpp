#include "rooftile/rules/source_finding.h"

#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/program_queries.h"

namespace rooftile {
namespace {

using source::ByteRange;
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
    const std::size_t slash = file.path.rfind('/');
    return fmt::format(
        "{}:{}", slash == std::string::npos ? file.path : file.path.substr(slash + 1), place.line);
  }
  if (place.cell != 0) return fmt::format("cell {}, line {}", place.cell, place.line);
  return fmt::format("line {}", place.line);
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
  std::string text;
  for (const char c : file.slice(expr->range)) {
    if (!is_blank(c)) {
      text += c;
    } else if (!text.empty() && text.back() != ' ') {
      text += ' ';
    }
  }
  if (text.size() <= kMaxCode) return text;
  return text.substr(0, kMaxCode - 3) + "...";
}

std::string receiver_text(const Call& call) { return code_text(*call.file, call.receiver); }

void replace(const File& file, ByteRange range, std::string text, Fix& fix) {
  if (file.is_notebook) return;
  fix.edits.push_back({file.path, range.begin, range.end, std::move(text)});
}

void insert_argument(const Call& call, std::string_view text, Fix& fix) {
  const std::string_view source = call.file->text;
  std::size_t end = call.close_paren;
  while (end > call.open_paren + 1 && is_blank(source[end - 1])) --end;
  const char last = source[end - 1];
  const std::string_view before = last == '(' ? "" : last == ',' ? " " : ", ";
  const auto at = static_cast<std::uint32_t>(end);
  // A comment may end the last line of the arguments.
  if (source.substr(call.open_paren, end - call.open_paren).find('#') != source.npos) return;
  replace(*call.file, {at, at}, fmt::format("{}{}", before, text), fix);
}

void remove_argument(const Call& call, const source::Argument& argument, Fix& fix) {
  if (argument.followed || argument.unpacked) return;
  const std::string_view source = call.file->text;
  std::uint32_t begin = argument.range.begin;
  std::uint32_t end = argument.range.end;
  std::uint32_t after = end;
  while (after < call.close_paren && is_blank(source[after])) ++after;
  if (source[after] == ',') {
    end = after + 1;
    while (end < call.close_paren && is_blank(source[end])) ++end;
    if (source[end] == '#') return;
  } else {
    while (begin > call.open_paren + 1 && is_blank(source[begin - 1])) --begin;
    if (source[begin - 1] == ',') --begin;
  }
  replace(*call.file, {begin, end}, "", fix);
}

void remove_statement(const Statement& statement, Fix& fix) {
  if (statement.block.size() < 2) return;
  const std::string_view source = statement.file->text;
  std::size_t begin = statement.range.begin;
  while (begin > 0 && (source[begin - 1] == ' ' || source[begin - 1] == '\t')) --begin;
  std::size_t end = statement.range.end;
  while (end < source.size() &&
         (source[end] == ' ' || source[end] == '\t' || source[end] == '\r')) {
    ++end;
  }
  const bool is_alone =
      (begin == 0 || source[begin - 1] == '\n') && (end == source.size() || source[end] == '\n');
  if (!is_alone) return;
  if (end < source.size()) ++end;
  replace(*statement.file, {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)}, "",
          fix);
}

}  // namespace rooftile
