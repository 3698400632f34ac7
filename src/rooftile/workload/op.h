// One operation of a network: what it computes, at which shape, in which precision and phase.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "rooftile/base/units.h"
#include "rooftile/workload/tensor.h"

namespace rooftile {

// Which pass an operation belongs to. The dims of an operation are those of its layer; the phase
// says which product of the layer runs: out = x·wᵀ, dx = dout·w (dgrad) or dw = doutᵀ·x (wgrad).
// Operations without weights have a dgrad only.
enum class Phase { forward, dgrad, wgrad, optimizer };

// How the row-major operands of out[m,n] = x·w are stored: n means [m,k] for x and [k,n] for w,
// t the transpose. A Linear layer is nt. cuBLAS sees column-major tensors with w first, so nt here
// is its TN.
enum class GemmLayout { nn, nt, tn, tt };

// batch independent products out[m,n] = x[m,k]·w[k,n], 2·batch·m·n·k flop.
struct Gemm {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t batch = 1;
  GemmLayout layout = GemmLayout::nt;
  bool weight_is_parameter = true;  // false: w is an activation, as in attention products
  bool bias = false;
  // Elements between rows (of the stored matrix); 0 = dense.
  std::int64_t x_stride = 0, w_stride = 0, out_stride = 0;
  // Elements between the operand and a 256-byte aligned address.
  std::int64_t x_offset = 0, w_offset = 0, out_offset = 0;

  bool operator==(const Gemm&) const = default;
};

enum class TensorLayout { nchw, nhwc };

// 1-D to 3-D convolution: input [n, c, input...], weight [k, c/groups, kernel...]. A transposed
// convolution maps c input to k output channels and enlarges; its weight is [c, k/groups,
// kernel...].
struct Convolution {
  std::int64_t n = 0, c = 0, k = 0;
  Extents input, kernel;       // one size per spatial axis
  Extents stride, dilation;    // empty = 1
  Extents pad_begin, pad_end;  // empty = 0
  Extents output_pad;          // transposed only; empty = 0
  std::int64_t groups = 1;
  bool transposed = false;
  TensorLayout layout = TensorLayout::nchw;
  bool bias = false;

  bool operator==(const Convolution&) const = default;
};

// softmax(q·kᵀ·scale)·v for heads query heads sharing kv_heads key/value heads (GQA).
// query_len 1 with a longer kv_len is a decode step.
struct Attention {
  std::int64_t batch = 0, heads = 0, kv_heads = 0;
  std::int64_t query_len = 0, kv_len = 0;
  std::int64_t head_dim = 0, value_dim = 0;
  bool causal = false;
  std::int64_t window = 0;  // keys each query sees at most; 0 = all
  bool fused = true;        // false: scores are written to memory
  // The first value_dim elements of each key are its value, read once: a latent cache (MLA).
  bool values_in_keys = false;

  bool operator==(const Attention&) const = default;
};

enum class Cell { lstm, gru, rnn_tanh, rnn_relu };

// Input [seq, batch, input]; `directions` is 1 or 2; `projection` is 0 or the projected size.
// Packed sequences differ in length: `seq` is the longest, and the input has `tokens` rows.
struct Recurrent {
  Cell cell = Cell::lstm;
  std::int64_t batch = 0, seq = 0, input = 0, hidden = 0;
  std::int64_t layers = 1, directions = 1, projection = 0;
  bool packed = false;      // PyTorch's packed variable-length sequences
  std::int64_t tokens = 0;  // of all of them; 0 = batch·seq
  bool bias = true;

  bool operator==(const Recurrent&) const = default;
};

enum class NormKind { batch, layer, rms, instance, group, local_response };

// rows groups of cols elements share their statistics; for batch normalisation cols counts the
// channels and rows all other positions.
struct Normalization {
  NormKind fn = NormKind::layer;
  std::int64_t rows = 0, cols = 0;

  bool operator==(const Normalization&) const = default;
};

struct Softmax {
  std::int64_t rows = 0, cols = 0;

  bool operator==(const Softmax&) const = default;
};

enum class PoolKind { max, average };

struct Pooling {
  PoolKind fn = PoolKind::max;
  std::int64_t n = 0, c = 0;
  Extents input, output, kernel;

  bool operator==(const Pooling&) const = default;
};

// `inputs` full-size tensors of `elements` are read and one is written.
struct Elementwise {
  std::string fn;  // add, relu, gelu …
  std::int64_t elements = 0, inputs = 1;

  bool operator==(const Elementwise&) const = default;
};

struct Reduction {
  std::string fn;  // mean, sum, max …
  std::int64_t elements = 0, outputs = 0;

  bool operator==(const Reduction&) const = default;
};

// Rows by index; those of a bag are added up, and one row for each bag is written.
struct Embedding {
  std::int64_t vocab = 0, width = 0, lookups = 0;
  std::int64_t bags = 0;  // 0 = each row is written as it is

