// The quantization_config of a config.json, or ModelOpt's file next to it: which matrix
// multiplications have narrow weights.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "rooftile/readers/hf_config/config.h"
#include "rooftile/workload/tensor.h"

namespace rooftile::hf {

// Weights are stored as `weight`; activations are quantized to `input` before the product, or stay.
struct Scheme {
  Dtype weight = Dtype::fp8;
  std::optional<Dtype> input;

  bool operator==(const Scheme&) const = default;
};

// Next to config.json; its object "quantization" is read as a quantization_config.
inline constexpr std::string_view kQuantizationFile = "hf_quant_config.json";

// "NVFP4", "MXFP4" or "FP8" where a model's name has it as a word of its own.
std::optional<std::string_view> narrow_format_in_name(std::string_view name);

class Quantization {
 public:
  Quantization() = default;
  // Reads quantization_config of the model or its text model; adds what it cannot use to `notes`.
  Quantization(const Config& config, std::vector<std::string>& notes);

  // Of the module "model.layers.3.mlp.up_proj". `usual` tells whether the module is one that
  // quantizers convert unless told otherwise: linear layers are, routers and output heads are not.
  std::optional<Scheme> scheme(std::string_view module, bool usual) const;
  bool empty() const { return !default_ && by_module_.empty(); }
  // Of stored keys and values, where it is not the model's.
  std::optional<Dtype> kv_cache() const { return kv_cache_; }

 private:
  void read_method(const Config& config, std::vector<std::string>& notes);
  void read_layers(const Config& config, std::vector<std::string>& notes);
  void read_kv_cache(const Config& config);
  void read_groups(const Config& config, std::vector<std::string>& notes);
  void exclude(const std::vector<std::string>& patterns, std::vector<std::string>& notes);
  void exclude_pattern(std::string_view pattern);
  bool is_excluded(const std::string& module) const;

  std::optional<Scheme> default_;
  std::optional<Scheme> experts_;  // of routed experts, where it is another
  std::optional<Dtype> kv_cache_;
  std::unordered_map<std::string, Scheme> by_module_;
  std::unordered_set<std::string> excluded_;
  std::vector<std::string> excluded_globs_;
};

// Whether `text` matches `glob`, where * stands for any characters.
bool matches_glob(std::string_view glob, std::string_view text);

// The plain globs that a pattern of a regular expression without more than .*, \. and (a|b)
// stands for; empty when it uses anything else.
std::vector<std::string> globs_of_regex(std::string_view regex);

}  // namespace rooftile::hf
