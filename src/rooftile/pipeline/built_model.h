// Models that libraries of Python build by their description, without weights.
#pragma once

#include <functional>
#include <string>

#include "rooftile/base/result.h"
#include "rooftile/readers/reader.h"
#include "rooftile/workload/workload.h"

namespace rooftile {

// For ReadOptions::build. Starts the Python that has the package, which builds the model and
// captures a pass; the network and weights are not used. A model is built once for a batch above 1,
// and scaled for other batches.
std::function<Result<Workload>(const std::string& target, const ReadOptions& options)>
model_builder();

}  // namespace rooftile
