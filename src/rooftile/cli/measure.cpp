// rooftile measure: constants of the time model for one GPU, from timings or from the GPU itself.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <ctime>

#include "gpu/points_file.h"
#include "rooftile/base/text.h"
#include "rooftile/cli/commands.h"
#include "rooftile/cli/inputs.h"
#include "rooftile/cli/measure_text.h"
#include "rooftile/cli/output.h"

namespace rooftile {
namespace {

constexpr int kWidestProgress = 60;  // columns

// A count of products, or empty for a file of timings.
Result<std::optional<std::size_t>> count_of(const std::string& points) {
  if (points.empty() || points == "quick") return gpu::kQuickPoints;
  if (points == "full") return gpu::kFullPoints;
  if (const auto count = parse_integer(points)) {
    if (*count >= 1 && *count <= static_cast<std::int64_t>(gpu::kFullPoints)) {
      return static_cast<std::size_t>(*count);
    }
    return fail(
        fmt::format("expected 1 to {}, quick, full or a file, found {}", gpu::kFullPoints, *count),
        "--points");
  }
  return std::nullopt;
}

std::string month() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), "%B %Y", &local);
  return text.data();
}

// Fits the points and writes the GPU file.
Result<std::string> write_calibrated(Device device, const std::vector<Op>& points,
                                     const MeasureCommand& command, const std::string& origin,
                                     const TextStyle& style) {
  CalibrationOptions options;
  options.origin = fmt::format("{}, {}", origin, month());
  const auto result = calibrate(device, points, options);
  if (!result) return tl::unexpected(result.error());
  device.time_model = result->time_model;
  const auto written = write_output(command.device_file, device_file_text(device));
  if (!written) return tl::unexpected(written.error());
  return fmt::format("{}{} written; use it with --gpu {}\n", calibration_text(*result, style),
                     command.device_file, command.device_file);
}

Result<Outcome> calibrate_from_file(const MeasureCommand& command, const TextStyle& style) {
  Result<Device> device = pick_device(command.input);
  if (!device) return tl::unexpected(device.error());
  const auto points = read(command.points, {});
  if (!points) return tl::unexpected(points.error());
  const auto told =
      write_calibrated(std::move(*device), points->ops, command, "timings of the user", style);
  if (!told) return tl::unexpected(told.error());
  return Outcome{*told};
}

// The GPU of this machine, and its description: the user's own where one is named.
Result<Device> description(const MeasureCommand& command, const gpu::Gpu& gpu) {
  const bool named = !command.input.gpu_file.empty() ||
                     (!command.input.gpu.empty() && command.input.gpu != "auto");
  if (!named) return gpu.device();
  return pick_device(command.input);
}

void show_progress(const gpu::Point& point, std::size_t number, std::size_t all) {
  if (::isatty(STDERR_FILENO) == 0) return;
  const std::string op = gpu::operation_text(point.item.op);
  fmt::print(stderr, "\r\x1b[K{}/{} {}", number, all, cut_end(op, kWidestProgress));
  if (number == all) fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
}

Result<gpu::SessionCounts> measure_into(gpu::Gpu& gpu, const gpu::Plan& plan, gpu::PointsFile& file,
                                        Seconds budget) {
  gpu::SessionOptions options;
  options.budget = budget;
  options.done = file.done();
  std::size_t number = options.done.size();
  return gpu::run_plan(gpu, plan, options, gpu::steady_clock(), [&](const gpu::Point& point) {
    show_progress(point, ++number, plan.size());
    return file.write(point);
  });
}

Result<Outcome> measure_gpu(const MeasureCommand& command, std::size_t points,
                            const TextStyle& style) {
  const auto gpu = gpu::open_gpu();
  if (!gpu) return tl::unexpected(gpu.error());
  Result<Device> device = description(command, **gpu);
  if (!device) return tl::unexpected(device.error());
  const auto plan = command.sweep.empty()
                        ? Result<gpu::Plan>(gpu::calibration_plan(points, *device))
                        : gpu::sweep_plan(command.sweep, *device);
  if (!plan) return tl::unexpected(plan.error());
  const std::string path = gpu::points_path(command.device_file);
  auto file = gpu::PointsFile::open(path, **gpu);
  if (!file) return tl::unexpected(file.error());
  const auto counts = measure_into(**gpu, *plan, *file, command.budget);
  if (!counts) return tl::unexpected(counts.error());
  const auto measured = read(path, {});
  if (!measured) return tl::unexpected(measured.error());
  const auto told =
      write_calibrated(std::move(*device), measured->ops, command, "measured by rooftile", style);
  // A sweep need not hold points that the model's constants can be fitted to.
  if (!told && command.sweep.empty()) return tl::unexpected(told.error());
  return Outcome{fmt::format("{}points in {}\n{}", session_text(*counts), path,
                             told ? *told : "no GPU file: " + to_string(told.error()) + "\n")};
}

Result<Outcome> measure_workload(const MeasureCommand& command, const TextStyle& style) {
  const auto workload = read_inputs(command.input);
  if (!workload) return tl::unexpected(workload.error());
  const auto gpu = gpu::open_gpu();
  if (!gpu) return tl::unexpected(gpu.error());
  const Result<Device> device = description(command, **gpu);
  if (!device) return tl::unexpected(device.error());
  const auto model = TimeModel::create(*device);
  if (!model) return tl::unexpected(model.error());
  std::vector<Finding> findings;
  if (command.verify) findings = check(*workload, *device).findings;
  gpu::Verifier verifier(**gpu, gpu::StopRule{}, gpu::steady_clock(), command.budget);
  const gpu::Verification verification = verifier.verify(*workload, findings, *model);
  return Outcome{verification_text(*workload, findings, verification, style)};
}

}  // namespace

Result<Outcome> run(const MeasureCommand& command, const TextStyle& style) {
  if (command.workload) return measure_workload(command, style);
  const auto points = count_of(command.points);
  if (!points) return tl::unexpected(points.error());
  return *points ? measure_gpu(command, **points, style) : calibrate_from_file(command, style);
}

}  // namespace rooftile
