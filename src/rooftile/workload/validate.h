// What the dims of an operation must satisfy before any analysis sees them.
#pragma once

#include <optional>
#include <string>

#include "rooftile/workload/op.h"

namespace rooftile {

// Sizes above these are refused, so that index arithmetic stays within 64 bits; no tensor has them.
inline constexpr std::int64_t kMaxSize = 1'000'000'000'000;
inline constexpr std::int64_t kMaxExtent = 1'000'000'000;  // of one spatial axis
inline constexpr double kMaxElements = 1e16;               // of one tensor

// What is wrong with the dims ("groups=3 does not divide c=64"), or nothing. Readers call it for
// each operation they build, so that analyses need no checks of their own.
std::optional<std::string> find_invalid_dim(const Op& op);

}  // namespace rooftile
