// What a model that a loop evaluates has to do with gradients.
#pragma once

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// A module that keeps nothing but numbers and tensors: a spectrogram, a normalisation, a pooling.
bool has_no_weights(const Type& type);

// Whether the constructor of an own class switches off the gradients of all its weights.
bool freezes_itself(const Type& type);

// Whether the forward takes gradients itself, as that of a signed distance field for its normals.
// Where the class of the model is not known, any module of the file's programs that does.
bool takes_gradients_inside(const SourceFacts& facts, const Type& model, const File& file);

}  // namespace rooftile::source
