// data/plans/*.txt, compiled in.
#pragma once

#include <span>

#include "rooftile/base/embedded.h"

namespace rooftile {

std::span<const EmbeddedFile> embedded_plans();

}  // namespace rooftile
