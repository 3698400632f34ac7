// One handler per kind of ATen operator. For this folder only.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "rooftile/aten/arguments.h"

namespace rooftile::aten_detail {

// Empty where the operator is not of the handler's kind; no operations where its arguments do not
// tell them. `name` is without "aten::".
using Answer = std::optional<std::vector<Op>>;

// PyTorch's number of a recurrent cell.
std::optional<Cell> parse_cell(const std::optional<std::int64_t>& mode);

Answer matrix_product_op(std::string_view name, const Arguments& arguments);
Answer convolution_op(std::string_view name, const Arguments& arguments);
Answer attention_op(std::string_view name, const Arguments& arguments);
Answer recurrent_op(std::string_view name, const Arguments& arguments);
Answer row_op(std::string_view name, const Arguments& arguments);  // norms and softmax
Answer pooling_op(std::string_view name, const Arguments& arguments);
Answer embedding_op(std::string_view name, const Arguments& arguments);
Answer special_op(std::string_view name, const Arguments& arguments);
Answer stream_op(std::string_view name, const Arguments& arguments);  // streams.inc

}  // namespace rooftile::aten_detail
