// From the bytes of an ONNX file to its graph with shapes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "rooftile/base/result.h"
#include "rooftile/formats/onnx/graph.h"

namespace rooftile::onnx_format {

// What the user says about dimensions that the file leaves open.
struct DimensionChoices {
  std::optional<std::int64_t> batch, seq;
  std::optional<std::int64_t> past;          // positions in the cache of a decode step
  std::map<std::string, std::int64_t> dims;  // by symbolic name
  std::map<std::string, Shape> shapes;       // by graph input
};

// Registers the library's operators, once per process; takes about 12 ms. Others wait for a thread
// that does.
void register_operators();

// Reads the file without its weights; files that hold external weights are never opened. The result
// is a ModelProto small enough for load_graph().
Result<std::string> read_slim_model(const std::string& path);

// Parses a ModelProto, resolves its dimensions and infers every shape with the ONNX library.
// Hostile bytes may crash the library: run it contained.
Result<Graph> load_graph(std::string_view model, const DimensionChoices& choices);

}  // namespace rooftile::onnx_format
