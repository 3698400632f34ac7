// The sizes of a transformer that its maker chooses, and the batch it runs at.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string_view>

namespace rooftile {

enum class ShapeSize { hidden, layers, heads, kv_heads, head_size, ffn, vocabulary, batch };
inline constexpr std::array<std::string_view, 8> kShapeSizeNames{
    "hidden", "layers", "heads", "kv_heads", "head_size", "ffn", "vocabulary", "batch"};

// Those that a model states; where head_size is not among them, heads share the hidden size.
using ModelShape = std::map<ShapeSize, std::int64_t>;

}  // namespace rooftile
