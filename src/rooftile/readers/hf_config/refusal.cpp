#include "rooftile/readers/hf_config/refusal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>

#include "rooftile/base/text.h"
#include "rooftile/readers/hf_config/families.h"

namespace rooftile::hf {
namespace {

using nlohmann::json;

std::string string_at(const json& object, const char* key) {
  const auto entry = object.find(key);
  return entry != object.end() && entry->is_string() ? entry->get<std::string>() : std::string();
}

bool is_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_';
  });
}

// "qwen3_moe" without its version: "qwen"; "deepseek_v3" is "deepseek".
std::string without_version(std::string_view model_type) {
  const std::size_t digit = model_type.find_first_of("0123456789");
  if (digit == std::string_view::npos) return std::string(model_type);
  std::string_view stem = model_type.substr(0, digit);
  if (stem.ends_with("_v") || stem.ends_with("-v")) stem.remove_suffix(1);
  while (stem.ends_with('_') || stem.ends_with('-')) stem.remove_suffix(1);
  return std::string(stem);
}

// Families whose names differ from this one in the version only, the shortest names first.
std::vector<std::string> other_versions(const std::string& model_type) {
  constexpr std::size_t kShown = 3, kShortest = 3;
  const std::string stem = without_version(model_type);
  std::vector<std::string> others;
  if (stem.size() < kShortest) return others;
  for (std::string& known : known_model_types()) {
    if (without_version(known) == stem) others.push_back(std::move(known));
  }
  std::stable_sort(others.begin(), others.end(),
                   [](const auto& a, const auto& b) { return a.size() < b.size(); });
  if (others.size() > kShown) others.resize(kShown);
  return others;
}

// The folder to load from, as Python writes it.
std::string folder_literal(const std::string& source) {
  constexpr std::string_view kFile = "config.json";
  const std::string folder = source.size() > kFile.size() && source.ends_with("/config.json")
                                 ? source.substr(0, source.size() - kFile.size() - 1)
                                 : std::string(source == kFile ? "." : "FOLDER");
  const bool plain = std::none_of(folder.begin(), folder.end(), [](unsigned char c) {
    return c < ' ' || c == '"' || c == '\\' || c >= 0x7f;
  });
  return plain ? folder : "FOLDER";
}

// transformers.AutoModelFor…, by the end of the architecture's name.
std::string auto_class(const json& config, const std::string& architecture) {
  if (architecture.ends_with("ForConditionalGeneration")) {
    return config.contains("vision_config") ? "AutoModelForImageTextToText"
                                            : "AutoModelForSeq2SeqLM";
  }
  for (const std::string_view task :
       {"ForCausalLM", "ForMaskedLM", "ForImageClassification", "ForSequenceClassification",
        "ForTokenClassification", "ForQuestionAnswering", "ForObjectDetection",
        "ForSemanticSegmentation", "ForDepthEstimation", "ForCTC", "ForAudioClassification"}) {
    if (architecture.ends_with(task)) return "AutoModel" + std::string(task);
  }
  return "AutoModel";
}

std::int64_t pixels(const json& config) {
  constexpr std::int64_t kUsual = 224, kMost = 4096;
  auto entry = config.find("image_size");
  if (entry == config.end()) return kUsual;
  const json& size = entry->is_array() && !entry->empty() ? entry->front() : *entry;
  if (!size.is_number_integer()) return kUsual;
  const auto found = size.get<std::int64_t>();
  return found >= 1 && found <= kMost ? found : kUsual;
}

// Keys that configs of networks on images have.
constexpr const char* kOfImages[] = {"image_size", "patch_size", "num_queries", "backbone",
                                     "backbone_config"};

// Example inputs as the library's classes name them; decoders need use_cache=False to be exported.
std::string example_inputs(const json& config, const std::string& architecture) {
  const auto vision = config.find("vision_config");
  const bool nested = vision != config.end() && vision->is_object();
  const bool sees = nested ||
                    contains_any(architecture, {"Image", "Detection", "Segmentation", "Depth"}) ||
                    std::any_of(std::begin(kOfImages), std::end(kOfImages),
                                [&](const char* key) { return config.contains(key); });
  const bool reads = config.contains("vocab_size") || config.contains("text_config");
  std::vector<std::string> inputs;
  if (sees) {
    const std::int64_t side = pixels(nested ? *vision : config);
    inputs.push_back(fmt::format("\"pixel_values\": torch.zeros(1, 3, {0}, {0})", side));
  }
  if (config.contains("conv_dim")) {
    inputs.emplace_back("\"input_values\": torch.zeros(1, 160000)");
  } else if (reads || !sees) {
    inputs.emplace_back("\"input_ids\": torch.ones(1, 128, dtype=torch.long)");
  }
  if (!sees && config.value("is_encoder_decoder", json(false)) == json(true)) {
    inputs.emplace_back("\"decoder_input_ids\": torch.ones(1, 128, dtype=torch.long)");
  }
  if (contains_any(architecture, {"ForCausalLM", "ForConditionalGeneration"})) {
    inputs.emplace_back("\"use_cache\": False");
  }
  return "{" + join(inputs, ", ") + "}";
}

// Two lines of Python, and the command for the file they write.
std::string export_lines(const json& whole, const std::string& architecture,
                         const std::string& source) {
  const std::string class_name = string_at(whole, "_class_name");
  const bool diffusion = is_word(class_name);
  const std::string loader =
      diffusion ? "diffusers." + class_name : "transformers." + auto_class(whole, architecture);
  return fmt::format(
      "\n  model = {}.from_pretrained(\"{}\"{}).eval()"
      "\n  torch.onnx.export(model, (), \"model.onnx\", kwargs={}, dynamo=True)"
      "\nand check the file with the sizes that you run: rooftile check model.onnx",
      loader, folder_literal(source),
      whole.contains("auto_map") && !diffusion ? ", trust_remote_code=True" : "",
      diffusion ? "{…}" : example_inputs(whole, architecture));
}

std::string shown_name(const Identity& identity) {
  if (identity.model_type.empty()) return rooftile::quoted(identity.architecture);
  std::string name = rooftile::quoted(identity.model_type);
  if (!identity.architecture.empty()) name += " (" + rooftile::quoted(identity.architecture) + ")";
  return name;
}

}  // namespace

Identity identity_of(const json& config) {
  Identity identity{string_at(config, "model_type"), {}};
  const auto listed = config.find("architectures");
  if (listed != config.end() && listed->is_array() && !listed->empty() &&
      listed->front().is_string()) {
    identity.architecture = listed->front().get<std::string>();
  }
  if (identity.model_type.empty()) {
    identity.model_type = model_type_of_architecture(identity.architecture);
  }
  if (const std::string name = string_at(config, "_class_name"); !name.empty()) {
    identity = {name, ""};
  }
  return identity;
}

Error not_read(const json& whole, const Identity& identity, const std::string& problem,
               const std::string& source) {
  std::string message = fmt::format("architecture {} {}", shown_name(identity), problem);
  const std::vector<std::string> others = other_versions(identity.model_type);
  if (!others.empty()) message += "; of this name, these are known: " + join(others, ", ");
  message += ". Export the model instead:";
  message += export_lines(whole, identity_of(whole).architecture, source);
  return {message, {}};
}

}  // namespace rooftile::hf
