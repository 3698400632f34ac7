#include "rooftile/readers/hf_config/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "rooftile/base/text.h"
#include "rooftile/readers/hf_config/build.h"
#include "rooftile/readers/hf_config/decoder.h"
#include "rooftile/readers/hf_config/families.h"
#include "rooftile/readers/hf_config/identify.h"
#include "rooftile/readers/hf_config/parsed.h"
#include "rooftile/readers/hf_config/refusal.h"
#include "rooftile/readers/hf_config/vision.h"
#include "rooftile/workload/layers_of_one_input.h"
#include "rooftile/workload/precision.h"

namespace rooftile {
namespace {

using hf::Config;
using hf::Identity;
using hf::Model;
using hf::Request;
using nlohmann::json;

// The largest published config has less than 1 MB; parsed JSON takes many times its text.
constexpr std::size_t kMaxFileBytes = 16 << 20;
constexpr std::int64_t kMaxInput = 1 << 25;

// Where multimodal models keep the config of their language model.
constexpr std::string_view kTextKeys[] = {"text_config", "language_config", "llm_config"};

// Models of several towers that are described as a whole.
bool has_towers_of_its_own(std::string_view model_type) {
  return is_one_of(model_type, {"clip", "siglip", "siglip2", "blip", "sam", "sam2"});
}

}  // namespace

const json* hf::nested_text_model(const json& config) {
  if (has_towers_of_its_own(hf::identity_of(config).model_type)) return nullptr;
  for (const std::string_view key : kTextKeys) {
    const auto entry = config.find(std::string(key));
    if (entry != config.end() && entry->is_object()) return &*entry;
  }
  return nullptr;
}

namespace {

// The text model's config with what only the whole model states.
json text_model_config(const json& whole, const json& text) {
  json result = text;
  for (const char* key : {"tie_word_embeddings", "torch_dtype", "dtype"}) {
    const bool stated = result.contains(key) && !result[key].is_null();
    if (!stated && whole.contains(key)) result[key] = whole[key];
  }
  return result;
}

// Whether the text model is the bulk of the whole: it generates, and the architecture is made for
// text. A detector with an encoder of its labels is more than that encoder.
bool is_mostly_text(const Identity& whole, const Identity& text) {
  if (!hf::generates_text(text.model_type)) return false;
  const std::size_t task = whole.architecture.rfind("For");
  if (task == std::string::npos) return true;
  const std::string_view named = std::string_view(whole.architecture).substr(task + 3);
  for (const std::string_view of_text :
       {"ConditionalGeneration", "CausalLM", "SequenceClassification", "TokenClassification"}) {
    if (named.starts_with(of_text)) return true;
  }
  return false;
}

Dtype choose_dtype(const Config& config, const hf::Quantization& quantization,
                   std::vector<std::string>& notes) {
  std::string name;
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (name.empty()) name = config.text(key);
  }
  if (name.starts_with("torch.")) name.erase(0, 6);
  if (name == "bfloat16") return Dtype::bf16;
  if (name == "float16" || name == "half") return Dtype::fp16;
  if (name == "float32" || name == "float") return Dtype::fp32;
  const Dtype assumed = quantization.empty() ? Dtype::fp32 : Dtype::bf16;
  notes.push_back(fmt::format("{}: {} assumed; set it with --dtype",
                              name.empty() ? "the config states no dtype"
                                           : "dtype " + rooftile::quoted(name) + " is not known",
                              to_string(assumed)));
  return assumed;
}

// "DeepSeek-V3.1-NVFP4" with a config that states bf16: what the name says is in another file.
void note_name_of_narrow_dtype(const json& whole, const std::string& source, Dtype dtype,
                               std::vector<std::string>& notes) {
  const std::filesystem::path path(source);
  std::string name = path.stem().string() + " " + path.parent_path().filename().string();
  const auto stated = whole.find("_name_or_path");
  if (stated != whole.end() && stated->is_string()) name += " " + stated->get<std::string>();
  const auto format = hf::narrow_format_in_name(name);
  if (!format) return;
  notes.push_back(fmt::format(
      "the name says {}, but the config states no quantization: weights are counted in {}; put "
      "{} next to the config",
      *format, to_string(dtype), hf::kQuantizationFile));
}

Result<Request> make_request(const Identity& identity, const ReadOptions& options) {
  for (const std::optional<std::int64_t> size : {options.batch, options.seq, options.past}) {
    if (size && (*size < 1 || *size > kMaxInput)) {
      return fail(fmt::format("batch and sequence length must be from 1 to {}, found {}", kMaxInput,
                              *size));
    }
  }
  return Request{.batch = options.batch.value_or(1),
                 .seq = options.seq,
                 .past = options.past,
                 .decode = options.mode == Mode::decode,
                 .training = options.mode == Mode::training,
                 .model_type = identity.model_type,
                 .architecture = identity.architecture};
}

// Towers for images and sound, whose results the text model reads.
void add_other_towers(const Config& whole, const Identity& identity, const Request& request,
                      Model& model) {
  const auto vision = whole.child("vision_config");
  const bool audio = whole.has("audio_config");
  const bool sees = vision && !has_towers_of_its_own(identity.model_type);
  if (!request.decode) {
    if (sees) hf::add_vision_tower(*vision, request, model);
    if (audio) model.skipped["audio tower"] += 1;
    return;
  }
  Model before;
  if (sees) hf::add_vision_tower(*vision, request, before);
  model.towers.insert(model.towers.begin(), before.towers.begin(), before.towers.end());
  if (sees || audio) {
    model.notes.push_back(
        fmt::format("a decode step does not run the towers for images and sound{}",
                    before.towers.empty() ? ", which are not among the parameters either" : ""));
  }
}

Result<void> turn_into_decode_step(const Identity& identity, Model& model) {
  if (hf::make_decode_step(model)) return {};
  const std::string& name =
      identity.architecture.empty() ? identity.model_type : identity.architecture;
  return fail(
      fmt::format("{} generates no tokens, so it has no decode step: leave out --mode decode",
                  rooftile::quoted(name)));
}

// Families of text are read with the output layer of generation then.
void note_missing_architecture(const Identity& identity, Model& model) {
  if (!identity.architecture.empty() || !hf::generates_text(identity.model_type)) return;
  model.notes.emplace_back(
      "the config names no architecture: a language model with its output layer is assumed");
}

// Generation of one token is something else.
void note_short_prompt(const Request& request, Model& model) {
  const bool generates = std::any_of(model.towers.begin(), model.towers.end(),
                                     [](const hf::Tower& tower) { return tower.generates; });
  if (request.decode || request.seq != 1 || !generates) return;
  model.notes.push_back(
      "--seq 1 is the prefill of one token; for a decode step use --mode decode --past N");
}

// What a library of Python builds, else why nothing reads it.
Result<Workload> built_elsewhere(const json& whole, const Identity& identity, std::string problem,
                                 const std::string& source, const ReadOptions& options) {
  std::error_code ignored;
  if (options.build && std::filesystem::is_regular_file(source, ignored)) {
    Result<Workload> built = options.build(source, options);
    if (built) return built;
    problem += "; " + built.error().message;
  }
  return tl::unexpected(hf::not_read(whole, identity, problem, source));
}

Result<Workload> describe_and_build(const json& whole, const json& part, const Identity& identity,
                                    const std::string& source, const ReadOptions& options) {
  const auto family = hf::find_family(identity.model_type);
  if (!family) {
    return built_elsewhere(whole, identity, "is not read from its config", source, options);
  }
  const auto request = make_request(identity, options);
  if (!request) return tl::unexpected(request.error());
  const Config config(part), whole_config(whole);
  Model model = (*family)(config, *request);
  add_other_towers(whole_config, identity, *request, model);
  const hf::Quantization quantization(whole_config, model.notes);
  const Dtype dtype = options.dtype ? activation_dtype(*options.dtype)
                                    : choose_dtype(config, quantization, model.notes);
  if (quantization.empty()) note_name_of_narrow_dtype(whole, source, dtype, model.notes);
  for (const Config* read : {&config, &whole_config}) {
    if (read->error()) return tl::unexpected(*read->error());
  }
  if (!options.batch) model.notes.emplace_back("batch 1 assumed; set it with --batch");
  note_missing_architecture(identity, model);
  note_short_prompt(*request, model);
  if (request->decode) {
    const auto decodes = turn_into_decode_step(identity, model);
    if (!decodes) return tl::unexpected(decodes.error());
  }
  Result<Workload> workload = hf::build_workload(
      model, {source, request->batch, dtype, quantization.kv_cache().value_or(dtype)},
      quantization);
  if (!workload) return workload;
  if (request->decode) {
    workload->mode = Mode::decode;
    join_layers_of_one_input(*workload);
  }
  if (options.mode == Mode::training) {
    workload->kv_cache_bytes.reset();
    workload->recurrent_state_bytes.reset();
  }
  return workload;
}

}  // namespace

