// The text form as an input format.
#include "rooftile/base/file.h"
#include "rooftile/base/text.h"
#include "rooftile/readers/reader.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{32} << 20;

// The first line that is no comment is an operation, even one with mistakes, or a header.
bool recognises_text(std::string_view path, std::string_view head) {
  if (path == "-" || path.ends_with(".workload")) return true;
  for (const std::string_view line : split(head, '\n')) {
    const std::string_view text = trim(line);
    if (text.empty() || text.front() == '#') continue;
    return is_operation_line(text) || parse_workload(text).has_value();
  }
  return false;
}

Result<Workload> read_text(const std::string& path, const ReadOptions&) {
  const Result<std::string> text = read_file(path, kMaxTextBytes);
  if (!text) return tl::unexpected(text.error());
  Result<Workload> workload = parse_workload(*text, path);
  if (workload && workload->ops.empty()) return fail("holds no operation", path);
  return workload;
}

}  // namespace

extern const Reader text_reader{.name = "text", .recognises = recognises_text, .read = read_text};

}  // namespace rooftile
