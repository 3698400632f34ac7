// Sorts, indexing, lists of tensors, other sizes and copies.
#include <algorithm>
#include <cmath>
#include <utility>

#include "rooftile/aten/streams.h"
#include "rooftile/workload/validate.h"

namespace rooftile::aten_detail {
namespace {

constexpr double kIndexBytes = 8;  // int64

// Work that no kind of operation describes.
std::vector<Op> other(const StreamCall& call, double elements, Dtype dtype, double bytes,
                      Walk walk) {
  const double most = to_double(kMaxSize);
  if (elements < 1 || elements > most || bytes < 1 || bytes > most) return {};
  const auto moved = static_cast<std::int64_t>(bytes);
  return with_streams(Other{std::string(call.name), 0, moved}, Dtypes(dtype), call.phase(),
                      {walk, moved, static_cast<std::int64_t>(elements)});
}

// One pass at least; the walk sets the rate.
std::vector<Op> ordered(const StreamCall& call, Walk walk) {
  const std::vector<Tensor> read = tensors_read(call);
  if (read.empty()) return {};
  const double elements = to_double(read.front().elements());
  double bytes = bytes_read(read);
  for (const char letter : call.row.results) {
    bytes += size_of(elements, result_type(letter, read.front().dtype));
  }
  return other(call, elements, read.front().dtype, bytes, walk);
}

// Elements of `source` by an index along the axis that argument 1 names.
std::optional<double> along_axis(const StreamCall& call, const Tensor& source,
                                 const Tensor& index) {
  const auto axis = call.arguments.integer(1);
  const auto rank = static_cast<std::int64_t>(source.rank());
  if (!axis || *axis < -rank || *axis >= rank) return std::nullopt;
  const auto at = static_cast<std::size_t>(*axis < 0 ? *axis + rank : *axis);
  return to_double(source.elements()) / to_double(source.size(at)) * to_double(index.elements());
}

// Elements of `source` by a list of index tensors for its first axes; an axis with none stays
// whole.
std::optional<double> by_list(const StreamCall& call, const Tensor& source, std::size_t list_at) {
  double elements = to_double(source.elements());
  Extents shape;
  std::size_t axis = 0;
  for (const Extents& index : call.arguments.entries(list_at)) {
    if (axis >= source.rank()) return std::nullopt;
    const double size = to_double(source.size(axis++));
    if (index.empty()) continue;
    elements /= size;
    if (!broadcast(index, shape)) return std::nullopt;
  }
  if (shape.empty()) return std::nullopt;
  return elements * element_count(shape);
}

std::optional<double> selected(const StreamCall& call, const Tensor& source) {
  const std::size_t at = position(call.reads().front());
  const auto index = call.arguments.tensor(at);
  return index ? along_axis(call, source, *index) : by_list(call, source, at);
}

// As many elements as the index has: read or written where it says, and both where they are added.
std::vector<Op> by_element(const StreamCall& call) {
  const auto target = call.arguments.tensor(0);
  const auto index = call.arguments.tensor(position(call.reads().front()));
  if (!target || !index) return {};
  const bool has_source = call.row.kind == StreamKind::gather ||
                          call.arguments.tensor(position(call.reads().back())).has_value();
  const double elements = to_double(index->elements());
  const double streams = (has_source ? 1.0 : 0.0) + static_cast<double>(call.row.results.size());
  return other(call, elements, target->dtype,
               elements * kIndexBytes + size_of(streams * elements, target->dtype), Walk::gathered);
}

// Rows, whose indices are few against them.
std::vector<Op> by_row(const StreamCall& call) {
  const auto target = call.arguments.tensor(0);
  if (!target) return {};
  const bool selects = call.row.kind == StreamKind::select;
  std::optional<Tensor> source;
  if (call.reads().size() > 1) source = call.arguments.tensor(position(call.reads().back()));
  auto elements = selected(call, *target);
  if (!elements && !selects && source) elements = to_double(source->elements());
  if (!elements) return {};
  const double read = selects || source ? 1 : 0;
  const double streams = read + static_cast<double>(call.row.results.size());
  return other(call, *elements, target->dtype, size_of(streams * *elements, target->dtype),
               Walk::gathered);
}

double list_elements(const StreamCall& call, char digit) {
  double elements = 0;
  for (const Extents& dims : call.arguments.list(position(digit))) elements += element_count(dims);
  return elements;
}

// The profiler's lists do not name their type: fp32 until a kernel's name says otherwise.
Dtype list_type(const StreamCall& call, std::size_t at) {
  return call.arguments.list_type(at).value_or(Dtype::fp32);
}

std::vector<Op> of_lists(const StreamCall& call) {
  double moved = 0;
  for (const char digit : call.reads()) moved += list_elements(call, digit);
  for (const char digit : call.row.results) moved += list_elements(call, digit);
  const double elements = list_elements(call, '0');
  if (elements < 1) return {};
  const Dtype type = list_type(call, 0);
  return elementwise_pass(call, elements, std::max(0.0, std::round(moved / elements) - 1),
                          Dtypes(type), size_of(moved, type), Walk::contiguous);
}

// Elements of a tensor that lie side by side in the result of a concatenation, or of a stack, which
// has an axis more.
double run_of(const Extents& dims, std::int64_t axis, bool stacks) {
  const auto rank = static_cast<std::int64_t>(dims.size());
  const std::int64_t from_end = axis + rank + (stacks ? 1 : 0);
  double run = 1;
  for (std::int64_t at = std::max<std::int64_t>(axis < 0 ? from_end : axis, 0); at < rank; ++at) {
    run *= to_double(dims[static_cast<std::size_t>(at)]);
  }
  return run;
}

// Each input is copied on its own: where its runs are shorter than a sector of memory, each copy
// reads and writes the sectors that it shares with others.
std::vector<Op> concatenation(const StreamCall& call) {
  constexpr double kSectorBytes = 32;
  const bool stacks = call.name == "stack";  // single numbers, too
  const std::vector<Extents> inputs = stacks ? call.arguments.entries(0) : call.arguments.list(0);
  if (inputs.empty()) return {};
  const Dtype type = list_type(call, 0);
  double elements = 0, shortest = kSectorBytes;
  const std::int64_t axis = call.arguments.integer(1).value_or(0);
  for (const Extents& dims : inputs) {
    elements += element_count(dims);
    shortest = std::min(shortest, size_of(run_of(dims, axis, stacks), type));
  }
  double written = size_of(elements, type);
  if (shortest < kSectorBytes) {
    written *= 2 * std::min(static_cast<double>(inputs.size()), kSectorBytes / shortest);
  }
  return elementwise_pass(call, elements, 1, Dtypes(type), size_of(elements, type) + written,
                          Walk::concatenated);
}

// The result's shape as a list: whole, or of the axes behind batch and channels.
std::vector<Op> resize(const StreamCall& call) {
  const auto input = call.arguments.tensor(0);
  const auto shape = call.arguments.integers(call.detail_at());
  if (!input || !shape || shape->empty() || shape->size() > input->rank()) return {};
  Extents result(input->dims.begin(),
                 input->dims.end() - static_cast<std::ptrdiff_t>(shape->size()));
  result.insert(result.end(), shape->begin(), shape->end());
  for (const std::int64_t size : result) {
    if (size < 1 || size > kMaxSize) return {};
  }
  const double elements = element_count(result);
  return other(call, std::max(elements, to_double(input->elements())), input->dtype,
               size_of(elements + to_double(input->elements()), input->dtype), Walk::strided);
}

std::vector<Op> copied(const Tensor& source, const Tensor& target, Walk walk, bool reorders) {
  const double elements = to_double(target.elements());
  const double usual = size_of(elements, source.dtype) + size_of(elements, target.dtype);
  const double bytes = bytes_read({source}) + size_of(elements, target.dtype);
  if (bytes > to_double(kMaxSize)) return {};
  Streams streams{.walk = walk};
  if (bytes != usual) streams.bytes = static_cast<std::int64_t>(bytes);
  Body body = Elementwise{"copy", target.elements(), 1};
  if (reorders) body = LayoutConversion{target.elements(), {}};
  if (source.dtype != target.dtype) body = Cast{target.elements()};
  return with_streams(std::move(body), Dtypes(source.dtype, source.dtype, target.dtype),
                      Phase::forward, streams);
}

}  // namespace

std::vector<Op> movement(const StreamCall& call) {
  switch (call.row.kind) {
    case StreamKind::scan:
      return ordered(call, Walk::scanned);
    case StreamKind::sort:
      return ordered(call, Walk::sorted);
    case StreamKind::gather:
    case StreamKind::scatter:
      return by_element(call);
    case StreamKind::select:
    case StreamKind::put:
      return by_row(call);
    case StreamKind::concat:
      return concatenation(call);
    case StreamKind::lists:
      return of_lists(call);
    case StreamKind::resize:
      return resize(call);
    default:
      return {};
  }
}

// copy_(target, source, …): a change of type, of the order in memory, or neither. Between
// contiguous tensors of one type it is no kernel, so without strides it counts as a change of
// order.
std::vector<Op> copy_between(const Arguments& arguments) {
  const auto target = arguments.tensor(0), source = arguments.tensor(1);
  if (!target || !source) return {};
  Extents shape = source->dims;
  if (!broadcast(target->dims, shape) || shape != target->dims) return {};
  const bool same = source->dims == target->dims;
  if (!same) return copied(*source, *target, Walk::strided, false);
  if (target->strides.empty() || source->strides.empty()) {
    const bool converts = source->dtype != target->dtype;
    return copied(*source, *target, converts ? Walk::usual : Walk::reordered, true);
  }
  const bool reorders = memory_order(*target, *source) != memory_order(*source, *source);
  const Walk walk = walk_of({*target, *source});
  return copied(*source, *target, walk == Walk::contiguous ? Walk::usual : walk, reorders);
}

// _to_copy(source, type, …); without another type it is a copy of unknown order.
std::vector<Op> copy_as(const Arguments& arguments) {
  const auto source = arguments.tensor(0);
  const auto type = parse_type_number(arguments.value(1));
  if (!source || !type || *type == source->dtype) return {};
  Tensor target = *source;
  target.dtype = *type;
  return copied(*source, target, Walk::usual, false);
}

}  // namespace rooftile::aten_detail
