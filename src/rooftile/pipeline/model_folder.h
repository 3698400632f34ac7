// Folders that hold a model: a snapshot of the Hugging Face Hub, an export, a diffusers pipeline.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rooftile/base/result.h"

namespace rooftile {

struct ModelFolder {
  std::string file;                 // the model to read
  std::vector<std::string> others;  // further networks of the folder, which are not read
};

// The model that lies in the folder itself: config.json of Transformers; else of a diffusers
// pipeline (model_index.json) the network that runs in each step; else model.onnx, or the only ONNX
// file. Empty where there is none; several ONNX files of other names are an error.
Result<std::optional<ModelFolder>> model_in_folder(const std::string& folder);

}  // namespace rooftile
