// Text on a terminal: display widths, wrapping, tables.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rooftile {

// Columns the text takes: one per code point.
int display_width(std::string_view text);

// Control characters become spaces: names in hostile files must not drive a terminal.
std::string printable(std::string_view text);

// At most `width` columns, with "…" for what is left out: the ends of a name say most.
std::string cut_middle(const std::string& text, int width);
std::string cut_end(const std::string& text, int width);

// Breaks at spaces; every line is indented and ends in '\n'. `width` 0 never breaks.
std::string wrapped(std::string_view text, int width, int indent = 0);

// Where a column gives way when the table is wider than the terminal.
enum class Cut { never, middle, end };

struct TableColumn {
  std::string title;
  bool right_aligned = false;
  Cut cut = Cut::never;
};

struct TextTable {
  std::vector<TableColumn> columns;
  std::vector<std::vector<std::string>> rows;  // one cell per column
};

// "██████▌" for a share of 1 at `width` columns, to the eighth of a column.
std::string bar(double share, int width);

// Title line and rows; `width` 0 is unlimited but for very long cells. Lines are never broken:
// columns that may be cut give way.
std::string table_text(const TextTable& table, int width = 0, int indent = 0);

// GitHub's table form; '|' in cells is escaped.
std::string table_markdown(const TextTable& table);

}  // namespace rooftile
