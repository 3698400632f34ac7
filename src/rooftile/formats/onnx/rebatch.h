// Reading a model at another batch than the one its file fixes.
#pragma once

#include <vector>

#include "rooftile/formats/onnx/values.h"

namespace rooftile::onnx_format {

// Exporters write the batch into the targets of Reshape and Expand. Where such a target holds the
// old batch, the output gets the new one; a guess that does not fit shows as a wrong shape later,
// and the model is then read at its own batch.
void follow_batch(const onnx::NodeProto& node, const std::vector<ValueId>& inputs,
                  const std::vector<ValueId>& outputs, Values& values);

}  // namespace rooftile::onnx_format
