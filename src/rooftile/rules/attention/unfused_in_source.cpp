#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "rooftile/analysis/source/attention_by_hand.h"
#include "rooftile/analysis/source/layer_queries.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/side_networks.h"
#include "rooftile/analysis/source/trained_parts.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"
#include "rooftile/script/reach/reach.h"

namespace rooftile {
namespace unfused_in_source {

using namespace source;

// There is a fused way already, chosen by a flag or a version.
bool has_fused_way(const Statement& definition) {
  const std::string_view text = definition.file->slice(definition.range);
  for (const std::string_view name :
       {"scaled_dot_product_attention", "flash_attn", "flash_attention", "xformers",
        "memory_efficient_attention", "xops.", "FlashAttention", "use_flash", "triton"}) {
    if (text.find(name) != std::string_view::npos) return true;
  }
  return false;
}

// Whether a convolution has as many output channels as inputs, or some times as many, as it is
// written: Conv2d(channels, channels * 3, 1) makes queries, keys and values. Of `conv(n, n * 3, 1)`
// by an own function that call counts.
bool keeps_channels(const Call& made, const Argument* in, const Argument* out) {
  if (in == nullptr || out == nullptr) return false;
  const std::string width = code_text(*made.file, in->value);
  if (code_text(*made.file, out->value) == width) return true;
  const auto& factors = out->value->children();
  const bool is_product =
      out->value->kind == ExprKind::binary && out->value->word() == "*" && factors.size() == 2;
  if (!is_product) return false;
  const bool is_first = factors[0]->kind == ExprKind::integer;
  return factors[is_first ? 0 : 1]->kind == ExprKind::integer &&
         code_text(*made.file, factors[is_first ? 1 : 0]) == width;
}

bool keeps_channels(const Call& convolution) {
  return keeps_channels(convolution, convolution.argument("in_channels", 0),
                        convolution.argument("out_channels", 1));
}

bool keeps_channels(const Layer& layer) {
  const Expr* value = layer.statement->value;
  const bool is_by_function =
      value != nullptr && value->call() != nullptr && value->call()->target != nullptr &&
      value->call()->target == layer.made_by->function && value->call()->arguments.size() > 1;
  if (!is_by_function) return keeps_channels(*layer.made_by);
  return keeps_channels(*value->call(), &value->call()->arguments[0], &value->call()->arguments[1]);
}

// `norm(nn.Conv1d(n, n // 8, 1))`: an own function gets the convolution, and the layer is what it
// returns.
std::vector<const Call*> wrapped_convolutions(const ClassDef& def) {
  std::vector<const Call*> wrapped;
  const FunctionDef* init = def.method("__init__");
  if (init == nullptr) return wrapped;
  for (const Call* call : init->calls) {
    const Expr* outer = call->expr->parent;
    const Expr* target = call->statement->target;
    const bool is_attribute = target != nullptr && target->kind == ExprKind::attribute &&
                              outer != nullptr && outer->call() != nullptr;
    if (!is_attribute || !is_convolution(*call)) continue;
    const Layer* layer = def.layer(target->word());
    if (layer == nullptr || !is_convolution(*layer->made_by)) wrapped.push_back(call);
  }
  return wrapped;
}

// Queries and keys from convolutions that narrow them, or beside a discriminator: attention of one
// head over a small map of an image.
bool is_over_image(const SourceFacts& facts, const ClassDef& def, ProgramQuestion& is_gan) {
  const auto is_made = [](const Layer& layer) { return is_convolution(*layer.made_by); };
  const auto wrapped = wrapped_convolutions(def);
  if (std::ranges::none_of(def.layers, is_made) && wrapped.empty()) return false;
  const bool is_narrowed =
      std::ranges::any_of(
          def.layers,
          [&](const Layer& layer) { return is_made(layer) && !keeps_channels(layer); }) ||
      std::ranges::any_of(wrapped, [](const Call* made) { return !keeps_channels(*made); });
  return is_narrowed || is_gan.holds_for(facts, *def.file);
}

// Attention over channels: its heads are as wide as the image has pixels.
bool is_over_channels(const ClassDef& def) {
  return def.name.starts_with("CAM") ||
         contains_any(def.name, {"Channel", "Covariance", "XCA", "Transposed"});
}

bool is_judged(const FunctionDef& function) {
  return function.name == "forward" || function.name.find("att") != std::string_view::npos ||
         function.name.find("qkv") != std::string_view::npos;
}

// What the function writes out and a fused call could do.
std::optional<WrittenAttention> fusible_attention(const FunctionDef& function) {
  if (!is_judged(function)) return std::nullopt;
  const auto attention = attention_by_hand(function);
  const bool is_fusible = attention && attention->softmax != nullptr && !attention->weights_leave &&
                          !attention->has_other_terms;
  return is_fusible ? attention : std::nullopt;
}

// Of the first method that has some.
std::optional<WrittenAttention> attention_in(const ClassDef& def) {
  for (const FunctionDef* function : def.methods) {
    if (const auto attention = fusible_attention(*function)) return attention;
  }
  return std::nullopt;
}

// The fused call divides by the root of the head's width where nothing else is said.
std::string remedy(const SourceFacts& facts, const AttentionInputs& inputs) {
  const bool takes_scale = !facts.runs_before({2, 1});
  const std::string_view scaling =
      inputs.are_scaled ? (takes_scale ? "queries or keys are scaled already: give scale=1.0"
                                       : "it divides by the root of the head's width, which the "
                                         "scaling of queries or keys has to leave to it")
      : takes_scale     ? "without scale it divides by the root of the head's width"
                        : "it divides by the root of the head's width";
  return fmt::format(
      "Use torch.nn.functional.scaled_dot_product_attention(q, k, v), with attn_mask, dropout_p{} "
      "for what the code does of these; {}",
      takes_scale ? ", is_causal and scale" : " and is_causal", scaling);
}

Finding finding_for(const SourceFacts& facts, std::string_view name, const File& file,
                    const WrittenAttention& attention) {
  constexpr std::size_t kFusedDimensions = 4;
  const AttentionInputs inputs = inputs_of(facts, attention);
  const Statement& at = *attention.softmax->statement;
  Finding finding = finding_at(
      at,
      fmt::format("{} writes the scores of queries and keys to memory, and the softmax and all "
                  "else that is "
                  "done with them reads and writes them again",
                  name),
      {remedy(facts, inputs), Exactness::exact_arithmetic});
  finding.evidence = {
      Evidence::found(fmt::format("softmax at {}, GEMM with the values at {}", place_text(at, file),
                                  place_text(*attention.product->statement, file))),
      Evidence::published("softmax and dropout 8.8 ms, both GEMMs 1.7 ms",
                          "EleutherAI cookbook, transformer sizing")};
  if (inputs.dimensions > kFusedDimensions) {
    finding.own_level = Level::info;
    finding.evidence.push_back(Evidence::found(fmt::format(
        "queries and keys have {} dimensions: fused kernels take {}, the leading ones have to be "
        "joined before",
        inputs.dimensions, kFusedDimensions)));
  }
  return finding;
}

bool is_of_other_kind(const SourceFacts& facts, const ClassDef& def, ProgramQuestion& is_gan) {
  return has_fused_way(*def.statement) || is_over_channels(def) ||
         is_over_image(facts, def, is_gan);
}

// `attend(q, k, v)` of a file, which only modules call in their forward.
bool is_part_of_forward(const SourceFacts& facts, const FunctionDef& function,
                        ProgramQuestion& is_gan) {
  if (function.class_def != nullptr || function.outer != nullptr) return false;
  if (!runs_in_forward(&function)) return false;
  return std::ranges::all_of(function.callers, [&](const Call* caller) {
    const ClassDef* def = caller->function == nullptr ? nullptr : caller->function->class_def;
    return def != nullptr && !is_of_other_kind(facts, *def, is_gan);
  });
}

// A layer for images: a convolution with a window that no patch embedding has, a norm over maps.
bool is_for_images(const SourceFacts& facts, const Layer& layer) {
  constexpr int kKernelPosition = 2;
  constexpr std::int64_t kWindow = 3;
  const Call& made = *layer.made_by;
  if (is_one_of(made.name,
                {"torch.nn.GroupNorm", "torch.nn.BatchNorm2d", "torch.nn.BatchNorm3d"})) {
    return true;
  }
  if (!is_convolution(made) || made.method.ends_with("1d")) return false;
  const auto kernel = known_argument(facts, made, "kernel_size", kKernelPosition);
  const auto stride = known_argument(facts, made, "stride", kKernelPosition + 1);
  return kernel && *kernel >= kWindow && kernel != stride;
}

// In a network of convolutions, where attention is over small maps in a few places.
bool is_in_network_for_images(const SourceFacts& facts, const ClassDef& def, int depth = 0) {
  constexpr int kMaxDepth = 2;
  const bool has_some = std::ranges::any_of(
      def.layers, [&](const Layer& layer) { return is_for_images(facts, layer); });
  if (has_some || depth == kMaxDepth) return has_some;
  return std::ranges::any_of(facts.calls(def.full_name), [&](const Call* made) {
    const ClassDef* whole = made->function == nullptr ? nullptr : made->function->class_def;
    return whole != nullptr && whole != &def && is_in_network_for_images(facts, *whole, depth + 1);
  });
}

// Whether a training runs it with gradients, or may, where the caller is not seen.
bool is_trained(const SourceFacts& facts, const ClassDef* def, const WrittenAttention& attention) {
  const auto programs = training_programs_of(facts, *attention.softmax->statement->file);
  const bool is_apart =
      def != nullptr && std::ranges::all_of(programs, [&](const auto* program) {
        if (is_beside_training(facts, *program, *def)) return true;
        const TrainedParts& parts = trained_parts(facts, *program);
        return parts.is_complete &&
               std::ranges::none_of(facts.calls(def->full_name),
                                    [&](const Call* made) { return is_part(parts, *made); });
      });
  if (is_apart) return false;
  return any_way(facts, *attention.softmax->statement, [](const Way& way) {
    return !way.gradients_off && !way.forward_is_off && (way.trains() || way.is_open());
  });
}

// Of a program whose purpose is to run the network.
bool is_in_inference(const SourceFacts& facts, const WrittenAttention& attention) {
  const auto programs = facts.programs_of(*attention.softmax->statement->file);
  return std::ranges::any_of(programs, [](const Program* program) {
    return program->infers_on_gpu && !is_evaluation_script(*program->entry);
  });
}

void lower_unless_main(const SourceFacts& facts, const ClassDef* def,
                       const WrittenAttention& attention, Finding& finding) {
  std::string_view reason;
  if (facts.runs_before({2, 0})) {
    reason = "the PyTorch that the project names has no fused call";
  } else if (def != nullptr && is_in_network_for_images(facts, *def)) {
    reason = "one part of a convolutional network, which takes most of the time";
  } else if (!is_trained(facts, def, attention) && !is_in_inference(facts, attention)) {
    reason = "it runs without gradients";
  } else if (attention.has_bias) {
    reason =
        "a bias is added to the scores: where it is trained, the fastest kernels do not take it";
  }
  if (reason.empty() && attention.weights_change) {
    reason = "the weights are masked behind the softmax: the result has to be masked instead";
  }
  if (reason.empty()) return;
  finding.own_level = Level::info;
  finding.evidence.push_back(Evidence::found(std::string(reason)));
}

void judge_functions(const SourceFacts& facts, const File& file, ProgramQuestion& is_gan,
                     std::vector<Finding>& findings) {
  if (!has_text(file, "softmax") || !works_on_gpu(facts, file)) return;
  for (const FunctionDef* function : file.functions) {
    if (function->class_def != nullptr) continue;
    const auto attention = fusible_attention(*function);
    if (!attention || has_fused_way(*function->statement)) continue;
    if (!is_part_of_forward(facts, *function, is_gan)) continue;
    findings.push_back(finding_for(facts, function->name, file, *attention));
    const Call* caller = function->callers.front();
    lower_unless_main(facts, caller->function->class_def, *attention, findings.back());
  }
}

}  // namespace unfused_in_source

std::vector<Finding> unfused_attention_in_source(const source::SourceFacts& facts) {
  using namespace unfused_in_source;
  std::vector<Finding> findings;
  ProgramQuestion is_gan([](const Program& program) {
    return mentions(program, {"discriminator", "Discriminator", "netD", "gan", "GAN"});
  });
  for (const ClassDef* def : facts.modules()) {
    if (!works_on_gpu(facts, *def->file)) continue;
    const auto attention = attention_in(*def);
    if (!attention || is_of_other_kind(facts, *def, is_gan)) continue;
    findings.push_back(finding_for(facts, def->name, *def->file, *attention));
    lower_unless_main(facts, def, *attention, findings.back());
  }
  for (const auto& file : facts.files) judge_functions(facts, *file, is_gan, findings);
  return findings;
}

}  // namespace rooftile
