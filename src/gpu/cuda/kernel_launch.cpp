// From operations to launches of our own kernels.
#include <fmt/format.h>

#include <algorithm>

#include "gpu/cuda/kernel_source.h"

namespace rooftile::gpu::cuda {
namespace {

constexpr int kUnroll = 4;  // of the source
constexpr std::int64_t kMaxBlocks = 2147483647;

// The source's name of the type; empty for those it has not.
std::string type_name(Dtype dtype) {
  switch (dtype) {
    case Dtype::fp64:
    case Dtype::fp32:
    case Dtype::fp16:
    case Dtype::bf16:
    case Dtype::fp8:
      return std::string(to_string(dtype));
    case Dtype::tf32:
      return "fp32";
    case Dtype::int8:
      return "byte1";
    default:
      return "";
  }
}

std::int64_t divided(std::int64_t whole, std::int64_t part) { return (whole + part - 1) / part; }

// Elements of a 16-byte access in the wider of two types, fewer where rows are not whole ones.
std::int64_t vector_of(Dtype in, Dtype out, std::int64_t row) {
  const double widest = std::max(size_in_bytes(in), size_in_bytes(out));
  auto vector = static_cast<std::int64_t>(16 / widest);
  while (vector > 1 && row % vector != 0) vector /= 2;
  return vector;
}

// Threads for one row: enough for all of it, at most 1024, whole warps.
unsigned row_threads(std::int64_t columns, std::int64_t vector) {
  return static_cast<unsigned>(
      std::clamp<std::int64_t>(divided(divided(columns, vector), 32) * 32, 32, 1024));
}

Result<KernelLaunch> elementwise(const Op& op, std::int64_t elements, std::int64_t inputs) {
  if (inputs < 1 || inputs > 3) return fail("elementwise kernels here have 1 to 3 inputs");
  const std::int64_t vector = vector_of(op.dtypes.input, op.dtypes.output, 16);
  KernelLaunch launch;
  launch.function = "elementwise";
  launch.defines = {"ELEMENTWISE", fmt::format("INPUTS={}", inputs),
                    fmt::format("VECTOR={}", vector)};
  launch.blocks = static_cast<unsigned>(
      std::min(divided(elements, vector * kUnroll * launch.threads), kMaxBlocks));
  launch.sizes = {elements};
  for (std::int64_t i = 0; i < inputs; ++i) launch.buffers.push_back({elements, op.dtypes.input});
  launch.buffers.push_back({elements, op.dtypes.output});
  return launch;
}

Result<KernelLaunch> on_rows(const Op& op, std::int64_t rows, std::int64_t columns, int mode) {
  if (rows > kMaxBlocks) return fail("more rows than one launch takes");
  const std::int64_t vector = vector_of(op.dtypes.input, op.dtypes.output, columns);
  KernelLaunch launch;
  launch.function = "rows";
  launch.defines = {"ROWS", fmt::format("MODE={}", mode), fmt::format("VECTOR={}", vector)};
  launch.blocks = static_cast<unsigned>(rows);
  launch.threads = row_threads(columns, vector);
  launch.sizes = {columns};
  launch.buffers = {{rows * columns, op.dtypes.input},
                    {columns, Dtype::fp32},
                    {columns, Dtype::fp32},
                    {rows * columns, op.dtypes.output}};
  return launch;
}

Result<KernelLaunch> reduce(const Op& op, const Reduction& reduction) {
  if (reduction.outputs < 1 || reduction.elements % reduction.outputs != 0) {
    return fail("only reductions of equal rows are measured");
  }
  const std::int64_t columns = reduction.elements / reduction.outputs;
  Result<KernelLaunch> launch = on_rows(op, reduction.outputs, columns, 0);
  if (!launch) return launch;
  launch->function = "reduce";
  launch->buffers = {{reduction.elements, op.dtypes.input}, {reduction.outputs, op.dtypes.output}};
  return launch;
}

// The largest power of two up to `most` that divides the size.
std::int64_t power_of_two_in(std::int64_t size, std::int64_t most) {
  return std::min(size & -size, most);
}

// [batch, rows, columns] with the last two exchanged; the text form has only the element count.
Result<KernelLaunch> transpose(const Op& op, std::int64_t elements) {
  const std::int64_t columns = power_of_two_in(elements, 1024);
  const std::int64_t rows = power_of_two_in(elements / columns, 1024);
  const std::int64_t batch = elements / columns / rows;
  const std::int64_t blocks = batch * divided(rows, 32) * divided(columns, 32);
  if (blocks > kMaxBlocks) return fail("more tiles than one launch takes");
  KernelLaunch launch;
  launch.function = "transpose";
  launch.defines = {"TRANSPOSE"};
  launch.blocks = static_cast<unsigned>(blocks);
  launch.sizes = {rows, columns};
  launch.buffers = {{elements, op.dtypes.input}, {elements, op.dtypes.input}};
  return launch;
}

Result<KernelLaunch> gather(const Op& op, const Embedding& table) {
  if (table.lookups > kMaxBlocks || table.vocab > kMaxBlocks) {
    return fail("more rows than one launch takes");
  }
  const std::int64_t vector = vector_of(op.dtypes.weight, op.dtypes.weight, table.width);
  KernelLaunch launch;
  launch.function = "gather";
  launch.defines = {"GATHER", fmt::format("VECTOR={}", vector)};
  launch.blocks = static_cast<unsigned>(table.lookups);
  launch.threads = std::min(row_threads(table.width, vector), 256U);
  launch.sizes = {table.width};
  launch.buffers = {{table.vocab * table.width, op.dtypes.weight},
                    {table.lookups, Dtype::int64, table.vocab},
                    {table.lookups * table.width, op.dtypes.weight}};
  return launch;
}

Result<KernelLaunch> norm(const Op& op, const Normalization& normalization) {
  if (normalization.fn == NormKind::layer) {
    return on_rows(op, normalization.rows, normalization.cols, 1);
  }
  if (normalization.fn == NormKind::rms) {
    return on_rows(op, normalization.rows, normalization.cols, 2);
  }
  return fail("only layer and RMS normalization are measured");
}

Result<KernelLaunch> launch_of(const Op& op) {
  if (const auto* body = std::get_if<Elementwise>(&op.body)) {
    return elementwise(op, body->elements, body->inputs);
  }
  if (const auto* body = std::get_if<Cast>(&op.body)) return elementwise(op, body->elements, 1);
  if (const auto* body = std::get_if<Softmax>(&op.body)) {
    return on_rows(op, body->rows, body->cols, 0);
  }
  if (const auto* body = std::get_if<Normalization>(&op.body)) return norm(op, *body);
  if (const auto* body = std::get_if<Reduction>(&op.body)) return reduce(op, *body);
  if (const auto* body = std::get_if<LayoutConversion>(&op.body)) {
    return transpose(op, body->elements);
  }
  if (const auto* body = std::get_if<Embedding>(&op.body)) return gather(op, *body);
  return fail(fmt::format("{} operations are not measured", kind_name(op.body)));
}

}  // namespace

Result<KernelLaunch> kernel_launch(const Op& op) {
  if (op.phase != Phase::forward) return fail("gradients of this kind are not measured");
  const bool gathers = std::holds_alternative<Embedding>(op.body);
  const Dtype in = gathers ? op.dtypes.weight : op.dtypes.input;
  const Dtype out = gathers ? op.dtypes.weight : op.dtypes.output;
  if (type_name(in).empty() || type_name(out).empty()) {
    return fail(fmt::format("there are no kernels for {} to {}", to_string(in), to_string(out)));
  }
  Result<KernelLaunch> launch = launch_of(op);
  if (!launch) return launch;
  launch->defines.push_back("IN=" + type_name(in));
  launch->defines.push_back("OUT=" + type_name(out));
  return launch;
}

KernelLaunch fill_launch(const KernelLaunch::Buffer& buffer) {
  KernelLaunch launch;
  launch.function = "fill";
  launch.defines = {"FILL"};
  if (buffer.below > 0) launch.defines.emplace_back("FILL_INDEX");
  const std::string type = type_name(buffer.dtype);
  launch.defines.push_back("IN=" + (buffer.below > 0 ? "int64" : type.empty() ? "byte1" : type));
  launch.blocks = static_cast<unsigned>(
      std::min(divided(std::max<std::int64_t>(buffer.elements, 1), 256), kMaxBlocks));
  launch.sizes = {buffer.elements, buffer.below};
  launch.buffers = {buffer};
  return launch;
}

}  // namespace rooftile::gpu::cuda