  bool operator==(const Embedding&) const = default;
};

// A copy that changes the order in memory: NCHW to NHWC, transpose, permute. `perm` may be empty.
struct LayoutConversion {
  std::int64_t elements = 0;
  Extents perm;

  bool operator==(const LayoutConversion&) const = default;
};

// From the operation's input dtype to its output dtype.
struct Cast {
  std::int64_t elements = 0;
  std::int64_t rows = 0;  // that the kernel converts one by one, as quantization does; 0 = any way

  bool operator==(const Cast&) const = default;
};

enum class CollectiveKind {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast,
  point_to_point
};
enum class Link { nvlink, pcie, network };

// `elements` counts the full tensor (the gathered one for all_gather).
struct Collective {
  CollectiveKind fn = CollectiveKind::all_reduce;
  std::int64_t elements = 0, ranks = 0;
  Link link = Link::nvlink;

  bool operator==(const Collective&) const = default;
};

enum class OptimizerKind { sgd, momentum, adam, adamw, adafactor };

// One step over all parameters: reads weights, gradients and state, writes weights and state.
struct OptimizerStep {
  OptimizerKind fn = OptimizerKind::adamw;
  std::int64_t parameters = 0;

  bool operator==(const OptimizerStep&) const = default;
};

// Anything else; its flop and bytes are 0 when the reader knows no better.
struct Other {
  std::string fn;
  std::int64_t flop = 0, bytes = 0;

  bool operator==(const Other&) const = default;
};

using Body = std::variant<Gemm, Convolution, Attention, Recurrent, Normalization, Softmax, Pooling,
                          Elementwise, Reduction, Embedding, LayoutConversion, Cast, Collective,
                          OptimizerStep, Other>;

// Few queries against a longer cache of keys, as in a decode step with or without speculation.
bool reads_cache(const Attention& attention);

// Elements that a fused kernel reads of each key and its value.
std::int64_t key_width(const Attention& attention);

// Operand precisions. The products run in the input's: int4 weights under bf16 activations are
// unpacked first.
struct Dtypes {
  Dtype input = Dtype::fp32, weight = Dtype::fp32, output = Dtype::fp32;

  constexpr Dtypes() = default;
  constexpr explicit Dtypes(Dtype all) : input(all), weight(all), output(all) {}
  constexpr Dtypes(Dtype in, Dtype w, Dtype out) : input(in), weight(w), output(out) {}
  bool operator==(const Dtypes&) const = default;
};

// How a memory-bound kernel walks through its tensors: it sets how many elements the SMs finish a
// clock, whatever the memory could deliver.
enum class Walk {
  usual,         // of the operation's kind
  contiguous,    // tensors of one type and order, several elements a load
  converting,    // the same of different types, one element a load
  strided,       // an operand that is broadcast or not dense; of a reduction: over outer axes
  transposed,    // operands whose fastest axes differ
  reordered,     // strided or transposed
  gathered,      // rows or elements by index
  concatenated,  // a batch of copies into one tensor
  scanned,       // running sums
  sorted
};

// What a recorded operator does in memory, where its kind and dims do not tell: operands of other
// types or sizes, kernels other than the usual ones.
struct Streams {
  Walk walk = Walk::usual;
  std::int64_t bytes = 0;     // read and written; 0 = what kind and dims tell
  std::int64_t elements = 0;  // that the kernel works on; 0 = likewise

  bool operator==(const Streams&) const = default;
};

// Where an operation comes from; empty or 0 where unknown.
struct Provenance {
  std::string file;
  std::int64_t line = 0;
  std::string node;    // the model's own name of it
  std::string module;  // module path: model.layers.3.mlp

  bool operator==(const Provenance&) const = default;
};

struct Op {
  std::string name;
  Body body;
  Dtypes dtypes;
  Phase phase = Phase::forward;
  Streams streams;         // of memory-bound kinds
  std::int64_t count = 1;  // how often it runs, one after the other (the same layer repeated)
  // Names of the values it reads (activations, not weights) and writes; empty where unknown.
  std::vector<std::string> inputs, outputs;
  Provenance source;
  std::optional<Seconds> measured;  // of one run

  bool operator==(const Op&) const = default;
};

// The kind's keyword in the text form: "gemm", "conv", "norm" …
std::string_view kind_name(const Body& body);

// Spatial output sizes of a convolution; a size below 1 means that the kernel does not fit.
Extents output_extents(const Convolution& conv);

// Trained weights of one run of the operation's layer, in elements (biases included).
double count_parameters(const Op& op);

// Matrix products with weights or without: gemm, conv, attention, recurrent.
bool is_matrix_op(const Op& op);

}  // namespace rooftile
