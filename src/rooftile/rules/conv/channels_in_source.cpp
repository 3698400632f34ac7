#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "rooftile/analysis/source/chosen_precision.h"
#include "rooftile/analysis/source/layer_queries.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace channels_in_source {

using namespace source;

constexpr std::int64_t kStep = 8;            // 16 bytes of fp16 or bf16
constexpr std::int64_t kFewChannels = 16;    // fewer on one side: a first or last layer
constexpr std::int64_t kManyChannels = 128;  // joined features, whatever the data has
constexpr std::int64_t kTinyNet = 32;        // no layer has as many channels
constexpr std::int64_t kImageChannels = 3;   // at most
constexpr int kGroupsPosition = 6;

// A convolution whose channels are written.
struct Written {
  const Call* call = nullptr;
  std::int64_t in = 0, out = 0;
};

using Norms = std::set<std::pair<const void*, std::int64_t>>;  // home and width

// BatchNorm is behind layers in the middle: what gives classes or images has none.
Norms norms_of(const SourceFacts& facts, const File& file) {
  Norms norms;
  for (const Call* call : file.calls) {
    if (!is_batch_norm(*call)) continue;
    if (const auto width = fixed_argument(facts, *call, "num_features", 0)) {
      norms.emplace(home_of(*call), *width);
    }
  }
  return norms;
}

std::vector<Written> convolutions_of(const SourceFacts& facts, const File& file) {
  std::vector<Written> found;
  for (const Call* call : file.calls) {
    if (!is_convolution(*call)) continue;
    const auto in = chosen_argument(facts, *call, "in_channels", 0);
    const auto out = chosen_argument(facts, *call, "out_channels", 1);
    if (in && out) found.push_back({call, *in, *out});
  }
  return found;
}

// The parameters of a block's __init__ that are the channels of a convolution in it, or in a block
// or function that it hands them to.
using BlockWidths = std::optional<std::pair<std::string_view, std::string_view>>;

BlockWidths widths_of_block(const FunctionDef& init, int depth = 0) {
  constexpr int kMaxBlocks = 3;
  const auto parameter = [](const Argument* given) -> std::string_view {
    const bool is_name = given != nullptr && !given->unpacked &&
                         given->value->kind == ExprKind::name && given->value->binding() == nullptr;
    return is_name ? given->value->word() : std::string_view();
  };
  const auto widths = [&](const Argument* in, const Argument* out) -> BlockWidths {
    const std::string_view first = parameter(in), second = parameter(out);
    const bool is_pair = !first.empty() && !second.empty() && first != second;
    return is_pair ? BlockWidths(std::pair(first, second)) : std::nullopt;
  };
  for (const Call* call : init.calls) {
    BlockWidths found;
    if (is_convolution(*call) && call->argument("groups", kGroupsPosition) == nullptr) {
      found = widths(call->argument("in_channels", 0), call->argument("out_channels", 1));
    } else if (call->target != nullptr && call->target != &init && depth < kMaxBlocks &&
               call->argument("groups") == nullptr) {
      const BlockWidths inner = widths_of_block(*call->target, depth + 1);
      if (inner) {
        found = widths(passed_argument(*call, *call->target, inner->first),
                       passed_argument(*call, *call->target, inner->second));
      }
    }
    if (found) return found;
  }
  return std::nullopt;
}

// `features + classes + parts`: joined features.
bool joins_widths(const Expr& expr) {
  return expr.kind == ExprKind::binary && expr.word() == "+" &&
         std::ranges::all_of(expr.children(), [](const Expr* part) {
           return part->kind == ExprKind::name || part->kind == ExprKind::integer ||
                  joins_widths(*part);
         });
}

// ConvBlock(128, 196), an own block with a convolution of these channels.
void add_blocks(const SourceFacts& facts, const File& file, std::vector<Written>& found) {
  std::map<const FunctionDef*, BlockWidths> known;
  for (const Call* call : file.calls) {
    const FunctionDef* init = call->target;
    const bool is_block = init != nullptr && init->name == "__init__" &&
                          call->method != "__init__" && init->class_def != nullptr &&
                          init->class_def->is_module;
    if (!is_block) continue;
    const auto [place, is_new] = known.try_emplace(init);
    if (is_new) place->second = widths_of_block(*init);
    if (!place->second) continue;
    const Argument* joined = passed_argument(*call, *init, place->second->first);
    const bool is_joined = joined != nullptr && !joined->unpacked && joins_widths(*joined->value);
    const auto written = [&](std::string_view name) -> std::optional<std::int64_t> {
      const Argument* given = passed_argument(*call, *init, name);
      if (given == nullptr || given->unpacked) return std::nullopt;
      const Value width = facts.value(given->value);
      const bool is_number = given->value->kind == ExprKind::integer || is_joined;
      return is_number && width.kind == ValueKind::integer ? std::optional(width.integer)
                                                           : std::nullopt;
    };
    const auto in = written(place->second->first);
    const auto out = written(place->second->second);
    if (in && out && call->argument("groups") == nullptr) found.push_back({call, *in, *out});
  }
}

