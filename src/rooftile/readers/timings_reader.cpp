// Measured times as CSV: one operation a row. docs/formats/timings.md describes the columns.
#include "rooftile/readers/timings_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rooftile/base/file.h"
#include "rooftile/base/text.h"
#include "rooftile/readers/reader.h"
#include "rooftile/workload/encoded_name.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{32} << 20;

struct TimeColumn {
  std::string_view name;
  double seconds;
};
constexpr std::array<TimeColumn, 5> kTimeColumns{
    {{"time_us", 1e-6}, {"time_ms", 1e-3}, {"time_s", 1}, {"time_ns", 1e-9}, {"measured_s", 1}}};
// Columns that say something about a row and nothing about its operation.
constexpr std::array<std::string_view, 4> kComments{"gpu", "kernel", "note", "group"};

std::vector<std::string> lower_names(const std::vector<std::string>& cells) {
  std::vector<std::string> names;
  for (const std::string& cell : cells) names.push_back(lower(trim(cell)));
  return names;
}

// One line of RFC 4180: fields in quotes may hold commas and doubled quotes.
std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back() += '"';
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else if (c != '\r') {
      cells.back() += c;
    }
  }
  return cells;
}

struct Header {
  std::vector<std::string> names;
  std::size_t time = 0;
  double unit = 1;
  std::optional<std::size_t> op;

  std::optional<std::size_t> find(std::string_view name) const {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) return std::nullopt;
    return static_cast<std::size_t>(found - names.begin());
  }
};

// Empty where no column is a time.
std::optional<Header> parse_header(std::string_view line) {
  Header header;
  header.names = lower_names(cells_of(line));
  header.op = header.find("op");
  for (const TimeColumn& column : kTimeColumns) {
    if (const auto at = header.find(column.name)) {
      header.time = *at;
      header.unit = column.seconds;
      return header;
    }
  }
  return std::nullopt;
}

// "gemm bf16 m=1 n=2 k=3", with or without a name after the kind.
std::string named(std::string_view op, std::size_t row) {
  std::vector<std::string_view> words;
  for (const std::string_view word : split(op, ' ')) {
    if (!word.empty()) words.push_back(word);
  }
  const bool has_name = words.size() > 2 && words[2].find('=') == std::string_view::npos;
  if (words.size() < 2 || has_name) return std::string(op);
  std::string text = fmt::format("{} row{}", words[0], row);
  for (std::size_t i = 1; i < words.size(); ++i)
    fmt::format_to(std::back_inserter(text), " {}", words[i]);
  return text;
}

bool is_field(const Header& header, std::size_t column) {
  const std::string& name = header.names[column];
  const bool head = name == "kind" || name == "dtype" || name == "name";
  return !head && column != header.time && std::ranges::find(kComments, name) == kComments.end();
}

// The line of the text form that the row's columns spell.
std::string spelled(const Header& header, const std::vector<std::string>& cells, std::size_t row) {
  const auto cell = [&](std::string_view name, std::string otherwise) {
    const auto at = header.find(name);
    return at && !trim(cells[*at]).empty() ? std::string(trim(cells[*at])) : std::move(otherwise);
  };
  std::string text =
      fmt::format("{} {} {}", cell("kind", "gemm"),
                  encode_name(cell("name", fmt::format("row{}", row))), cell("dtype", "bf16"));
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (!is_field(header, i) || trim(cells[i]).empty()) continue;
    fmt::format_to(std::back_inserter(text), " {}={}", header.names[i], trim(cells[i]));
  }
  return text;
}

Result<Op> read_row(const Header& header, const std::string& line, std::size_t row) {
  const std::vector<std::string> cells = cells_of(line);
  if (cells.size() != header.names.size()) {
    return fail(fmt::format("found {} columns, expected {}", cells.size(), header.names.size()));
  }
  const auto time = parse_number(trim(cells[header.time]));
  if (!time || !(*time > 0) || *time * header.unit > 1e6) {
    return fail(fmt::format("{}: expected a time above 0, found {}", header.names[header.time],
                            rooftile::quoted(cells[header.time])));
  }
  const std::string text =
      header.op ? named(trim(cells[*header.op]), row) : spelled(header, cells, row);
  Result<Workload> one = parse_workload(text);
  if (!one) return fail(one.error().message);
  if (one->ops.size() != 1) return fail("expected one operation, found " + rooftile::quoted(text));
  Op op = std::move(one->ops.front());
  op.measured = Seconds(*time * header.unit);
  return op;
}

}  // namespace

Result<Workload> parse_timings(std::string_view text, const std::string& path) {
  Workload workload;
  workload.sources.push_back(path);
  std::optional<Header> header;
  std::size_t number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    if (trim(line).empty() || trim(line).starts_with('#')) continue;
    const std::string where = fmt::format("{}, line {}", path, number);
    if (!header) {
      header = parse_header(line);
      if (!header) return fail("found no column time_us, time_ms or time_s, expected one", where);
      continue;
    }
    Result<Op> op = read_row(*header, std::string(line), number);
    if (!op) return fail(op.error().message, where);
    op->source.file = path;
    op->source.line = static_cast<std::int64_t>(number);
    workload.ops.push_back(std::move(*op));
  }
  if (workload.ops.empty()) return fail("holds no measured operation", path);
  return workload;
}

namespace {

// A table whose first line names a time and what took it.
bool recognises_timings(std::string_view, std::string_view head) {
  for (const std::string_view line : split(head, '\n')) {
    if (trim(line).empty() || trim(line).starts_with('#')) continue;
    const auto header = parse_header(line);
    return header && (header->op || header->find("m") || header->find("kind"));
  }
  return false;
}

Result<Workload> read_timings(const std::string& path, const ReadOptions&) {
  const Result<std::string> text = read_file(path, kMaxBytes);
  if (!text) return tl::unexpected(text.error());
  return parse_timings(*text, path);
}

}  // namespace

extern const Reader timings_reader{
    .name = "timings", .recognises = recognises_timings, .read = read_timings};

}  // namespace rooftile
