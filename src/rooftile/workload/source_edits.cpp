#include "rooftile/workload/source_edits.h"

#include <algorithm>

#include "rooftile/base/text.h"

namespace rooftile::source {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t'; }

std::uint32_t start_of_line(const File& file, std::uint32_t byte) {
  const auto after = std::ranges::upper_bound(file.line_starts, byte);
  return after == file.line_starts.begin() ? 0 : *std::prev(after);
}

// Behind the newline, or the end of the text.
std::uint32_t end_of_line(const File& file, std::uint32_t byte) {
  const auto after = std::ranges::upper_bound(file.line_starts, byte);
  return after == file.line_starts.end() ? static_cast<std::uint32_t>(file.text.size()) : *after;
}

// The spaces in front of what stands at `byte`; empty if something else stands before it.
std::optional<std::string_view> indentation(const File& file, std::uint32_t byte) {
  const std::string_view before = file.slice({start_of_line(file, byte), byte});
  if (!std::ranges::all_of(before, is_space)) return std::nullopt;
  return before;
}

// Whether nothing but a comment follows on the line.
bool ends_its_line(const File& file, std::uint32_t byte) {
  const std::string_view rest = trim(file.slice({byte, end_of_line(file, byte)}));
  return rest.empty() || rest[0] == '#';
}

std::string_view newline_of(const File& file) {
  const std::size_t at = file.text.find('\n');
  return at != std::string::npos && at > 0 && file.text[at - 1] == '\r' ? "\r\n" : "\n";
}

// The last argument that is written in the call.
const Argument* last_written(const Call& call) {
  const Argument* last = nullptr;
  for (const Argument& argument : call.arguments) {
    if (!argument.followed && (last == nullptr || argument.range.end > last->range.end)) {
      last = &argument;
    }
  }
  return last;
}

// Behind a comma and the spaces and comments before it; `from` if there is no comma.
std::uint32_t behind_comma(const File& file, std::uint32_t from, std::uint32_t limit) {
  std::uint32_t at = from;
  while (at < limit &&
         (is_space(file.text[at]) || file.text[at] == '\n' || file.text[at] == '\r')) {
    ++at;
  }
  return at < limit && file.text[at] == ',' ? at + 1 : from;
}

// A comment behind it, which another value would belie.
bool is_explained(const File& file, std::uint32_t byte) {
  std::string_view rest = trim(file.slice({byte, end_of_line(file, byte)}));
  if (rest.starts_with(',')) rest = trim(rest.substr(1));
  return rest.starts_with('#');
}

bool shares_lines(const Statement& statement) {
  const File& file = *statement.file;
  return !indentation(file, statement.range.begin) || !ends_its_line(file, statement.range.end);
}

}  // namespace

SourceEdit replace(const File& file, ByteRange range, std::string_view text) {
  return {&file, range, std::string(text)};
}

std::optional<SourceEdit> add_argument(const Call& call, std::string_view name,
                                       std::string_view value) {
  if (call.unknown_arguments || call.argument(name) != nullptr) return std::nullopt;
  if (call.close_paren <= call.open_paren) return std::nullopt;
  const File& file = *call.file;
  const std::string text = std::string(name) + "=" + std::string(value);
  const Argument* last = last_written(call);
  if (last == nullptr) return replace(file, {call.open_paren + 1, call.open_paren + 1}, text);
  // A lone generator has no parentheses of its own.
  if (last->range.end > call.close_paren) return std::nullopt;
  const std::uint32_t behind = behind_comma(file, last->range.end, call.close_paren);
  const bool has_comma = behind != last->range.end;
  const std::optional<std::string_view> own_line = indentation(file, last->range.begin);
  std::string inserted = has_comma ? "" : ",";
  if (own_line) {
    // The comment behind the argument stays with it.
    const std::uint32_t line_end = end_of_line(file, behind);
    const std::string_view rest = trim(file.slice({behind, line_end}));
    if (rest.starts_with('#') && line_end <= call.close_paren) {
      const ByteRange line{behind, line_end};
      std::string kept(file.slice(line));
      while (!kept.empty() && (kept.back() == '\n' || kept.back() == '\r')) kept.pop_back();
      return replace(file, {behind, behind + static_cast<std::uint32_t>(kept.size())},
                     inserted + kept + std::string(newline_of(file)) + std::string(*own_line) +
                         text + (has_comma ? "," : ""));
    }
    inserted.append(newline_of(file)).append(*own_line).append(text);
  } else {
    inserted.append(" ").append(text);
  }
  if (has_comma) inserted += ",";
  return replace(file, {behind, behind}, inserted);
}

