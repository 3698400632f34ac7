// What MONAI's networks, transforms and data sets say about a program; its documentation, API
// reference.
#pragma once

#include <cstdint>
#include <optional>

#include "rooftile/analysis/source/model_size.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// A network of the library with two neighbouring layers of so many channels, as far as they are
// written or not left to the default. With `convolutional` none whose work is attention.
std::optional<SizedLayer> monai_network(const SourceFacts& facts, const Program& program,
                                        std::int64_t channels, bool convolutional);
// RandCropByPosNegLabeld(…, spatial_size=[96, 96, 96]), Resize((96, 96)): a transform after which
// all samples have one size that is known.
bool sets_size_by_monai(const SourceFacts& facts, const Call& call);
// CacheDataset and its like, which keep what they read.
bool is_kept_by_monai(const SourceFacts& facts, const Call& dataset);
// A transform of the loader's file puts the samples on a device: ToDeviced, EnsureTyped(device=…).
bool moves_samples_by_monai(const Call& loader);

}  // namespace rooftile::source
