// Where the type and shape inference of an operator is found: in the ONNX library for the standard
// domains, here for com.microsoft and for operators that runtimes put into the standard domain.
#pragma once

#include <string>

#include "onnx/defs/schema.h"

namespace rooftile::onnx_format {

// The newest standard operator set that this build of the ONNX library defines.
int newest_opset();

// The schema, or nullptr for an operator that is unknown at that version. Registers the operators
// first, or waits for a thread that does.
const onnx::OpSchema* find_schema(const std::string& op, int version, const std::string& domain);

// Inference functions of com.microsoft operators, as ONNX Runtime documents them in
// docs/ContribOperators.md; nullptr for others.
const onnx::InferenceFunction* find_contrib_inference(const std::string& op);

}  // namespace rooftile::onnx_format
