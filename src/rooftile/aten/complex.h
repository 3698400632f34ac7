// Complex numbers as pairs of real ones, which lie side by side in memory. For this folder only.
#pragma once

#include <optional>
#include <string_view>

#include "rooftile/aten/handlers.h"

namespace rooftile::aten_detail {

// Of "c10::complex<float>": the type of its two parts.
std::optional<Dtype> parse_complex(std::string_view type);

// The product of complex matrices; nothing where none of the arguments is complex.
Answer complex_product_op(std::string_view name, const Arguments& arguments);
// A pass over complex elements or a copy of them; likewise.
Answer complex_stream_op(std::string_view name, const Arguments& arguments);
// _fft_r2c, _fft_c2c and _fft_c2r.
Answer fourier_op(std::string_view name, const Arguments& arguments);

}  // namespace rooftile::aten_detail
