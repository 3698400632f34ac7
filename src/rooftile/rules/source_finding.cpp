#include "rooftile/rules/source_finding.h"

#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/program_queries.h"

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

void add_edit(const std::optional<source::SourceEdit>& edit, Fix& fix) {
  if (!edit || edit->file->is_notebook) return;
  fix.edits.push_back({edit->file->path, edit->range.begin, edit->range.end, edit->replacement});
}

}  // namespace rooftile
