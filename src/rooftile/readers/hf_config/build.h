// From the description of a network to its forward workload.
#pragma once

#include <cstdint>
#include <string>

#include "rooftile/base/result.h"
#include "rooftile/readers/hf_config/description.h"
#include "rooftile/readers/hf_config/quantization.h"
#include "rooftile/workload/workload.h"

namespace rooftile::hf {

struct BuildSettings {
  std::string file;
  std::int64_t batch = 1;
  Dtype dtype = Dtype::fp32;
  Dtype cache = Dtype::fp32;  // of keys and values between the steps
};

// Layers that are alike become one group of operations with a count. Fails where sizes multiply
// beyond what an operation can hold.
Result<Workload> build_workload(const Model& model, const BuildSettings& settings,
                                const Quantization& quantization);

// Indices of a group as they appear in operation names: "3", "{0-11}", "{0-2,5}"; the first three
// runs of a longer list, "{0,2,4,...}".
std::string layer_label(const std::vector<std::int64_t>& indices);

}  // namespace rooftile::hf
