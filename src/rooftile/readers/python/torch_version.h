// Which PyTorch a project says it runs on.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// The lowest version in a text of requirements or of a readme: 1.8 of "torch>=1.8,<3",
// "pytorch=1.8.1" or "PyTorch 1.8+". Upper bounds count for nothing.
std::optional<TorchVersion> stated_torch(std::string_view text);

// Of the files that state it beside the given ones: requirements.txt, setup.py, setup.cfg,
// pyproject.toml, environment.yml, else the readme; in the folder, and above it up to the root of
// its Git repository.
std::optional<TorchVersion> torch_version_of(std::span<const std::string> paths);

}  // namespace rooftile::source
