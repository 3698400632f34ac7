#include "rooftile/cli/default_limits.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "rooftile/base/sanitized.h"

namespace rooftile {
namespace {

std::vector<std::string> files_of(const Command& command) {
  return std::visit(
      [](const auto& options) -> std::vector<std::string> {
        if constexpr (requires { options.input.files; }) return options.input.files;
        if constexpr (requires { options.files; }) return options.files;
        if constexpr (requires { options.before; }) return {options.before, options.after};
        return {};
      },
      command);
}

// What is in the files, about: text of traces compresses to a tenth.
double content_bytes(const std::string& path) {
  constexpr double kOfGzip = 10;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return 0;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return 0;
  return static_cast<double>(size) * (path.ends_with(".gz") ? kOfGzip : 1);
}

}  // namespace

RunLimits default_limits(const Command& command) {
  constexpr double kUsual = 256 << 20, kSecond = 20 << 20;  // bytes; a slow reader's in a second
  constexpr double kMemoryPerByte = 4;
  constexpr std::size_t kMemory = std::size_t{1} << 30U;
  constexpr std::chrono::milliseconds kTime{10'000}, kLongTime{60'000};
  constexpr int kSlower = kSanitized ? 30 : 1, kLarger = kSanitized ? 8 : 1;
  if (std::holds_alternative<MeasureCommand>(command)) return {};
  double bytes = 0;
  for (const std::string& file : files_of(command)) bytes += content_bytes(file);
  const double above = std::max(0.0, bytes - kUsual);
  const bool is_long =
      std::holds_alternative<FixCommand>(command) || std::holds_alternative<TuneCommand>(command);
  RunLimits limits;
  limits.time = ((is_long ? kLongTime : kTime) +
                 std::chrono::milliseconds(static_cast<std::int64_t>(1e3 * above / kSecond))) *
                kSlower;
  limits.memory_bytes = (kMemory + static_cast<std::size_t>(kMemoryPerByte * above)) * kLarger;
  return limits;
}

}  // namespace rooftile
