#include "rooftile/readers/hf_config/quantization.h"

#include <fmt/format.h>

#include <cctype>

#include "rooftile/base/text.h"

namespace rooftile::hf {
namespace {

// Lists in published files have at most a few hundred patterns with wildcards.
constexpr std::size_t kMaxGlobs = 512;

std::optional<Dtype> narrow_dtype(std::string_view type, std::int64_t bits) {
  if (type == "float" && bits == 8) return Dtype::fp8;
  if (type == "float" && bits == 4) return Dtype::fp4;
  if (type == "int" && bits == 8) return Dtype::int8;
  if (type == "int" && bits == 4) return Dtype::int4;
  return std::nullopt;
}

struct Algorithm {
  std::string_view name;
  Scheme scheme;
};

// Names that ModelOpt exports (QuantAlgo in TensorRT-LLM's quantization/mode.py): W4A8 has 4-bit
// weights and 8-bit activations.
constexpr Algorithm kAlgorithms[] = {
    {"fp8", {Dtype::fp8, Dtype::fp8}},
    {"fp8_per_channel_per_token", {Dtype::fp8, Dtype::fp8}},
    {"fp8_block_scales", {Dtype::fp8, Dtype::fp8}},
    {"fp8_pb_wo", {Dtype::fp8, std::nullopt}},
    {"mxfp8", {Dtype::fp8, Dtype::fp8}},
    {"nvfp4", {Dtype::fp4, Dtype::fp4}},
    {"nvfp4_awq", {Dtype::fp4, Dtype::fp4}},
    {"w4a16_nvfp4", {Dtype::fp4, std::nullopt}},
    {"w4a8_nvfp4_fp8", {Dtype::fp4, Dtype::fp8}},
    {"w4a16_mxfp4", {Dtype::fp4, std::nullopt}},
    {"w4a8_mxfp4_fp8", {Dtype::fp4, Dtype::fp8}},
    {"w4a8_mxfp4_mxfp8", {Dtype::fp4, Dtype::fp8}},
    {"w4a16", {Dtype::int4, std::nullopt}},
    {"w4a16_awq", {Dtype::int4, std::nullopt}},
    {"w4a16_gptq", {Dtype::int4, std::nullopt}},
    {"w4a8_awq", {Dtype::int4, Dtype::fp8}},
    {"w8a16", {Dtype::int8, std::nullopt}},
    {"w8a16_gptq", {Dtype::int8, std::nullopt}},
    {"w8a8_sq_per_channel", {Dtype::int8, Dtype::int8}},
    {"int8", {Dtype::int8, Dtype::int8}},
};

std::optional<Scheme> scheme_of_algorithm(std::string_view name) {
  for (const Algorithm& known : kAlgorithms) {
    if (known.name == name) return known.scheme;
  }
  return std::nullopt;
}

std::optional<Dtype> dtype_of(const std::optional<Config>& description) {
  if (!description) return std::nullopt;
  return narrow_dtype(description->text("type", "int"), description->count_or({"num_bits"}, 0));
}

// Checkpoints name the text model differently ("model.language_model.layers.0" and
// "model.layers.0" are the same layer), so the containers' names do not count.
std::string without_containers(std::string_view module) {
  bool again = true;
  while (again) {
    again = false;
    for (const std::string_view prefix :
         {"model.", "language_model.", "backbone.", "transformer."}) {
      if (module.starts_with(prefix)) {
        module.remove_prefix(prefix.size());
        again = true;
      }
    }
  }
  // DeepSeek's checkpoints have "layers.0.ffn" and "layers.0.attn".
  std::string name(module);
  const auto rename = [&](std::string_view from, std::string_view to) {
    for (std::size_t at = name.find(from); at != std::string::npos; at = name.find(from, at + 1)) {
      const std::size_t end = at + from.size();
      if (end == name.size() || name[end] == '.') name.replace(at, from.size(), to);
    }
  };
  rename(".ffn", ".mlp");
  rename(".attn", ".self_attn");
  return name;
}

// Calls `found` with the module and each of the modules around it.
template <class Found>
bool any_ancestor(std::string_view module, Found found) {
  while (true) {
    if (found(std::string(module))) return true;
    const std::size_t dot = module.rfind('.');
    if (dot == std::string_view::npos) return false;
    module = module.substr(0, dot);
  }
}

}  // namespace

std::optional<std::string_view> narrow_format_in_name(std::string_view name) {
  const std::string words = lower(name);
  const auto is_letter = [&](std::size_t at) {
    return std::isalnum(static_cast<unsigned char>(words[at])) != 0;  // its end is no letter
  };
  for (const std::string_view format : {"NVFP4", "MXFP4", "FP8"}) {
    const std::string word = lower(format);
    for (std::size_t at = words.find(word); at != std::string::npos;
         at = words.find(word, at + 1)) {
      if (!(at > 0 && is_letter(at - 1)) && !is_letter(at + word.size())) return format;
    }
  }
  return std::nullopt;
}

bool matches_glob(std::string_view glob, std::string_view text) {
  std::size_t g = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      resume = t;
    } else if (g < glob.size() && glob[g] == text[t]) {
      ++g;
      ++t;
    } else if (star != std::string_view::npos) {
      g = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size();
}

namespace {

// The alternatives of the first (a|b) in the text, one text each.
std::vector<std::string> expand_group(std::string_view text) {
  const std::size_t open = text.find('('), close = text.find(')');
  if (close == std::string_view::npos || close < open) return {};  // or none opens
  std::vector<std::string> expanded;
  for (const std::string_view choice : split(text.substr(open + 1, close - open - 1), '|')) {
    expanded.push_back(fmt::format("{}{}{}", text.substr(0, open), choice, text.substr(close + 1)));
  }
  return expanded;
}

std::optional<std::string> glob_of_simple_regex(std::string_view regex) {
  std::string glob;
  const bool ends = regex.ends_with('$');
  if (ends) regex.remove_suffix(1);
  if (regex.starts_with('^')) regex.remove_prefix(1);
  for (std::size_t at = 0; at < regex.size(); ++at) {
    const char c = regex[at];
    if (regex.substr(at, 2) == ".*") {
      glob += '*';
      ++at;
    } else if (regex.substr(at, 2) == "\\.") {
      glob += '.';
      ++at;
    } else if (std::string_view("\\[](){}?+*|^$.").find(c) != std::string_view::npos) {
      return std::nullopt;
    } else {
      glob += c;
    }
  }
  if (!ends && !glob.ends_with('*')) glob += '*';
  return glob;
}

}  // namespace

std::vector<std::string> globs_of_regex(std::string_view regex) {
  std::vector<std::string> open{std::string(regex)}, globs;
  for (std::size_t next = 0; next < open.size(); ++next) {
    if (open.size() > kMaxGlobs) return {};
    if (auto glob = glob_of_simple_regex(open[next])) {
      globs.push_back(*glob);
      continue;
    }
    const std::vector<std::string> expanded = expand_group(open[next]);
    if (expanded.empty()) return {};
    open.insert(open.end(), expanded.begin(), expanded.end());
  }
  return globs;
}

Quantization::Quantization(const Config& config, std::vector<std::string>& notes) {
  std::optional<Config> found = config.child("quantization_config");
  if (const auto text = config.child("text_config"); !found && text) {
    found = text->child("quantization_config");
  }
  if (!found) return;
  read_groups(*found, notes);
  if (empty()) read_layers(*found, notes);
  if (empty()) read_method(*found, notes);
  read_kv_cache(*found);
  // DeepSeek V4's experts have 4-bit weights and 8-bit activations.
  if (default_ && found->text("expert_dtype", config.text("expert_dtype")) == "fp4") {
    experts_ = Scheme{Dtype::fp4, default_->input};
  }
  for (const std::string_view key : {"ignore", "modules_to_not_convert", "exclude_modules"}) {
    exclude(found->texts(key), notes);
  }
}

void Quantization::read_method(const Config& config, std::vector<std::string>& notes) {
  const std::string method = lower(config.text("quant_method"));
  const std::string algorithm = lower(config.text("quant_algo"));
  const std::int64_t bits = config.count_or({"bits", "w_bit"}, 4);
  if (const auto known = scheme_of_algorithm(algorithm)) {
    default_ = *known;
  } else if (method == "fp8" || method == "fbgemm_fp8") {
    default_ = Scheme{Dtype::fp8, Dtype::fp8};
  } else if (method == "mxfp4") {
    default_ = Scheme{Dtype::fp4, std::nullopt};
  } else if ((method == "gptq" || method == "awq") && (bits == 4 || bits == 8)) {
    default_ = Scheme{bits == 4 ? Dtype::int4 : Dtype::int8, std::nullopt};
  } else if (config.flag("load_in_4bit", false)) {
    default_ = Scheme{Dtype::int4, std::nullopt};
  } else if (config.flag("load_in_8bit", false)) {
    default_ = Scheme{Dtype::int8, Dtype::int8};
  } else {
    notes.push_back(fmt::format(
        "quantization_config (quant_method {}) is not modelled: weights are counted in the "
        "model's dtype",
        rooftile::quoted(algorithm.empty() ? method : algorithm)));
  }
}

// MIXED_PRECISION lists the algorithm of each module.
void Quantization::read_layers(const Config& config, std::vector<std::string>& notes) {
  const auto listed = config.child("quantized_layers");
  if (!listed) return;
  std::int64_t unknown = 0;
  for (const std::string& module : listed->keys()) {
    const auto layer = listed->child(module);
    const auto scheme =
        layer ? scheme_of_algorithm(lower(layer->text("quant_algo"))) : std::nullopt;
    if (scheme) {
      by_module_.emplace(without_containers(module), *scheme);
    } else {
      ++unknown;
    }
  }
  if (unknown > 0) {
    notes.push_back(fmt::format(
        "{} of quantized_layers have a quant_algo that is not known: their weights are counted in "
        "the model's dtype",
        unknown));
  }
}

// "kv_cache_quant_algo": "FP8", or a scheme as of weights, under a name or as an object.
void Quantization::read_kv_cache(const Config& config) {
  if (const auto scheme = config.child("kv_cache_scheme")) {
    kv_cache_ = dtype_of(scheme);
    return;
  }
  for (const char* key : {"kv_cache_quant_algo", "kv_cache_scheme"}) {
    const std::string name = lower(config.text(key));
    if (name == "fp8") kv_cache_ = Dtype::fp8;
    if (name == "nvfp4") kv_cache_ = Dtype::fp4;
    if (name == "int8") kv_cache_ = Dtype::int8;
  }
}

void Quantization::read_groups(const Config& config, std::vector<std::string>& notes) {
  for (const Config& group : config.children("config_groups")) {
    const auto weight = dtype_of(group.child("weights"));
    if (!weight) {
      notes.push_back(
          "a config group of quantization_config has weights of an unknown type and "
          "is ignored");
      continue;
    }
    const Scheme scheme{*weight, dtype_of(group.child("input_activations"))};
    const std::vector<std::string> targets = group.texts("targets");
    if (targets.empty()) default_ = scheme;
    for (const std::string& target : targets) {
      if (target.find('.') == std::string::npos && target != "lm_head") {
        default_ = scheme;  // a class name: Linear
      } else {
        by_module_.emplace(without_containers(target), scheme);
      }
    }
  }
}

void Quantization::exclude_pattern(std::string_view pattern) {
  const std::string module = without_containers(pattern);
  if (module.find('*') == std::string::npos) {
    excluded_.insert(module);
  } else {
    excluded_globs_.push_back(module);
  }
}

void Quantization::exclude(const std::vector<std::string>& patterns,
                           std::vector<std::string>& notes) {
  for (const std::string& pattern : patterns) {
    if (excluded_globs_.size() >= kMaxGlobs) {
      notes.push_back(
          fmt::format("only the first {} patterns of unquantized modules are used", kMaxGlobs));
      return;
    }
    if (!pattern.starts_with("re:")) {
      exclude_pattern(pattern);
      continue;
    }
    const std::vector<std::string> globs = globs_of_regex(std::string_view(pattern).substr(3));
    for (const std::string& glob : globs) exclude_pattern(glob);
    if (globs.empty()) {
      notes.push_back(
          fmt::format("the pattern {} of unquantized modules is not understood and "
                      "ignored",
                      rooftile::quoted(pattern)));
    }
  }
}

bool Quantization::is_excluded(const std::string& module) const {
  if (any_ancestor(module, [&](const std::string& name) { return excluded_.contains(name); })) {
    return true;
  }
  // A name without dots excludes modules of that name anywhere.
  for (const std::string_view part : split(module, '.')) {
    if (excluded_.contains(std::string(part))) return true;
  }
  return any_ancestor(module, [&](const std::string& name) {
    for (const std::string& glob : excluded_globs_) {
      if (matches_glob(glob, name)) return true;
    }
    return false;
  });
}

std::optional<Scheme> Quantization::scheme(std::string_view module, bool usual) const {
  if (empty()) return std::nullopt;
  const std::string name = without_containers(module);
  std::optional<Scheme> listed;
  any_ancestor(name, [&](const std::string& ancestor) {
    const auto entry = by_module_.find(ancestor);
    if (entry != by_module_.end()) listed = entry->second;
    return listed.has_value();
  });
  if (listed) return listed;
  if (!usual || !default_ || is_excluded(name)) return std::nullopt;
  if (experts_ && contains(name, ".experts.")) return experts_;
  return default_;
}

}  // namespace rooftile::hf