bool is_grouped(const SourceFacts& facts, const Call& call) {
  if (!is_convolution(call)) return false;
  const Value groups = facts.argument(call, "groups", kGroupsPosition);
  return !groups.absent() && !groups.is(1);
}

std::int64_t round_up_channels(std::int64_t channels) {
  return (channels + kStep - 1) / kStep * kStep;
}

// An odd width counts where another layer of the class reads or makes it: then it is neither the
// number of classes nor given by the data.
bool is_inner_width(const std::vector<Written>& layers, const Written& layer, std::int64_t width) {
  return std::any_of(layers.begin(), layers.end(), [&](const Written& other) {
    if (other.call == layer.call) return false;
    return width == layer.out ? other.in == width : other.out == width;
  });
}

// `hidden_size`, `feat_dim`: what the author calls the width of features.
bool is_feature_width(const Call& call) {
  const Argument* out = call.argument("out_channels", 1);
  if (out == nullptr || out->unpacked) return false;
  const std::string name = lower(last_name(out->value));
  return contains_any(name, {"hidden", "feat"}) && !contains_any(name, {"out"});
}

bool is_unaligned(const std::vector<Written>& layers, const Norms& norms, const Written& layer) {
  if (std::min(layer.in, layer.out) < kFewChannels) return false;
  const bool odd_out = layer.out % kStep != 0 &&
                       (is_inner_width(layers, layer, layer.out) || is_feature_width(*layer.call) ||
                        norms.contains({home_of(*layer.call), layer.out}));
  const bool odd_in = layer.in % kStep != 0 &&
                      (layer.in >= kManyChannels || is_inner_width(layers, layer, layer.in));
  return odd_out || odd_in;
}

std::string widths_text(const std::vector<Written>& layers) {
  std::set<std::int64_t> odd;
  for (const Written& layer : layers) {
    if (layer.in % kStep != 0) odd.insert(layer.in);
    if (layer.out % kStep != 0) odd.insert(layer.out);
  }
  std::vector<std::string> changes;
  for (const std::int64_t width : odd) {
    changes.push_back(fmt::format("{} -> {}", width, round_up_channels(width)));
  }
  return join(changes, ", ");
}

Finding unaligned_finding(const std::vector<Written>& odd) {
  const Written& first = odd.front();
  Finding finding = finding_at(
      *first.call,
      fmt::format(
          "{} of {} to {} channels{}: Tensor Core kernels load 8 channels at a time",
          first.call->method, first.in, first.out,
          odd.size() == 1 ? "" : fmt::format(" and {} more with odd widths", odd.size() - 1)),
      {fmt::format("Before the next training choose multiples of 8: {}", widths_text(odd)),
       Exactness::changes_training});
  finding.count = static_cast<std::int64_t>(odd.size());
  finding.evidence = {Evidence::published("channels divisible by 8 in fp16",
                                          "NVIDIA Convolutional Layers User's Guide, checklist")};
  return finding;
}

// The layers of each class or function, in the order of the text.
std::vector<std::vector<Written>> homes_of(const std::vector<Written>& layers) {
  std::vector<std::vector<Written>> homes;
  std::map<const void*, std::size_t> places;
  for (const Written& layer : layers) {
    const auto [place, is_new] = places.emplace(home_of(*layer.call), homes.size());
    if (is_new) homes.emplace_back();
    homes[place->second].push_back(layer);
  }
  return homes;
}

void judge_widths(const SourceFacts& facts, const File& file, std::vector<Finding>& findings) {
  const Norms norms = norms_of(facts, file);
  std::vector<Written> all = convolutions_of(facts, file);
  add_blocks(facts, file, all);
  std::ranges::stable_sort(all, {}, [](const Written& one) { return one.call->open_paren; });
  for (const auto& layers : homes_of(all)) {
    const bool is_tiny = std::all_of(layers.begin(), layers.end(), [](const Written& layer) {
      return std::max(layer.in, layer.out) < kTinyNet;
    });
    std::vector<Written> odd;
    for (const Written& layer : layers) {
      if (!is_grouped(facts, *layer.call) && is_unaligned(layers, norms, layer))
        odd.push_back(layer);
    }
    if (!is_tiny && !odd.empty()) findings.push_back(unaligned_finding(odd));
  }
}

