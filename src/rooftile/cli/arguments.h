// The values of flags that are more than a word or a number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rooftile/rooftile.h"

namespace rooftile {

// "batch=8".
Result<std::pair<std::string, std::int64_t>> parse_named_size(std::string_view text);

// "pixel_values=1x3x224x224"; the last '=' separates, because names may hold one.
Result<std::pair<std::string, Extents>> parse_named_shape(std::string_view text);

// A dtype to run floating-point operations in, by the name that PyTorch, NumPy or a paper gives it:
// "bf16", "bfloat16", "torch.bfloat16", "half", "e4m3", "nvfp4". An error names the nearest.
Result<Dtype> parse_math_dtype(std::string_view text);

// "1:512" is 1, 2, 4 … up to 512; "1,3,8" is a list. Ascending, each once.
Result<std::vector<std::int64_t>> parse_sizes(std::string_view text);

// "2%" or "0.02" is 0.02.
Result<double> parse_share(std::string_view text);

// "40ms"; units ns, us, µs, ms, s, min.
Result<Seconds> parse_duration(std::string_view text);

// "512MiB"; units MiB and GiB, which MB and GB name too.
Result<std::size_t> parse_memory(std::string_view text);

}  // namespace rooftile
