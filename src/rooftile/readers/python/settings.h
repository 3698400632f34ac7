// What the settings files of a project name.
#pragma once

#include "rooftile/workload/source_store.h"

namespace rooftile::source {

// Notes for script/reach which classes and functions the JSON, TOML and YAML files of the projects
// name: code that picks them by a name takes one of these.
void read_settings(const SourceFacts& facts);

}  // namespace rooftile::source