void judge_groups(const SourceFacts& facts, const File& file, std::vector<Finding>& findings) {
  for (const Written& layer : convolutions_of(facts, file)) {
    const auto groups = fixed_argument(facts, *layer.call, "groups", kGroupsPosition);
    if (!groups || *groups <= 1 || *groups == layer.in || layer.in / *groups >= kStep) continue;
    Finding finding =
        finding_at(*layer.call,
                   fmt::format("{} groups of {} channels: each is a separate GEMM that fills no "
                               "16-byte load",
                               *groups, layer.in / *groups),
                   {fmt::format("Use at most {} groups, so that each has 8 channels or more",
                                std::max<std::int64_t>(1, layer.in / kStep)),
                    Exactness::changes_training});
    finding.evidence = {Evidence::published("channels of a group divisible by 8 in fp16",
                                            "NVIDIA Convolutional Layers User's Guide")};
    findings.push_back(std::move(finding));
  }
}

// The side of the patches that a convolution cuts an image into; empty where they overlap.
std::optional<std::int64_t> patch_size(const SourceFacts& facts, const Call& call) {
  constexpr int kKernelPosition = 2, kStridePosition = 3;
  const auto kernel = chosen_argument(facts, call, "kernel_size", kKernelPosition);
  const auto stride = chosen_argument(facts, call, "stride", kStridePosition);
  const bool cuts = kernel && stride && *kernel == *stride && *kernel > 1;
  return cuts ? kernel : std::nullopt;
}

void judge_images(const SourceFacts& facts, const File& file, std::vector<Finding>& findings) {
  for (const auto& layers : homes_of(convolutions_of(facts, file))) {
    const auto first = std::find_if(layers.begin(), layers.end(), [](const Written& layer) {
      const bool is_image = layer.in > 1 && layer.in <= kImageChannels && layer.out >= kFewChannels;
      return is_image && layer.call->method.starts_with("Conv2d");
    });
    if (first == layers.end()) continue;
    const auto patch = patch_size(facts, *first->call);
    Finding finding = finding_at(
        *first->call,
        fmt::format("{} input channels fill {} of the 16 bytes that an fp16 kernel loads",
                    first->in, 2 * first->in),
        {patch ? fmt::format("Stride and kernel are equal: reshape the image into patches of {0} x "
                             "{0} and use a Linear layer of {1} inputs; measure first",
                             *patch, first->in * *patch * *patch)
               : std::string("Pad the image to 4 channels where it is made, and the weights with "
                             "zeros; measure first"),
         Exactness::exact_arithmetic});
    finding.evidence = {
        Evidence::published("NVIDIA Convolutional Layers User's Guide, Channels In and Out")};
    findings.push_back(std::move(finding));
  }
}

using Judge = void (*)(const SourceFacts&, const File&, std::vector<Finding>&);

void judge_file(const SourceFacts& facts, const File& file, Judge judge,
                std::vector<Finding>& findings) {
  // Blocks may be made of those of another file.
  if (!has_any_text(file, {"Conv", "conv"}) || !trains_on_gpu(facts, file)) return;
  judge(facts, file, findings);
}

std::vector<Finding> judge_files(const SourceFacts& facts, Judge judge) {
  std::vector<Finding> findings;
  for (const auto& file : facts.files) judge_file(facts, *file, judge, findings);
  return findings;
}

}  // namespace channels_in_source

std::vector<Finding> unaligned_channels_in_source(const source::SourceFacts& facts) {
  using namespace channels_in_source;
  std::vector<Finding> findings;
  ProgramQuestion precision(
      [&](const Program& program) { return chooses_precision(facts, program); });
  for (const auto& file : facts.files) {
    const std::size_t first = findings.size();
    judge_file(facts, *file, judge_widths, findings);
    // cuDNN's TF32 wants multiples of 4, which these mostly are, and gains little by them.
    const bool is_known = first == findings.size() || precision.holds_for(facts, *file);
    for (std::size_t i = first; !is_known && i < findings.size(); ++i) {
      findings[i].own_level = Level::info;
    }
  }
  return findings;
}

std::vector<Finding> narrow_groups_in_source(const source::SourceFacts& facts) {
  return channels_in_source::judge_files(facts, channels_in_source::judge_groups);
}

std::vector<Finding> few_input_channels_in_source(const source::SourceFacts& facts) {
  return channels_in_source::judge_files(facts, channels_in_source::judge_images);
}

}  // namespace rooftile
