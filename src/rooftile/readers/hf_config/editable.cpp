#include "rooftile/readers/hf_config/editable.h"

#include <fmt/format.h>

#include <array>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "rooftile/readers/hf_config/config.h"
#include "rooftile/readers/hf_config/parsed.h"

namespace rooftile {
namespace {

using nlohmann::json;

struct Spellings {
  ShapeSize size;
  std::array<const char*, 5> keys;  // of which a config has one; null: no more
};

constexpr std::array<Spellings, 7> kSpellings{
    {{ShapeSize::hidden, {"hidden_size", "n_embd", "d_model", "dim"}},
     {ShapeSize::layers, {"num_hidden_layers", "n_layer", "num_layers", "n_layers"}},
     {ShapeSize::heads, {"num_attention_heads", "n_head", "num_heads", "n_heads"}},
     {ShapeSize::kv_heads, {"num_key_value_heads"}},
     {ShapeSize::head_size, {"head_dim"}},
     {ShapeSize::ffn, {"intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "hidden_dim"}},
     {ShapeSize::vocabulary, {"vocab_size"}}}};

std::optional<std::int64_t> size_at(const json& config, const char* key) {
  const auto entry = config.find(key);
  if (entry == config.end() || !entry->is_number_integer()) return std::nullopt;
  const auto size = entry->get<std::int64_t>();
  return size >= 1 ? std::optional(size) : std::nullopt;
}

// Two stacks share the names of their sizes, and one number then decides several.
bool has_two_stacks(const json& config) {
  const auto flag = config.find("is_encoder_decoder");
  return config.contains("encoder_layers") || config.contains("num_decoder_layers") ||
         (flag != config.end() && flag->is_boolean() && flag->get<bool>());
}

// Lists with an entry for each layer hold the depth too.
bool has_list_of(const json& config, std::int64_t layers) {
  for (const auto& [key, value] : config.items()) {
    if (value.is_array() && layers > 1 && static_cast<std::int64_t>(value.size()) == layers) {
      return true;
    }
  }
  return false;
}

}  // namespace

struct EditableConfig::State {
  json whole;
  std::string source;
  std::string part = {};  // key of the nested text model; empty: the whole
  ModelShape shape = {};
  std::map<ShapeSize, std::string> keys = {};
  std::vector<std::string> notes = {};

  const json& config() const { return part.empty() ? whole : whole.at(part); }

  void find_part() {
    const json* nested = hf::nested_text_model(whole);
    if (nested == nullptr) return;
    for (const auto& [key, value] : whole.items()) {
      if (&value == nested) part = key;
    }
  }

  void find_sizes() {
    for (const Spellings& spellings : kSpellings) {
      for (const char* key : spellings.keys) {
        const auto size = key == nullptr ? std::nullopt : size_at(config(), key);
        if (!size) continue;
        shape[spellings.size] = *size;
        keys[spellings.size] = key;
        break;
      }
    }
  }

  void hold(ShapeSize size, std::string why) {
    if (shape.erase(size) > 0) notes.push_back(std::move(why));
  }

  void hold_what_others_follow() {
    if (has_list_of(config(), shape.at(ShapeSize::layers))) {
      hold(ShapeSize::layers, "the config lists its layers one by one: their number is kept");
    }
    if (config().contains("kv_lora_rank")) {
      shape.erase(ShapeSize::kv_heads);
      shape.erase(ShapeSize::head_size);
      hold(ShapeSize::heads, "latent attention: the number of heads is kept");
    }
  }
};

Result<EditableConfig> EditableConfig::of(State state) {
  const std::string& source = state.source;
  if (!state.whole.is_object()) return fail("expected a Hugging Face config.json", source);
  state.find_part();
  if (has_two_stacks(state.config())) {
    return fail("an encoder and a decoder share their sizes: expected a model of one stack",
                source);
  }
  state.find_sizes();
  if (!state.shape.contains(ShapeSize::hidden) || !state.shape.contains(ShapeSize::layers)) {
    return fail("states no hidden size and number of layers: expected a transformer's config.json",
                source);
  }
  state.hold_what_others_follow();
  return EditableConfig(std::make_shared<const State>(std::move(state)));
}

Result<EditableConfig> EditableConfig::parse(std::string_view text, const std::string& source) {
  auto config = hf::parse_json(text);
  if (!config) return fail(config.error().message, source);
  return of({.whole = std::move(*config), .source = source});
}

Result<EditableConfig> EditableConfig::read(const std::string& path) {
  auto config = hf::read_parsed(path);
  if (!config) return fail(config.error().message, path);
  return of({.whole = std::move(*config), .source = path});
}

const ModelShape& EditableConfig::shape() const { return state_->shape; }

std::string_view EditableConfig::key(ShapeSize size) const { return state_->keys.at(size); }

const std::vector<std::string>& EditableConfig::notes() const { return state_->notes; }

bool EditableConfig::is_quantized() const {
  return state_->whole.contains("quantization_config") ||
         state_->config().contains("quantization_config");
}

Result<Workload> EditableConfig::build(const ModelShape& shape, const ReadOptions& options) const {
  json changed = state_->whole;
  json& config = state_->part.empty() ? changed : changed[state_->part];
  ReadOptions changed_options = options;
  changed_options.build = nullptr;  // it would build what is in the file
  for (const auto& [size, value] : shape) {
    if (size == ShapeSize::batch) {
      changed_options.batch = value;
    } else {
      config[state_->keys.at(size)] = value;
    }
  }
  return hf::read_json(changed, state_->source, changed_options);
}

}  // namespace rooftile