Result<Workload> hf::read_json(const json& whole, const std::string& source,
                               const ReadOptions& options) {
  if (const auto reason = hf::not_a_model_config(whole)) return fail(*reason);
  const Identity identity = hf::identity_of(whole);
  const json* text = hf::nested_text_model(whole);
  if (text == nullptr) return describe_and_build(whole, whole, identity, source, options);
  Identity nested = hf::identity_of(*text);
  if (nested.architecture.empty()) nested.architecture = identity.architecture;
  if (nested.model_type.empty()) {
    return fail(fmt::format("the text model of architecture {} does not state its model_type",
                            rooftile::quoted(identity.model_type)));
  }
  if (hf::find_family(nested.model_type) && !is_mostly_text(identity, nested)) {
    const std::string problem =
        fmt::format("is more than its text model {}, and is not read from its config",
                    rooftile::quoted(nested.model_type));
    return built_elsewhere(whole, identity, problem, source, options);
  }
  return describe_and_build(whole, text_model_config(whole, *text), nested, source, options);
}

namespace {

// A sequence length that changes nothing is none of the model's: it reads images or the like.
void note_unused_length(const json& config, const std::string& source, const ReadOptions& options,
                        Workload& workload) {
  if (!options.seq || workload.pass_memory) return;  // a captured pass took it
  ReadOptions other = options;
  other.seq = *options.seq == 1 ? 2 : 1;
  const Result<Workload> changed = hf::read_json(config, source, other);
  if (!changed || changed->ops != workload.ops) return;
  workload.unused_options.emplace_back("--seq");
  workload.notes.push_back(
      fmt::format("the model has no sequence length to set, --seq {} has no effect", *options.seq));
}

Result<std::string> read_text(const std::string& path) {
  std::error_code problem;
  if (path != "-" && !std::filesystem::is_regular_file(path, problem)) {
    return fail("not a readable file", path);
  }
  std::ifstream file;
  if (path != "-") file.open(path, std::ios::binary);
  std::istream& in = path == "-" ? std::cin : file;
  std::string text(kMaxFileBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (in.bad()) return fail("cannot be read", path);
  if (text.size() > kMaxFileBytes) {
    return fail(
        fmt::format("larger than {} MiB, too large for a model config", kMaxFileBytes >> 20), path);
  }
  return text;
}

// ModelOpt writes the quantization of a checkpoint into a file of its own.
void add_quantization_beside(const std::string& path, json& config) {
  if (path == "-" || !config.is_object() || config.contains("quantization_config")) return;
  const auto beside = std::filesystem::path(path).parent_path() / hf::kQuantizationFile;
  std::error_code problem;
  if (!std::filesystem::is_regular_file(beside, problem)) return;
  const auto text = read_text(beside.string());
  const auto described = text ? hf::parse_json(*text) : Result<json>(tl::unexpected(text.error()));
  if (!described || !described->is_object()) return;
  const auto found = described->find("quantization");
  if (found != described->end() && found->is_object()) config["quantization_config"] = *found;
}

Result<Workload> parsed(const Result<json>& config, const std::string& source,
                        const ReadOptions& options) {
  Result<Workload> workload = config ? hf::read_json(*config, source, options)
                                     : Result<Workload>(tl::unexpected(config.error()));
  if (workload) note_unused_length(*config, source, options, *workload);
  if (!workload && workload.error().where.empty()) workload.error().where = source;
  return workload;
}

Result<Workload> read_config(const std::string& path, const ReadOptions& options) {
  return parsed(hf::read_parsed(path), path, options);
}

}  // namespace

Result<json> hf::read_parsed(const std::string& path) {
  const auto text = read_text(path);
  if (!text) return tl::unexpected(text.error());
  Result<json> config = hf::parse_json(*text);
  if (config) add_quantization_beside(path, *config);
  return config;
}

Result<Workload> parse_hf_config(std::string_view text, const std::string& source,
                                 const ReadOptions& options) {
  return parsed(hf::parse_json(text), source, options);
}

const Reader hf_config_reader{.name = "hf_config",
                              .recognises = hf::looks_like_config,
                              .read = read_config,
                              .takes = "--batch, --seq, --past",
                              .instead_of_decode = {}};

}  // namespace rooftile
