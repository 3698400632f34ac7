// Gives the dimensions that a model leaves open their sizes, before shape inference.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "onnx/onnx_pb.h"
#include "rooftile/base/result.h"
#include "rooftile/formats/onnx/load.h"

namespace rooftile::onnx_format {

// The batch that a file fixes, and the one to read it at.
struct Rebatch {
  std::int64_t from = 0, to = 0;
};

struct ResolvedDimensions {
  std::map<std::string, std::int64_t> symbols;  // symbolic names and their sizes
  std::vector<std::string> notes;               // what stays unknown, with the flag that fixes it
  std::vector<std::string> unused;              // choices without effect, as flags
  bool declared_shapes_hold = true;             // false: the user changed sizes that the file fixes
  bool batch_used = false, sequence_used = false;
  std::optional<std::int64_t> batch, sequence;  // that the inputs are read at
  std::optional<Rebatch> rebatch;
};

// Writes the sizes into the types of the graph's inputs. An input name or a rank that does not fit
// the model is an error.
Result<ResolvedDimensions> resolve_dimensions(const DimensionChoices& choices,
                                              onnx::GraphProto& graph);

// The leading size that all inputs of rank 2 and more share, if it is fixed in the file. Nothing
// for recurrent networks in ONNX's own layout, where the sequence leads.
std::optional<std::int64_t> common_leading_size(const onnx::GraphProto& graph);

// Changes that leading size.
void set_leading_size(std::int64_t size, onnx::GraphProto& graph);

// The size of a declared dimension, with symbols replaced; nothing where unknown. A negative size
// is what some exporters write for an unknown one.
std::optional<std::int64_t> declared_size(const onnx::TensorShapeProto_Dimension& dim,
                                          const std::map<std::string, std::int64_t>& symbols);

// Graph inputs that are not initializers with a default value (IR version 3 lists those as inputs).
std::vector<int> true_inputs(const onnx::GraphProto& graph);

}  // namespace rooftile::onnx_format
