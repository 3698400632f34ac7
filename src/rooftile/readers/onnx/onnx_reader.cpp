#include "rooftile/readers/onnx/onnx_reader.h"

#include <filesystem>
#include <thread>

#include "rooftile/base/contained.h"
#include "rooftile/formats/onnx/load.h"
#include "rooftile/formats/onnx/wire.h"
#include "rooftile/readers/onnx/conversion.h"
#include "rooftile/workload/workload_bytes.h"

namespace rooftile {
namespace {

bool recognises(std::string_view path, std::string_view head) {
  return path.ends_with(".onnx") || path.ends_with(".ONNX") || onnx_format::looks_like_model(head);
}

onnx_format::DimensionChoices choices_of(const ReadOptions& options) {
  return {options.batch, options.seq, options.past, options.dims, options.shapes};
}

Workload convert(const onnx_format::Graph& graph, const std::string& name, Mode mode) {
  return onnx_reader_detail::Conversion(graph, name).run(mode);
}

Result<std::string> read_as_bytes(const std::string& path, const ReadOptions& options) {
  // Beside the reading of the file, which takes as long.
  const std::jthread registration(onnx_format::register_operators);
  const auto slim = onnx_format::read_slim_model(path);
  if (!slim) return tl::unexpected(slim.error());
  // Never freed: the process ends, and taking a large model apart costs as much as reading it.
  auto* graph = new auto(onnx_format::load_graph(*slim, choices_of(options)));
  if (!*graph) return fail(graph->error().message, path);
  return to_bytes(convert(**graph, path, options.mode));
}

// The file is mapped, which counts as memory.
ContainedLimits limits_for(const std::string& path) {
  ContainedLimits limits;
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (!error) limits.memory_bytes += size;
  return limits;
}

// The ONNX library and protobuf were not written for hostile files, so they run in a child.
Result<Workload> read_onnx(const std::string& path, const ReadOptions& options) {
  const auto bytes = run_contained([&] { return read_as_bytes(path, options); }, "the ONNX library",
                                   limits_for(path), options.meanwhile);
  if (!bytes) {
    return fail(bytes.error().message, bytes.error().where.empty() ? path : bytes.error().where);
  }
  auto workload = workload_from_bytes(*bytes);
  if (!workload) return fail("the ONNX library failed: " + workload.error().message, path);
  return workload;
}

}  // namespace

const Reader onnx_reader{
    .name = "onnx",
    .recognises = recognises,
    .read = read_onnx,
    .takes = "--batch, --seq, --dim, --shape",
    .instead_of_decode =
        "an ONNX file holds one graph: export the step with its past keys and values as inputs "
        "(optimum-cli export onnx --task text-generation-with-past), and check that without "
        "--mode"};

Result<Workload> read_onnx_bytes(std::string_view model, const std::string& name,
                                 const ReadOptions& options) {
  const auto slim = onnx_format::slim_model(model);
  if (!slim) return fail("not a readable ONNX model: " + slim.error().message, name);
  const auto graph = onnx_format::load_graph(*slim, choices_of(options));
  if (!graph) return fail(graph.error().message, name);
  return convert(*graph, name, options.mode);
}

}  // namespace rooftile
