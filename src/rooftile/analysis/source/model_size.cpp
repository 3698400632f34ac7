#include "rooftile/analysis/source/model_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/size_search.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"
#include "rooftile/workload/source_store.h"

namespace rooftile::source {
namespace {

constexpr std::int64_t kWideConvolution = 64;  // channels
constexpr std::int64_t kWideLayer = 512;       // features

// Where a layer type has its two sizes; equal positions for those that have one.
struct SizedType {
  std::string_view name;
  std::string_view in, out;
  int in_position, out_position;
  std::int64_t enough;
  std::string_view unit;
};

constexpr auto kTypes = std::to_array<SizedType>({
    {"torch.nn.Conv2d", "in_channels", "out_channels", 0, 1, kWideConvolution, "channels"},
    {"torch.nn.Conv3d", "in_channels", "out_channels", 0, 1, kWideConvolution, "channels"},
    {"torch.nn.Conv1d", "in_channels", "out_channels", 0, 1, kWideConvolution, "channels"},
    {"torch.nn.ConvTranspose2d", "in_channels", "out_channels", 0, 1, kWideConvolution, "channels"},
    {"torch.nn.ConvTranspose3d", "in_channels", "out_channels", 0, 1, kWideConvolution, "channels"},
    {"torch.nn.Linear", "in_features", "out_features", 0, 1, kWideLayer, "features"},
    {"torch.nn.LSTM", "hidden_size", "hidden_size", 1, 1, kWideLayer, "units"},
    {"torch.nn.GRU", "hidden_size", "hidden_size", 1, 1, kWideLayer, "units"},
    {"torch.nn.RNN", "hidden_size", "hidden_size", 1, 1, kWideLayer, "units"},
    {"torch.nn.MultiheadAttention", "embed_dim", "embed_dim", 0, 0, kWideLayer, "features"},
    {"torch.nn.TransformerEncoderLayer", "d_model", "d_model", 0, 0, kWideLayer, "features"},
    {"torch.nn.TransformerDecoderLayer", "d_model", "d_model", 0, 0, kWideLayer, "features"},
    {"torch.nn.Transformer", "d_model", "d_model", 0, 0, kWideLayer, "features"},
});

std::string_view short_name(const SizedType& type) {
  return type.name.substr(type.name.rfind('.') + 1);
}

std::string sizes_text(const SizedType& type, std::int64_t in, std::int64_t out) {
  std::string text(short_name(type));
  text += " of " + std::to_string(in);
  if (type.in_position != type.out_position) text += " to " + std::to_string(out);
  return text + " " + std::string(type.unit);
}

struct Sized {
  SizedLayer layer;
  double weights = 0;  // in times out; 0 where one of them is not known
};

std::optional<Sized> sized(const SourceFacts& facts, const Program& program, const SizedType& type,
                           const Call& call, std::int64_t enough) {
  std::optional<Sized> half_known;
  for (const auto& [in, out] : layer_sizes(facts, program, call, {type.in, type.in_position},
                                           {type.out, type.out_position})) {
    if (in && out && *in >= enough && *out >= enough) {
      return Sized{{&call, sizes_text(type, *in, *out)},
                   static_cast<double>(*in) * static_cast<double>(*out)};
    }
    // A first layer has its inputs as a literal; what is not known is as wide as its neighbours.
    if (in || !out || *out < 2 * enough || half_known) continue;
    half_known = Sized{{&call, fmt::format("{} to {} {}", short_name(type), *out, type.unit)}, 0};
  }
  return half_known;
}

// BertModel, GPT2LMHeadModel, T5ForConditionalGeneration, AutoModelForCausalLM.
bool is_transformer_class(std::string_view name) {
  if (contains_any(name, {"Tokenizer", "Config", "Processor", "Output", "PreTrainedModel"})) {
    return false;
  }
  const std::size_t purpose = name.find("For");
  const bool has_purpose =
      purpose != std::string_view::npos && starts_with_capital(name.substr(purpose + 3));
  return has_purpose || contains_any(name, {"Model"});
}

bool is_of_transformers(std::string_view name) {
  return starts_with_any(name,
                         {"transformers.", "pytorch_transformers.", "pytorch_pretrained_bert."});
}

bool is_library_model(const Call& call) {
  const std::string_view name = call.name;
  if (name.starts_with("torchvision.models.")) {
    const std::string_view last = call.method;
    return !contains(name, ".utils.") && !contains(last, "Weights") &&
           !is_one_of(last, {"", "get_model_weights", "squeezenet1_1", "create_feature_extractor"});
  }
  if (is_one_of(name, {"timm.create_model", "torch.hub.load"})) return true;
  if (name.starts_with("efficientnet_pytorch.")) {
    return is_one_of(call.method, {"from_pretrained", "from_name"});
  }
  if (is_of_transformers(name)) {
    return is_transformer_class(name) && ends_with_any(name, {".from_pretrained", ".from_config"});
  }
  // Of segmentation_models_pytorch.
  return !contains_any(name, {".losses", ".utils", ".metrics", ".encoders"}) &&
         starts_with_capital(call.method);
}

// PreTrainedModel of the library, or an own class derived from it, as in copies of the library's
// files.
bool is_pretrained(const ClassDef* def) {
  return std::ranges::any_of(lineage(def), [](const ClassDef* each) {
    return std::ranges::any_of(each->bases, [](const Expr* base) {
      return base->full_name().starts_with("transformers.") &&
             base->full_name().ends_with("PreTrainedModel");
    });
  });
}

// `self.bert = BertModel(config)` in an own class of a pretrained model, whose weights and sizes
// from_pretrained() brings.
bool is_pretrained_body(const Call& call) {
  const ClassDef* def = call.function == nullptr ? nullptr : call.function->class_def;
  const bool is_body = call.method.ends_with("Model") && !call.method.ends_with("PreTrainedModel");
  return is_body && is_pretrained(def);
}

bool loads_pretrained(const Program& program) {
  return std::ranges::any_of(program.files, [](const File* file) {
    return std::ranges::any_of(file->calls, [](const Call* call) {
      // Not a tokenizer's or a configuration's of the library.
      return call->method == "from_pretrained" && !call->name.starts_with("transformers.") &&
             call->receiver != nullptr &&
             (call->receiver_type().is(TypeKind::class_) ||
              last_name(call->receiver).find("model") != std::string_view::npos);
    });
  });
}

// torchvision's models by name: models.__dict__[args.arch], getattr(models, args.arch).
bool is_chosen_by_name(const Expr& part) {
  const auto is_package = [](const Expr* expr) {
    return expr->full_name() == "torchvision.models";
  };
  if (part.kind == ExprKind::subscript) {
    const Expr& names = *part.children()[0];
    return names.kind == ExprKind::attribute && names.word() == "__dict__" &&
           is_package(names.children()[0]);
  }
  return part.call() != nullptr && part.call()->name == "getattr" &&
         part.call()->arguments.size() > 1 && is_package(part.call()->arguments[0].value);
}

// The call around, which makes it or hands it on; `callable(models.__dict__[name])` only asks.
const Call* call_around(const Expr& part) {
  for (const Expr* outer = part.parent; outer != nullptr; outer = outer->parent) {
    if (outer->call() != nullptr)
      return outer->call()->name == "callable" ? nullptr : outer->call();
  }
  return nullptr;
}

}  // namespace

std::optional<SizedLayer> model_chosen_by_name(const Program& program, const Accepts& accepts) {
  for (const File* file : program.files) {
    if (file->is_test || !mentions(*file, {"torchvision"})) continue;
    const Call* found = nullptr;
    for (const Call* call : file->calls) {
      visit(call->expr, [&](const Expr& part) {
        if (found == nullptr && is_chosen_by_name(part)) found = call_around(part);
        return found == nullptr;
      });
      if (found != nullptr && !accepts(*found)) found = nullptr;
      if (found != nullptr) return SizedLayer{found, "torchvision.models by name"};
    }
  }
  return std::nullopt;
}

namespace {

// `self.weight = nn.Parameter(torch.empty(768, 3072))`: a linear layer of the project's own.
std::optional<SizedLayer> own_linear(const SourceFacts& facts, const Program& program,
                                     const Accepts& accepts) {
  for (const Call* call : calls_in(facts, program, {"torch.nn.Parameter"})) {
    if (!accepts(*call)) continue;
    const ClassDef* def = call->function == nullptr ? nullptr : call->function->class_def;
    const bool is_layer = def != nullptr && def->is_module && !call->arguments.empty();
    const Expr* made = is_layer ? resolved(call->arguments[0].value) : nullptr;
    const Call* tensor = made == nullptr ? nullptr : made->call();
    if (tensor == nullptr || tensor->arguments.size() != 2) continue;
    if (!is_one_of(tensor->name, {"torch.empty", "torch.zeros", "torch.randn", "torch.rand",
                                  "torch.Tensor", "torch.FloatTensor"})) {
      continue;
    }
    const auto rows = largest_size(facts, tensor->arguments[0].value, &program);
    const auto columns = largest_size(facts, tensor->arguments[1].value, &program);
    if (rows.value_or(0) < kWideLayer || columns.value_or(0) < kWideLayer) continue;
    return SizedLayer{call, fmt::format("weights of {} by {} features", *rows, *columns)};
  }
  return std::nullopt;
}

std::optional<SizedLayer> library_model(const SourceFacts& facts, const Program& program,
                                        const Accepts& accepts) {
  for (const Call* call :
       calls_in(facts, program,
                {"torchvision.models.*", "timm.create_model", "torch.hub.load", "transformers.*",
                 "pytorch_transformers.*", "pytorch_pretrained_bert.*",
                 "segmentation_models_pytorch.*", "efficientnet_pytorch.*"})) {
    const bool is_model =
        is_library_model(*call) || (is_pretrained_body(*call) && loads_pretrained(program));
    if (is_model && accepts(*call)) return SizedLayer{call, std::string(call->name)};
  }
  for (const Call* call : calls_in(facts, program, {"diffusers.*"})) {
    if (call->name.find("Model") != std::string_view::npos && accepts(*call)) {
      return SizedLayer{call, std::string(call->name)};
    }
  }
  return model_chosen_by_name(program, accepts);
}

// Calls that make a layer of an own class, `class CausalConv2d(nn.Conv2d)`, whose __init__ takes
// the two sizes first, as the library's does.
std::vector<const Call*> derived_layers(const Program& program, const SizedType& type) {
  std::vector<const Call*> made;
  for (const File* file : program.files) {
    for (const ClassDef* def : file->classes) {
      const bool is_one = def->is_module && std::ranges::any_of(def->bases, [&](const Expr* base) {
                            return base->full_name() == type.name;
                          });
      const FunctionDef* init = is_one ? def->method("__init__") : nullptr;
      const bool takes_sizes = init != nullptr && init->parameters.size() > 2 &&
                               init->parameters[1].name == type.in &&
                               init->parameters[2].name == type.out;
      if (!takes_sizes || file->is_test) continue;
      std::ranges::copy_if(init->callers, std::back_inserter(made), [&](const Call* call) {
        return program.has(*call->file) && call->method != "__init__";
      });
    }
  }
  return made;
}

}  // namespace

std::optional<SizedLayer> tensor_core_sized_layer(const SourceFacts& facts, const Program& program,
                                                  const Accepts& accepts) {
  if (auto model = library_model(facts, program, accepts)) return model;
  std::optional<Sized> half_known;
  for (const SizedType& type : kTypes) {
    std::vector<const Call*> layers = calls_in(facts, program, {type.name});
    std::ranges::copy(derived_layers(program, type), std::back_inserter(layers));
    std::optional<Sized> largest;
    for (const Call* call : layers) {
      if (!accepts(*call)) continue;
      const auto found = sized(facts, program, type, *call, type.enough);
      if (!found) continue;
      std::optional<Sized>& kept = found->weights > 0 ? largest : half_known;
      if (!kept || kept->weights < found->weights) kept = found;
    }
    if (largest) return largest->layer;
  }
  if (half_known) return half_known->layer;
  return own_linear(facts, program, accepts);
}

}  // namespace rooftile::source
