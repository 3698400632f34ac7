// Readers turn a file into a workload.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "rooftile/base/result.h"
#include "rooftile/workload/workload.h"

namespace rooftile {

// What the user says about dimensions and precision that a file leaves open.
struct ReadOptions {
  std::optional<std::int64_t> batch, seq;
  std::map<std::string, std::int64_t> dims;  // --dim NAME=VALUE
  std::map<std::string, Extents> shapes;     // --shape INPUT=1x3x224x224
  std::optional<Dtype> dtype;                // --dtype: floating-point operations run in this one
  Mode mode = Mode::inference;
  // Useful work for the time while another process reads; a reader without one does not call it.
  std::function<void()> meanwhile;
};

struct Reader {
  std::string_view name;  // "onnx"
  // Whether the first bytes (up to 4 KiB) or the file name look like this format.
  bool (*recognises)(std::string_view path, std::string_view head);
  // `path` may be "-" for standard input where the format is text.
  Result<Workload> (*read)(const std::string& path, const ReadOptions& options);
};

// In the order in which they are asked.
std::span<const Reader* const> all_readers();

// Picks the reader and reads. In the place of a path, "gemm a bf16 m=1 n=2 k=3" is read itself, if
// there is no such file. A file no reader knows is refused by what it is ("a JPEG image").
Result<Workload> read_workload(const std::string& path, const ReadOptions& options);

}  // namespace rooftile
