#include "rooftile/analysis/source/monai.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "rooftile/analysis/source/input_sizes.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/size_search.h"
#include "rooftile/base/text.h"
#include "rooftile/script/flow/sources.h"

namespace rooftile::source {
namespace {

constexpr std::int64_t kSmallestSide = 16;  // voxels
constexpr std::string_view kNetworks = "monai.networks.nets.";

// The argument that says how wide the layers are, level by level; null where the default is taken.
const Argument* widths_of(const Call& network) {
  for (const std::string_view name : {"channels", "features", "filters", "num_channels"}) {
    if (const Argument* given = network.argument(name)) return given;
  }
  const bool is_positional = is_one_of(network.method, {"UNet", "Unet", "AttentionUnet"});
  return is_positional ? network.argument("channels", 3) : nullptr;
}

// Whether two neighbours in the list have so many channels.
bool has_wide_neighbours(const SourceFacts& facts, const Program& program, const Expr* widths,
                         std::int64_t channels) {
  const Value written = facts.value(widths);
  if (written.kind != ValueKind::list || written.found == nullptr) return false;
  bool was_wide = false;
  for (const Expr* item : written.found->children()) {
    const bool is_wide = largest_size(facts, item, &program).value_or(0) >= channels;
    if (is_wide && was_wide) return true;
    was_wide = is_wide;
  }
  return false;
}

// ResizeWithPadOrCropd, ResizeWithPadOrCropD and ResizeWithPadOrCropDict are one transform.
std::string_view transform_name(std::string_view written) {
  for (const std::string_view ending : {"Dict", "d", "D"}) {
    if (written.ends_with(ending)) return written.substr(0, written.size() - ending.size());
  }
  return written;
}

// [96, 96, 96], (args.size, args.size), 96, or an option with such a default.
bool is_known_size(const SourceFacts& facts, const Expr* size) {
  const Expr* made = resolved(size);
  return made->kind != ExprKind::call && !draws_at_random(made) &&
         largest_size(facts, made).value_or(0) >= kSmallestSide;
}

}  // namespace

std::optional<SizedLayer> monai_network(const SourceFacts& facts, const Program& program,
                                        std::int64_t channels, bool convolutional) {
  for (const Call* call : calls_in(facts, program, {"monai.networks.nets.*"})) {
    const std::string_view name = call->name.substr(std::min(kNetworks.size(), call->name.size()));
    const bool is_network = call->expr->type->is(TypeKind::module) &&
                            !contains_any(name, {"FullyConnected", "HighResNet",
                                                 "VariationalNetwork", "CoilSensitivity"});
    const bool attends = contains_any(name, {"ViT", "Swin", "UNETR", "Transformer"});
    if (!is_network || (convolutional && attends)) continue;
    const Argument* widths = widths_of(*call);
    const bool is_known =
        widths == nullptr
            ? !is_one_of(name, {"UNet", "Unet", "AttentionUnet", "AutoEncoder", "VarAutoEncoder",
                                "Generator", "Discriminator", "Critic", "Regressor", "Classifier"})
            : has_wide_neighbours(facts, program, widths->value, channels);
    if (is_known) return SizedLayer{call, std::string(call->name)};
  }
  return std::nullopt;
}

bool sets_size_by_monai(const SourceFacts& facts, const Call& call) {
  if (!call.name.starts_with("monai.transforms.")) return false;
  const std::string_view name = transform_name(call.method);
  const bool is_random = is_one_of(name, {"RandSpatialCrop", "RandSpatialCropSamples"});
  if (is_random && !facts.argument(call, "random_size").is_false()) return false;
  const bool is_sized =
      is_random || is_one_of(name, {"RandCropByPosNegLabel", "RandCropByLabelClasses",
                                    "RandWeightedCrop", "Resize", "ResizeWithPadOrCrop"});
  if (!is_sized || facts.argument(call, "size_mode").is("longest")) return false;
  return std::ranges::any_of(call.arguments, [&](const Argument& argument) {
    if (argument.unpacked) return false;
    const bool is_size =
        argument.name.empty()
            ? argument.value->kind == ExprKind::tuple || argument.value->kind == ExprKind::list
            : is_one_of(argument.name, {"spatial_size", "roi_size"});
    return is_size && is_known_size(facts, argument.value);
  });
}

bool is_kept_by_monai(const SourceFacts& facts, const Call& dataset) {
  if (!is_one_of(dataset.name, {"monai.data.CacheDataset", "monai.data.SmartCacheDataset",
                                "monai.apps.DecathlonDataset", "monai.apps.MedNISTDataset",
                                "monai.apps.TciaDataset"})) {
    return false;
  }
  const Argument* rate = dataset.argument("cache_rate");
  if (rate == nullptr) return true;
  const auto keeps_part = [&](const Expr* given) {
    const Value value = facts.value(given);
    const bool is_number = value.kind == ValueKind::integer || value.kind == ValueKind::real;
    return is_number && value.real < 1.0;
  };
  return std::ranges::none_of(script::origins(facts, *rate->value), keeps_part);
}

bool moves_samples_by_monai(const Call& loader) {
  if (!loader.file->imports_from("monai")) return false;
  return std::ranges::any_of(loader.file->calls, [](const Call* call) {
    if (!call->name.starts_with("monai.transforms.")) return false;
    const std::string_view name = transform_name(call->method);
    return name == "ToDevice" || (name == "EnsureType" && call->argument("device") != nullptr);
  });
}

}  // namespace rooftile::source
