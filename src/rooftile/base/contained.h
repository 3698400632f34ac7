// Runs work on hostile input in a child process, so that a crash of a library is an error of ours.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "rooftile/base/result.h"

namespace rooftile {

struct ContainedLimits {
  std::size_t memory_bytes = std::size_t{4} << 30U;  // address space; not under AddressSanitizer
  unsigned cpu_seconds = 60;
  std::size_t answer_bytes = std::size_t{128} << 20U;
};

// The bytes or the error that `work` returns. A child that crashes, or reaches a limit, gives an
// error that starts with `subject`: "the ONNX library". `meanwhile` runs here beside the child.
Result<std::string> run_contained(const std::function<Result<std::string>()>& work,
                                  std::string_view subject, const ContainedLimits& limits = {},
                                  const std::function<void()>& meanwhile = {});

}  // namespace rooftile
