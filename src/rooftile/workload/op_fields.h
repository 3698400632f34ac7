// The keys of each operation kind in the text form: one list serves the parser, the writer and the
// error messages. A visitor gets required(key, size), optional(key, size, default), flag(key,
// bool), extents(key, sizes, default per axis or none), choice(key, enumerator, names) and
// word(key, string); `B` is the kind, const for a writer.
#pragma once

#include <array>
#include <concepts>
#include <string_view>
#include <type_traits>

#include "rooftile/workload/op.h"

namespace rooftile {

template <class B, class Kind>
concept IsKind = std::same_as<std::remove_const_t<B>, Kind>;

// Enumerators as spelled in text, in the enum's order.
inline constexpr std::array<std::string_view, 4> kPhaseNames{"forward", "dgrad", "wgrad",
                                                             "optimizer"};
inline constexpr std::array<std::string_view, 4> kGemmLayoutNames{"nn", "nt", "tn", "tt"};
inline constexpr std::array<std::string_view, 2> kTensorLayoutNames{"nchw", "nhwc"};
inline constexpr std::array<std::string_view, 4> kCellNames{"lstm", "gru", "rnn_tanh", "rnn_relu"};
inline constexpr std::array<std::string_view, 6> kNormKindNames{
    "batch", "layer", "rms", "instance", "group", "local_response"};
inline constexpr std::array<std::string_view, 2> kPoolKindNames{"max", "average"};
inline constexpr std::array<std::string_view, 6> kCollectiveKindNames{
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "point_to_point"};
inline constexpr std::array<std::string_view, 3> kLinkNames{"nvlink", "pcie", "network"};
inline constexpr std::array<std::string_view, 5> kOptimizerKindNames{"sgd", "momentum", "adam",
                                                                     "adamw", "adafactor"};
inline constexpr std::array<std::string_view, 2> kWeightNames{"activation", "parameter"};
inline constexpr std::array<std::string_view, 10> kWalkNames{
    "usual",     "contiguous", "converting",   "strided", "transposed",
    "reordered", "gathered",   "concatenated", "scanned", "sorted"};

template <class Visitor, IsKind<Gemm> B>
void visit_fields(Visitor& v, B& gemm) {
  v.required("m", gemm.m);
  v.required("n", gemm.n);
  v.required("k", gemm.k);
  v.optional("batch", gemm.batch, 1);
  v.choice("layout", gemm.layout, kGemmLayoutNames, GemmLayout::nt);
  v.choice("weight", gemm.weight_is_parameter, kWeightNames, true);
  v.flag("bias", gemm.bias, false);
  v.optional("x_stride", gemm.x_stride, 0);
  v.optional("w_stride", gemm.w_stride, 0);
  v.optional("out_stride", gemm.out_stride, 0);
  v.optional("x_offset", gemm.x_offset, 0);
  v.optional("w_offset", gemm.w_offset, 0);
  v.optional("out_offset", gemm.out_offset, 0);
}

template <class Visitor, IsKind<Convolution> B>
void visit_fields(Visitor& v, B& conv) {
  v.required("n", conv.n);
  v.required("c", conv.c);
  v.required("k", conv.k);
  v.extents("in", conv.input, std::nullopt);
  v.extents("kernel", conv.kernel, std::nullopt);
  v.extents("stride", conv.stride, 1);
  v.extents("dilation", conv.dilation, 1);
  v.extents("pad", conv.pad_begin, 0);
  v.extents_like("pad_end", conv.pad_end, conv.pad_begin);
  v.extents("output_pad", conv.output_pad, 0);
  v.optional("groups", conv.groups, 1);
  v.flag("transposed", conv.transposed, false);
  v.choice("layout", conv.layout, kTensorLayoutNames, TensorLayout::nchw);
  v.flag("bias", conv.bias, false);
}

template <class Visitor, IsKind<Attention> B>
void visit_fields(Visitor& v, B& attention) {
  v.required("batch", attention.batch);
  v.required("heads", attention.heads);
  v.optional("kv_heads", attention.kv_heads, attention.heads);
  v.required("q", attention.query_len);
  v.optional("kv", attention.kv_len, attention.query_len);
  v.required("d", attention.head_dim);
  v.optional("dv", attention.value_dim, attention.head_dim);
  v.flag("causal", attention.causal, false);
  v.optional("window", attention.window, 0);
  v.flag("fused", attention.fused, true);
  v.flag("values_in_keys", attention.values_in_keys, false);
}

template <class Visitor, IsKind<Recurrent> B>
void visit_fields(Visitor& v, B& rnn) {
  v.choice("cell", rnn.cell, kCellNames, Cell::lstm);
  v.required("batch", rnn.batch);
  v.required("seq", rnn.seq);
  v.required("input", rnn.input);
  v.required("hidden", rnn.hidden);
  v.optional("layers", rnn.layers, 1);
  v.optional("directions", rnn.directions, 1);
  v.optional("projection", rnn.projection, 0);
  v.flag("packed", rnn.packed, false);
  v.optional("tokens", rnn.tokens, 0);
  v.flag("bias", rnn.bias, true);
}

template <class Visitor, IsKind<Normalization> B>
void visit_fields(Visitor& v, B& norm) {
  v.choice("fn", norm.fn, kNormKindNames, NormKind::layer);
  v.required("rows", norm.rows);
  v.required("cols", norm.cols);
}

template <class Visitor, IsKind<Softmax> B>
void visit_fields(Visitor& v, B& softmax) {
  v.required("rows", softmax.rows);
  v.required("cols", softmax.cols);
}

template <class Visitor, IsKind<Pooling> B>
void visit_fields(Visitor& v, B& pool) {
  v.choice("fn", pool.fn, kPoolKindNames, PoolKind::max);
  v.required("n", pool.n);
  v.required("c", pool.c);
  v.extents("in", pool.input, std::nullopt);
  v.extents("out", pool.output, std::nullopt);
  v.extents("kernel", pool.kernel, std::nullopt);
}

template <class Visitor, IsKind<Elementwise> B>
void visit_fields(Visitor& v, B& elementwise) {
  v.word("fn", elementwise.fn);
  v.required("elements", elementwise.elements);
  v.optional("inputs", elementwise.inputs, 1);
}

template <class Visitor, IsKind<Reduction> B>
void visit_fields(Visitor& v, B& reduction) {
  v.word("fn", reduction.fn);
  v.required("elements", reduction.elements);
  v.required("outputs", reduction.outputs);
}

template <class Visitor, IsKind<Embedding> B>
void visit_fields(Visitor& v, B& embedding) {
  v.required("vocab", embedding.vocab);
  v.required("width", embedding.width);
  v.required("lookups", embedding.lookups);
  v.optional("bags", embedding.bags, 0);
}

template <class Visitor, IsKind<LayoutConversion> B>
void visit_fields(Visitor& v, B& conversion) {
  v.required("elements", conversion.elements);
  v.extents("perm", conversion.perm, -1);  // an axis list: any length, no default
}

template <class Visitor, IsKind<Cast> B>
void visit_fields(Visitor& v, B& cast) {
  v.required("elements", cast.elements);
  v.optional("rows", cast.rows, 0);
}

template <class Visitor, IsKind<Collective> B>
void visit_fields(Visitor& v, B& collective) {
  v.choice("fn", collective.fn, kCollectiveKindNames, CollectiveKind::all_reduce);
  v.required("elements", collective.elements);
  v.required("ranks", collective.ranks);
  v.choice("link", collective.link, kLinkNames, Link::nvlink);
}

template <class Visitor, IsKind<OptimizerStep> B>
void visit_fields(Visitor& v, B& step) {
  v.choice("fn", step.fn, kOptimizerKindNames, OptimizerKind::adamw);
  v.required("parameters", step.parameters);
}

template <class Visitor, IsKind<Other> B>
void visit_fields(Visitor& v, B& other) {
  v.word("fn", other.fn);
  v.optional("flop", other.flop, 0);
  v.optional("bytes", other.bytes, 0);
}

// Keys of every kind.
template <class Visitor, IsKind<Streams> S>
void visit_fields(Visitor& v, S& streams) {
  v.choice("walk", streams.walk, kWalkNames, Walk::usual);
  v.optional("moved_bytes", streams.bytes, 0);
  v.optional("walked", streams.elements, 0);
}

}  // namespace rooftile
