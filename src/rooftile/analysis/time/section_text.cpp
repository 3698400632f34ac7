#include "rooftile/analysis/time/section_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "rooftile/base/embedded.h"

namespace rooftile {
namespace {

using Json = nlohmann::ordered_json;

// Null where there is no such calibration or section.
Json find_section(std::string_view name, std::string_view key) {
  for (const EmbeddedFile& file : embedded_calibration()) {
    if (file.name != name) continue;
    Json json = Json::parse(file.text, nullptr, false);
    const auto found = json.find(std::string(key));
    return found == json.end() ? Json() : *found;
  }
  return {};
}

}  // namespace

Result<SectionText> section_text(std::string_view name, std::string_view key) {
  std::string holder(name);
  Json section = find_section(holder, key);
  const bool own = section.is_object() && !section.contains("use");
  if (section.is_object() && !own && section["use"].is_string()) {
    holder = section["use"].get<std::string>();
    section = find_section(holder, key);
  }
  if (!section.is_object()) {
    return fail(fmt::format("found no section \"{}\", expected one", key), holder);
  }
  return SectionText{section.dump(), holder, own};
}

}  // namespace rooftile
