// What operators that wait for memory read and write. For streams.cpp and movement.cpp.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "rooftile/aten/arguments.h"

namespace rooftile::aten_detail {

enum class StreamKind {
  pointwise,
  reduce,
  loss,
  scan,
  sort,
  gather,
  select,
  scatter,
  put,
  concat,
  lists,
  resize
};

struct StreamRow {
  StreamKind kind;
  std::string_view reads, results, names;
};

// An operator with its row and arguments.
struct StreamCall {
  const StreamRow& row;
  std::string_view name;  // without the mark of work in place
  const Arguments& arguments;
  bool in_place = false;

  std::string_view reads() const { return row.reads.substr(0, row.reads.find(',')); }
  // The position behind the comma.
  std::size_t detail_at() const { return static_cast<std::size_t>(row.reads.back() - '0'); }
  Phase phase() const;
};

inline std::size_t position(char digit) { return static_cast<std::size_t>(digit - '0'); }

std::vector<Tensor> tensors_read(const StreamCall& call);
// Whether dims and shape fit together; shape becomes what they have in common.
bool broadcast(const Extents& dims, Extents& shape);
// The type of a result that is as large as what is read; `letter` as in the table.
Dtype result_type(char letter, Dtype common);
double size_of(double elements, Dtype dtype);  // bytes
double bytes_read(const std::vector<Tensor>& tensors);
// Of tensors of one shape; those without strides count as contiguous.
Walk walk_of(const std::vector<Tensor>& tensors);

// Axes from the slowest to the fastest in memory, without those of size 1 and those that the source
// repeats (stride 0).
std::vector<std::size_t> memory_order(const Tensor& tensor, const Tensor& source);

// The operation, if it is valid.
std::vector<Op> with_streams(Body body, const Dtypes& dtypes, Phase phase, const Streams& streams);
// One pass over `elements`. Bytes are noted only where kind and types do not give the same.
std::vector<Op> elementwise_pass(const StreamCall& call, double elements, double inputs,
                                 const Dtypes& dtypes, double bytes, Walk walk);

// Whether it makes one pass over elements, each by itself, or copies them.
bool is_pass(std::string_view name);

// Everything but arithmetic: sorts, indexing, lists of tensors, other sizes.
std::vector<Op> movement(const StreamCall& call);
// copy_ and _to_copy.
std::vector<Op> copy_between(const Arguments& arguments);
std::vector<Op> copy_as(const Arguments& arguments);

}  // namespace rooftile::aten_detail
