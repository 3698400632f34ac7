// Keeps products of sizes within 64 bits before any operation is built.
#pragma once

#include "rooftile/readers/hf_config/description.h"

namespace rooftile::hf {

// Rows of a tower and elements of one tensor; beyond any machine, and far from 64 bits.
inline constexpr double kMaxRows = 1e10;
inline constexpr double kMaxTensor = 1e16;

// An upper bound of the elements that the layer's widest tensor has in one row.
double widest_row(const Layer& layer);

// Elements of the convolution's output; infinite where it has none.
double output_elements(const Convolution& conv);

}  // namespace rooftile::hf
