#include "rooftile/analysis/trace/corrections.h"

#include <map>
#include <string>
#include <utility>

#include "rooftile/base/embedded.h"

// The JSON library's header is heavy.
#include <nlohmann/json.hpp>

namespace rooftile {
namespace {

constexpr int kAnyGeneration = 0;
using CorrectionTable = std::map<std::pair<std::string, int>, ProfileCorrection, std::less<>>;

// The file is ours: a test reads every entry.
CorrectionTable read_corrections() {
  CorrectionTable table;
  for (const EmbeddedFile& file : embedded_profiles()) {
    const auto json = nlohmann::json::parse(file.text, nullptr, false);
    if (!json.is_object() || !json.contains("corrections")) continue;
    for (const auto& entry : json["corrections"]) {
      const auto number = [&](const char* key) { return entry[key].get<double>(); };
      ProfileCorrection correction;
      correction.factor = number("factor");
      correction.interval = {number("low"), number("high")};
      table[{entry.value("family", ""), entry.value("generation", kAnyGeneration)}] = correction;
    }
  }
  return table;
}

}  // namespace

std::optional<ProfileCorrection> profile_correction(std::string_view family,
                                                    int compute_capability) {
  static const CorrectionTable table = read_corrections();
  for (std::string name(family);; name.resize(name.rfind('/'))) {
    for (const int generation : {compute_capability / 10, kAnyGeneration}) {
      const auto found = table.find(std::pair(name, generation));
      if (found != table.end()) return found->second;
    }
    if (name.find('/') == std::string::npos) break;
  }
  const auto any = table.find(std::pair(std::string(), kAnyGeneration));
  return any == table.end() ? std::nullopt : std::optional(any->second);
}

}  // namespace rooftile
