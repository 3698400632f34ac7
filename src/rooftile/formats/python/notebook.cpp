#include "rooftile/formats/python/notebook.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace rooftile::python {
namespace {

using Json = nlohmann::json;

// Nested deeper than any notebook; nlohmann's parser itself does not recurse.
constexpr int kDeepestJson = 64;

// A list of lines or one string.
std::string joined_source(const Json& source) {
  if (source.is_string()) return source.get<std::string>();
  std::string text;
  if (!source.is_array()) return text;
  for (const Json& line : source) {
    if (line.is_string()) text += line.get_ref<const std::string&>();
  }
  return text;
}

bool is_python_magic(std::string_view line) {
  constexpr std::string_view kCells[] = {"%%time", "%%timeit", "%%capture", "%%prun", "%%python"};
  return std::ranges::any_of(kCells, [&](std::string_view word) { return line.starts_with(word); });
}

// Overwrites with spaces what Python does not read, so that offsets stay.
void blank(std::string& text, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    if (text[i] != '\n' && text[i] != '\r') text[i] = ' ';
  }
}

// A magic at the start of a line: %matplotlib inline, !pip install, ?help, with the lines that a
// backslash adds to it. Inside of an indented block it leaves `pass`, so that the block is not
// empty.
void neutralise_magics(std::string& text) {
  bool other_language = false;
  bool first = true;
  bool goes_on = false;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    std::size_t start = begin;
    while (start < end && (text[start] == ' ' || text[start] == '\t')) ++start;
    const std::string_view line = std::string_view(text).substr(start, end - start);
    if (first && !line.empty()) {
      other_language = line.starts_with("%%") && !is_python_magic(line);
      first = false;
    }
    const bool starts = !line.empty() && (line[0] == '%' || line[0] == '!' || line[0] == '?');
    const bool magic = starts || goes_on;
    const bool indented = start > begin && end - start >= 4 && !other_language && !goes_on;
    goes_on = magic && line.ends_with('\\');
    if (other_language || magic) {
      blank(text, begin + (indented ? start - begin : 0), end);
      if (indented) text.replace(start, 4, "pass");
    }
    begin = end + 1;
  }
}

bool is_python(const Json& notebook) {
  const Json metadata = notebook.value("metadata", Json::object());
  if (!metadata.is_object()) return true;
  for (const char* key : {"kernelspec", "language_info"}) {
    const auto info = metadata.find(key);
    if (info == metadata.end() || !info->is_object()) continue;
    const auto language = info->find(std::string_view(key) == "kernelspec" ? "language" : "name");
    if (language == info->end() || !language->is_string()) continue;
    const std::string name = language->get<std::string>();
    return name.starts_with("python") || name.starts_with("ipython");
  }
  return true;
}

// Format 3 keeps cells in worksheets.
const Json* cells_of(const Json& notebook) {
  auto cells = notebook.find("cells");
  if (cells != notebook.end()) return cells->is_array() ? &*cells : nullptr;
  const auto sheets = notebook.find("worksheets");
  if (sheets == notebook.end() || !sheets->is_array() || sheets->empty()) return nullptr;
  const Json& sheet = (*sheets)[0];
  if (!sheet.is_object()) return nullptr;
  cells = sheet.find("cells");
  return cells != sheet.end() && cells->is_array() ? &*cells : nullptr;
}

bool is_code(const Json& cell) {
  const auto kind = cell.is_object() ? cell.find("cell_type") : cell.end();
  return cell.is_object() && kind != cell.end() && kind->is_string() && *kind == "code";
}

}  // namespace

Result<Notebook> read_notebook(std::string_view bytes) {
  const auto limit = [](int depth, Json::parse_event_t, Json&) { return depth <= kDeepestJson; };
  const Json json = Json::parse(bytes, limit, false);
  if (!json.is_object()) return fail("is no notebook: expected a JSON object");
  const Json* cells = cells_of(json);
  if (cells == nullptr) return fail("is no notebook: it has no list of cells");
  if (!is_python(json)) return fail("is a notebook of another language than Python");
  Notebook notebook;
  std::uint32_t number = 0;
  std::uint32_t line = 1;
  for (const Json& cell : *cells) {
    ++number;
    if (!is_code(cell)) continue;
    const auto source = cell.contains("source") ? cell.find("source") : cell.find("input");
    if (source == cell.end()) continue;
    std::string text = joined_source(*source);
    std::ranges::replace(text, '\0', ' ');
    neutralise_magics(text);
    if (!text.ends_with('\n')) text += '\n';
    const auto begin = static_cast<std::uint32_t>(notebook.text.size());
    notebook.text += text;
    notebook.cells.push_back(
        {number, line, begin, static_cast<std::uint32_t>(notebook.text.size())});
    line += static_cast<std::uint32_t>(std::ranges::count(text, '\n'));
  }
  return notebook;
}

}  // namespace rooftile::python
