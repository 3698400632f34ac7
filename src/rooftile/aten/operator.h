// ATen operators with their recorded arguments as operations of the neutral form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "rooftile/workload/op.h"
#include "rooftile/workload/timeline.h"

namespace rooftile {

// What an operator ("aten::addmm") computes. Most operators are one operation; the backward of a
// convolution is a dgrad and a wgrad as its output mask asks. Empty where the operator is not
// known or its arguments are incomplete or inconsistent: nothing is guessed.
//
// What the arguments do not tell: TF32 (the dtype is that of the tensors), and without strides the
// layouts, which then are those of contiguous tensors. The operator of a backward pass looks like a
// forward one: its phase is that of the operator's own name; see as_backward_of.
std::vector<Op> aten_ops(std::string_view name, const OpArguments& arguments);

// The only operation of the operator; empty where aten_ops gives none or several.
std::optional<Op> aten_op(std::string_view name, const OpArguments& arguments);

// A matrix product that ran in the backward pass of `forward`, also a product, as the dgrad or
// wgrad of that layer: its dims become the layer's. Empty where the sizes fit neither, or both with
// nothing to tell them apart: where strides were recorded, only a wgrad transposes its first
// operand.
std::optional<Op> as_backward_of(const Op& forward, const Op& product, bool has_strides);

// A matrix product that ran in a backward pass as the one gradient that it computes: of the layer
// `forward` where that is known and the sizes tell (as_backward_of), else of a layer that has its
// sizes. The other gradient of a product of two activations is an operator of its own.
Op as_gradient(Op product, const Op* forward, bool has_strides);

// Dtype of the first argument that is a tensor of a known type; empty where none is.
std::optional<Dtype> dtype_of_arguments(const OpArguments& arguments);

// Elements of the tensors in a list argument, by its position; empty where it is none.
std::vector<std::int64_t> elements_of_list(const OpArguments& arguments, std::size_t position);

}  // namespace rooftile
