#include "rooftile/readers/onnx/onnx_reader.h"

#include <utility>

#include "rooftile/base/contained.h"
#include "rooftile/formats/onnx/load.h"
#include "rooftile/formats/onnx/wire.h"
#include "rooftile/readers/onnx/conversion.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

bool recognises(std::string_view path, std::string_view head) {
  return path.ends_with(".onnx") || path.ends_with(".ONNX") || onnx_format::looks_like_model(head);
}

onnx_format::DimensionChoices choices_of(const ReadOptions& options) {
  return {options.batch, options.seq, options.dims, options.shapes};
}

Result<Workload> convert(const onnx_format::Graph& graph, const std::string& name) {
  return onnx_reader_detail::Conversion(graph, name).run();
}

// The ONNX library and protobuf were not written for hostile files, so they run in a child.
Result<Workload> read_onnx(const std::string& path, const ReadOptions& options) {
  const auto slim = onnx_format::read_slim_model(path);
  if (!slim) return tl::unexpected(slim.error());
  const auto text = run_contained(
      [&]() -> Result<std::string> {
        // Never freed: the child ends, and taking a large model apart costs as much as reading it.
        auto* graph = new auto(onnx_format::load_graph(*slim, choices_of(options)));
        if (!*graph) return fail(graph->error().message, path);
        const auto workload = convert(**graph, path);
        if (!workload) return tl::unexpected(workload.error());
        return to_text(*workload);
      },
      "the ONNX library");
  if (!text) {
    return fail(text.error().message, text.error().where.empty() ? path : text.error().where);
  }
  return parse_workload(*text, path);
}

}  // namespace

const Reader onnx_reader{.name = "onnx", .recognises = recognises, .read = read_onnx};

Result<Workload> read_onnx_bytes(std::string_view model, const std::string& name,
                                 const ReadOptions& options) {
  const auto slim = onnx_format::slim_model(model);
  if (!slim) return fail("not a readable ONNX model: " + slim.error().message, name);
  const auto graph = onnx_format::load_graph(*slim, choices_of(options));
  if (!graph) return fail(graph.error().message, name);
  return convert(*graph, name);
}

}  // namespace rooftile
