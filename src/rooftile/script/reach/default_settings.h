// What a program is told by the settings file that it reads by default, as in
// `def main(path="options/train.json")`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

struct DefaultSettings {
  // Under the keys that lead there, "network.width"; by the script that starts the program.
  using Values = std::vector<std::pair<std::string, std::string>>;
  std::unordered_map<const File*, Values> by_entry;
  std::unordered_map<const Program*, FileSet> left;  // worked out when they are asked for
};

// What the file says of `opt["network"]["width"]`, `cfg.network.width`. Empty without a file, and
// where several keys that end like this have other values.
std::optional<std::string_view> default_setting(const SourceFacts& facts, const Program& program,
                                                const Expr& expr);
// Whether the program has the file, and not by imports alone that stand under other settings: `if
// kind == "gan": from models.gan import GAN as Model`.
bool runs_by_default(const SourceFacts& facts, const Program& program, const File& file);

}  // namespace rooftile::source