std::optional<SourceEdit> replace_argument(const Call& call, const Argument& argument,
                                           std::string_view value) {
  if (argument.followed || argument.value == nullptr) return std::nullopt;
  if (is_explained(*call.file, argument.range.end)) return std::nullopt;
  return replace(*call.file, argument.value->range, value);
}

std::optional<SourceEdit> remove_argument(const Call& call, const Argument& argument) {
  if (argument.followed) return std::nullopt;
  const File& file = *call.file;
  ByteRange range = argument.range;
  const std::uint32_t behind = behind_comma(file, range.end, call.close_paren);
  if (behind != range.end) {
    range.end = behind;
    while (range.end < call.close_paren && is_space(file.text[range.end])) ++range.end;
    // A whole line goes with its newline.
    const bool whole = indentation(file, range.begin).has_value() && file.text[range.end] == '\n';
    if (whole) {
      range.begin = start_of_line(file, range.begin);
      ++range.end;
    }
    return replace(file, range, "");
  }
  std::uint32_t begin = range.begin;
  while (begin > call.open_paren + 1 &&
         std::string_view(", \t\r\n").find(file.text[begin - 1]) != std::string_view::npos) {
    --begin;
    if (file.text[begin] == ',') break;
  }
  if (file.text[begin] == ',') range.begin = begin;
  return replace(file, range, "");
}

std::optional<SourceEdit> insert_line_before(const Statement& statement, std::string_view line) {
  const File& file = *statement.file;
  const auto spaces = indentation(file, statement.range.begin);
  if (!spaces) return std::nullopt;
  const std::uint32_t at = start_of_line(file, statement.range.begin);
  return replace(file, {at, at}, std::string(*spaces).append(line).append(newline_of(file)));
}

std::optional<SourceEdit> insert_line_after(const Statement& statement, std::string_view line) {
  const File& file = *statement.file;
  const auto spaces = indentation(file, statement.range.begin);
  if (!spaces || !ends_its_line(file, statement.range.end)) return std::nullopt;
  const std::uint32_t at = end_of_line(file, statement.range.end);
  std::string text;
  if (at > 0 && file.text[at - 1] != '\n') text = newline_of(file);
  text.append(*spaces).append(line).append(newline_of(file));
  return replace(file, {at, at}, text);
}

std::optional<SourceEdit> remove_statement(const Statement& statement) {
  if (shares_lines(statement)) return std::nullopt;
  const File& file = *statement.file;
  if (statement.block.size() == 1 && statement.parent != nullptr) {
    return replace(file, statement.range, "pass");
  }
  return replace(
      file, {start_of_line(file, statement.range.begin), end_of_line(file, statement.range.end)},
      "");
}

Result<std::string> apply_edits(const File& file, std::vector<SourceEdit> edits) {
  std::ranges::stable_sort(edits, {}, [](const SourceEdit& edit) { return edit.range.begin; });
  std::string text;
  std::uint32_t at = 0;
  for (const SourceEdit& edit : edits) {
    if (edit.file != &file) return fail("an edit of another file", file.path);
    if (edit.range.begin < at || edit.range.end < edit.range.begin ||
        edit.range.end > file.text.size()) {
      return fail("edits that overlap", file.path);
    }
    text += file.slice({at, edit.range.begin});
    text += edit.replacement;
    at = edit.range.end;
  }
  text += file.slice({at, static_cast<std::uint32_t>(file.text.size())});
  return text;
}

}  // namespace rooftile::source
