#include "gpu/points_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "rooftile/base/file.h"
#include "rooftile/base/text.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile::gpu {
namespace {

constexpr std::string_view kGpuComment = "# gpu: ";
constexpr std::string_view kColumns =
    "op,time_us,mad_us,p10_us,p90_us,repeats,operand_sets,sm_clock_mhz,memory_clock_mhz,power_w,"
    "temperature_c,throttle_reasons,kernel";
constexpr std::size_t kMaxBytes = std::size_t{256} << 20;

std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

std::string csv_field(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : one_line(text)) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string optional_text(const std::optional<double>& value) {
  return value ? fmt::format("{:.6g}", *value) : "";
}

template <class Q>
std::optional<double> scaled(const std::optional<Q>& quantity, double unit) {
  if (!quantity) return std::nullopt;
  return quantity->value() / unit;
}

std::string system_message() { return std::generic_category().message(errno); }

}  // namespace

Result<KnownPoints> read_known_points(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return KnownPoints{};
  const Result<std::string> text = read_file(path, kMaxBytes);
  if (!text) return tl::unexpected(text.error());
  KnownPoints known;
  if (text->empty()) return known;
  if (!text->starts_with(kGpuComment)) {
    return fail("found another kind of file, expected points of an earlier measurement", path);
  }
  for (const std::string_view line : split(*text, '\n')) {
    if (line.starts_with(kGpuComment)) known.gpu = trim(line.substr(kGpuComment.size()));
    // Operations hold no comma, so the first column ends at the first one.
    const auto op = parse_workload(line.substr(0, line.find(',')));
    if (op && op->ops.size() == 1) known.done.insert(operation_text(op->ops.front()));
  }
  return known;
}

std::string points_header(const Gpu& gpu) {
  std::string header = fmt::format("{}{}\n", kGpuComment, one_line(gpu.device().name));
  const std::string versions = gpu.versions();
  for (const std::string_view line : split(versions, '\n')) {
    if (!line.empty()) header += fmt::format("# {}\n", line);
  }
  return header + std::string(kColumns) + '\n';
}

std::string points_row(const Point& point) {
  const std::string op = operation_text(point.item.op);
  if (!point.measured())
    return fmt::format("# not measured: {}: {}\n", op, one_line(point.failure));
  const Summary& s = point.summary;
  const Conditions& c = point.conditions;
  return fmt::format(
      "{},{:.6g},{:.4g},{:.6g},{:.6g},{},{},{},{},{},{},{:#x},{}\n", op, to_microseconds(s.median),
      to_microseconds(s.mad), to_microseconds(s.p10), to_microseconds(s.p90), s.repeats,
      point.item.rotation.sets, optional_text(scaled(c.sm_clock, 1e6)),
      optional_text(scaled(c.memory_clock, 1e6)), optional_text(scaled(c.power, 1)),
      optional_text(c.temperature_celsius), c.throttle_reasons, csv_field(point.kernel));
}

std::string points_path(const std::string& device_path) {
  std::string stem = device_path;
  if (stem.ends_with(".json")) stem.resize(stem.size() - 5);
  return stem + ".points.csv";
}

Result<PointsFile> PointsFile::open(const std::string& path, const Gpu& gpu) {
  Result<KnownPoints> known = read_known_points(path);
  if (!known) return tl::unexpected(known.error());
  const std::string name = one_line(gpu.device().name);
  if (!known->gpu.empty() && known->gpu != name) {
    return fail(
        fmt::format("holds points of {}, this GPU is {}: name another output", known->gpu, name),
        path);
  }
  std::FILE* file = std::fopen(path.c_str(), "a");
  if (file == nullptr) return fail(system_message(), path);
  PointsFile opened(file, std::move(known->done), path);
  if (known->gpu.empty()) {
    if (const Result<void> header = opened.append(points_header(gpu)); !header) {
      return tl::unexpected(header.error());
    }
  }
  return opened;
}

Result<void> PointsFile::append(const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size() &&
                       std::fflush(file_.get()) == 0;
  if (!written) return fail(system_message(), path_);
  return {};
}

Result<void> PointsFile::write(const Point& point) { return append(points_row(point)); }

}  // namespace rooftile::gpu
