#include "rooftile/reports/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace rooftile {
namespace {

constexpr std::string_view kGap = "  ";
constexpr int kNarrowestCut = 12;  // a column that gives way keeps this much

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Byte index of the code point number `columns`, or the end.
std::size_t byte_of_column(std::string_view text, int columns) {
  std::size_t index = 0;
  for (; index < text.size(); ++index) {
    if (is_continuation(text[index])) continue;
    if (columns-- == 0) break;
  }
  return index;
}

std::string spaces(int count) {
  return std::string(static_cast<std::size_t>(std::max(0, count)), ' ');
}

std::vector<int> natural_widths(const TextTable& table) {
  std::vector<int> widths;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    int width = display_width(table.columns[i].title);
    for (const auto& row : table.rows) width = std::max(width, display_width(row[i]));
    widths.push_back(width);
  }
  return widths;
}

// Index of the widest column that may still shrink, or the number of columns.
std::size_t widest_shrinkable(const TextTable& table, const std::vector<int>& widths) {
  std::size_t best = widths.size();
  for (std::size_t i = 0; i < widths.size(); ++i) {
    if (table.columns[i].cut == Cut::never || widths[i] <= kNarrowestCut) continue;
    if (best == widths.size() || widths[i] > widths[best]) best = i;
  }
  return best;
}

void shrink_to(const TextTable& table, int width, std::vector<int>& widths) {
  int total = static_cast<int>(kGap.size()) * (static_cast<int>(widths.size()) - 1);
  for (const int column : widths) total += column;
  for (; total > width; --total) {
    const std::size_t widest = widest_shrinkable(table, widths);
    if (widest == widths.size()) return;
    --widths[widest];
  }
}

std::string cell_text(const std::string& cell, const TableColumn& column, int width) {
  const std::string text = column.cut == Cut::middle ? cut_middle(cell, width)
                           : column.cut == Cut::end  ? cut_end(cell, width)
                                                     : cell;
  const std::string padding = spaces(width - display_width(text));
  return column.right_aligned ? padding + text : text + padding;
}

std::string row_text(const TextTable& table, const std::vector<std::string>& cells,
                     const std::vector<int>& widths, int indent) {
  std::string line = spaces(indent);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) line += kGap;
    line += cell_text(cells[i], table.columns[i], widths[i]);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

std::vector<std::string> titles(const TextTable& table) {
  std::vector<std::string> result;
  for (const TableColumn& column : table.columns) result.push_back(column.title);
  return result;
}

std::string markdown_row(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const std::string& cell : cells) {
    line += ' ';
    for (const char c : cell) {
      if (c == '|') line += '\\';
      line += c;
    }
    line += " |";
  }
  return line + '\n';
}

}  // namespace

int display_width(std::string_view text) {
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); }));
}

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool c1_control = byte == 0xC2 && i + 1 < text.size() &&
                            static_cast<unsigned char>(text[i + 1]) < 0xA0;  // U+0080 to U+009F
    if (c1_control) ++i;
    result += c1_control || byte < 0x20 || byte == 0x7F ? ' ' : text[i];
  }
  return result;
}

std::string cut_middle(const std::string& text, int width) {
  const int columns = display_width(text);
  if (columns <= width) return text;
  const int shown = std::max(width, 1) - 1, head = shown / 2;
  return text.substr(0, byte_of_column(text, head)) + "…" +
         text.substr(byte_of_column(text, columns - (shown - head)));
}

std::string cut_end(const std::string& text, int width) {
  if (display_width(text) <= width) return text;
  return text.substr(0, byte_of_column(text, std::max(width, 1) - 1)) + "…";
}

std::string wrapped(std::string_view text, int width, int indent) {
  const std::string margin = spaces(indent);
  std::string result, line;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    const bool full = width > 0 && indent + display_width(line) + 1 + display_width(word) > width;
    if (!line.empty() && full) {
      result += margin + line + '\n';
      line.clear();
    }
    if (!line.empty()) line += ' ';
    line += word;
  }
  return line.empty() ? result : result + margin + line + '\n';
}

std::string bar(double share, int width) {
  static constexpr std::array<std::string_view, 8> kEighths{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const long eighths = std::lround(std::clamp(share, 0.0, 1.0) * width * 8);
  std::string text;
  for (long i = 0; i < eighths / 8; ++i) text += "█";
  return text.append(kEighths[static_cast<std::size_t>(eighths % 8)]);
}

namespace {

// Names of kernels run to thousands of characters; CSV and JSON hold them whole.
void limit_cells(const TextTable& table, std::vector<int>& widths) {
  constexpr int kLongestCell = 120;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    if (table.columns[i].cut != Cut::never) widths[i] = std::min(widths[i], kLongestCell);
  }
}

}  // namespace

std::string table_text(const TextTable& table, int width, int indent) {
  std::vector<int> widths = natural_widths(table);
  if (width > 0) {
    shrink_to(table, width - indent, widths);
  } else {
    limit_cells(table, widths);
  }
  std::string result = row_text(table, titles(table), widths, indent);
  for (const auto& row : table.rows) result += row_text(table, row, widths, indent);
  return result;
}

std::string table_markdown(const TextTable& table) {
  std::string result = markdown_row(titles(table));
  result += '|';
  for (const TableColumn& column : table.columns) result += column.right_aligned ? "---:|" : "---|";
  result += '\n';
  for (const auto& row : table.rows) result += markdown_row(row);
  return result;
}

}  // namespace rooftile
