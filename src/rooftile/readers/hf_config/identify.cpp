#include "rooftile/readers/hf_config/identify.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "rooftile/base/text.h"

namespace rooftile::hf {
namespace {

struct SideFile {
  std::string_view key, description;
};

// Other JSON files that lie beside a config.json, by a key that only they have.
constexpr SideFile kSideFiles[] = {
    {"quantization", "a quantization description (hf_quant_config.json), not a model config"},
    {"nodes", "a serving cluster description, not a model config"},
    {"peft_type", "an adapter description (adapter_config.json), not a model config"},
    {"image_processor_type", "an image processor's config, not a model config"},
    {"feature_extractor_type", "a feature extractor's config, not a model config"},
    {"tokenizer_class", "a tokenizer's config, not a model config"},
    {"added_tokens_decoder", "a tokenizer's config, not a model config"},
    {"weight_map", "an index of weight files, not a model config"},
    {"traceEvents", "a profiler trace, not a model config"}};

std::string first_keys(const nlohmann::json& object) {
  constexpr std::size_t kShown = 4;
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) {
    if (keys.size() == kShown) {
      keys.emplace_back("…");
      break;
    }
    keys.push_back(rooftile::quoted(key, 40));
  }
  return keys.empty() ? "it is empty" : "its keys: " + join(keys, ", ");
}

// Side files of diffusers name their class as networks do.
std::optional<std::string> not_a_diffusion_network(std::string_view class_name) {
  if (contains(class_name, "Pipeline")) {
    return "a diffusers pipeline (model_index.json), not a network: check the config.json in its "
           "folders, unet, transformer, vae and text_encoder";
  }
  if (contains_any(class_name, {"Scheduler", "Solver", "Processor"})) {
    return fmt::format("a diffusers config of {}, not of a network",
                       rooftile::quoted(class_name, 40));
  }
  return std::nullopt;
}

bool names_a_model(const nlohmann::json& object) {
  const auto given = [&](const char* key) {
    const auto entry = object.find(key);
    if (entry == object.end()) return false;
    if (entry->is_string()) return !entry->get_ref<const std::string&>().empty();
    return entry->is_array() && !entry->empty();
  };
  return given("model_type") || given("architectures");
}

}  // namespace

std::optional<std::string> not_a_model_config(const nlohmann::json& json) {
  if (json.is_array()) return "a JSON list, not a model config (an object)";
  if (!json.is_object()) return "a JSON value, not a model config (an object)";
  if (const auto entry = json.find("_class_name"); entry != json.end() && entry->is_string()) {
    return not_a_diffusion_network(entry->get<std::string>());
  }
  if (names_a_model(json)) return std::nullopt;
  for (const SideFile& side : kSideFiles) {
    if (json.contains(std::string(side.key))) return std::string(side.description);
  }
  return fmt::format("not a model config: it has neither \"model_type\" nor \"architectures\" ({})",
                     first_keys(json));
}

bool looks_like_config(std::string_view path, std::string_view head) {
  if (head.starts_with("\xEF\xBB\xBF")) head.remove_prefix(3);
  head = trim(head);
  const bool object = head.starts_with('{');
  if (!object && !head.starts_with('[')) return false;
  for (const std::string_view foreign :
       {"\"traceEvents\"", "\"schemaVersion\"", "\"$schema\"", "sarif", "\"ph\""}) {
    if (contains(head, foreign)) return false;
  }
  const std::size_t slash = path.rfind('/');
  const std::string name = lower(slash == std::string_view::npos ? path : path.substr(slash + 1));
  if (contains(name, "config") && name.ends_with(".json")) return true;
  if (!object) return false;
  for (const std::string_view key :
       {"\"model_type\"", "\"architectures\"", "\"_class_name\"", "\"quant_algo\"",
        "\"exclude_modules\"", "\"num_hidden_layers\"", "\"transformers_version\"", "\"id2label\"",
        "\"text_config\"", "\"vision_config\""}) {
    if (contains(head, key)) return true;
  }
  return false;
}

}  // namespace rooftile::hf
