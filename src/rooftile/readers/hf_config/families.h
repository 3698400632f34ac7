// The architectures that are read, by model_type.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/readers/hf_config/config.h"
#include "rooftile/readers/hf_config/description.h"

namespace rooftile::hf {

// What the user asked for and how the config names itself.
struct Request {
  std::int64_t batch = 1;
  std::optional<std::int64_t> seq, past;
  bool decode = false, training = false;
  std::string model_type;
  std::string architecture;  // first of "architectures": "LlamaForCausalLM"; may be empty

  bool architecture_has(std::string_view part) const {
    return architecture.find(part) != std::string::npos;
  }
};

// Describes the network; errors are left in the config.
using Family = Model (*)(const Config& config, const Request& request);

// The family of a model_type; empty when unknown.
std::optional<Family> find_family(std::string_view model_type);
std::vector<std::string> known_model_types();
// Whether the family is a decoder or an encoder-decoder of text.
bool generates_text(std::string_view model_type);

// model_type from an architecture name ("RobertaForMaskedLM" is roberta); empty when unknown.
std::string model_type_of_architecture(std::string_view architecture);

// One model_type and who describes it; each family file has a list.
struct FamilyEntry {
  std::string_view model_type;
  Family family;
};
using FamilyList = std::vector<FamilyEntry>;

FamilyList llama_families();
FamilyList mixture_families();
FamilyList gpt_families();
FamilyList parallel_families();
FamilyList gemma_families();
FamilyList latent_families();
FamilyList compressed_families();
FamilyList hybrid_families();
FamilyList state_space_families();
FamilyList encoder_families();
FamilyList encoder_decoder_families();
FamilyList vision_families();
FamilyList speech_families();
FamilyList map_families();
FamilyList detection_families();
FamilyList dense_families();
FamilyList diffusion_families();
FamilyList diffusion_transformer_families();

}  // namespace rooftile::hf
