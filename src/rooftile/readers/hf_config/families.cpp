#include "rooftile/readers/hf_config/families.h"

#include <algorithm>
#include <unordered_map>

#include "rooftile/base/text.h"

namespace rooftile::hf {
namespace {

struct Known {
  Family family = nullptr;
  bool generates_text = false;
};

const std::unordered_map<std::string_view, Known>& all_families() {
  static const auto* const families = [] {
    auto* map = new std::unordered_map<std::string_view, Known>;
    const auto enter = [&](const FamilyList& list, bool generates_text) {
      for (const FamilyEntry& entry : list) {
        map->emplace(entry.model_type, Known{entry.family, generates_text});
      }
    };
    for (const FamilyList& list :
         {llama_families(), mixture_families(), gpt_families(), parallel_families(),
          gemma_families(), latent_families(), compressed_families(), hybrid_families(),
          state_space_families(), encoder_decoder_families()}) {
      enter(list, true);
    }
    for (const FamilyList& list : {encoder_families(), vision_families(), speech_families(),
                                   map_families(), detection_families(), dense_families(),
                                   diffusion_families(), diffusion_transformer_families()}) {
      enter(list, false);
    }
    return map;
  }();
  return *families;
}

// "qwen3_moe" and "deberta-v2" as architecture names begin: "qwen3moe", "debertav2".
std::string squeezed(std::string_view text) {
  std::string result = lower(text);
  std::erase_if(result, [](char c) { return c == '_' || c == '-'; });
  return result;
}

}  // namespace

std::optional<Family> find_family(std::string_view model_type) {
  const auto entry = all_families().find(model_type);
  if (entry == all_families().end()) return std::nullopt;
  return entry->second.family;
}

std::vector<std::string> known_model_types() {
  std::vector<std::string> names;
  for (const auto& [name, family] : all_families()) names.emplace_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

bool generates_text(std::string_view model_type) {
  const auto entry = all_families().find(model_type);
  return entry != all_families().end() && entry->second.generates_text;
}

std::string model_type_of_architecture(std::string_view architecture) {
  for (const std::string_view suffix :
       {"LMHead", "For", "Model", "EncoderModel", "TextModel", "VisionModel"}) {
    const std::size_t at = architecture.find(suffix);
    if (at == std::string_view::npos) continue;
    const std::string name = squeezed(architecture.substr(0, at));
    for (const auto& [model_type, family] : all_families()) {
      if (squeezed(model_type) == name) return std::string(model_type);
    }
  }
  return {};
}

}  // namespace rooftile::hf
