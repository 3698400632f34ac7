#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/autocast.h"
#include "rooftile/analysis/source/layer_queries.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/trained_parts.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace conv_layout_in_source {

using namespace source;

// Whether each `if` around it, within its function, is known to hold.
bool is_surely_reached(const SourceFacts& facts, const Call& call) {
  for (const Statement* at = call.statement; at->parent != nullptr; at = at->parent) {
    const Statement* outer = at->parent;
    if (outer->kind == StatementKind::function) break;
    if (outer->kind != StatementKind::if_) continue;
    const Value value = facts.value(outer->value);
    const bool is_in_body = at->block.data() == outer->body.data();
    if (is_in_body ? !value.is_true() : !value.is_false()) return false;
  }
  return is_reached_by_default(facts, call);
}

// `def run_evaluation(): tracker = Tracker()`: what all that make the class in this program do, by
// the name of their function or file.
bool is_made_to_evaluate(const SourceFacts& facts, const Program& program, const ClassDef& def) {
  bool is_made = false;
  for (const Call* maker : facts.calls(def.full_name)) {
    if (!program.has(*maker->file)) continue;
    const std::string_view module = maker->file->module;
    const std::string name =
        lower(maker->function != nullptr ? maker->function->name : std::string_view()) + " " +
        lower(module.substr(module.rfind('.') + 1));
    if (!contains_any(name, {"eval", "valid", "test", "infer", "demo"})) return false;
    is_made = true;
  }
  return is_made;
}

// Whether the program is seen to get there, or it cannot be told: a step that a library offers and
// another program asks for is not called from this one's entry.
bool is_asked_for(const SourceFacts& facts, const Program& program, const Call& call) {
  constexpr int kMostCallers = 6;
  const FunctionDef* function = call.function;
  while (function != nullptr && function->outer != nullptr) function = function->outer;
  const ClassDef* def = function == nullptr ? nullptr : function->class_def;
  if (def != nullptr && is_made_to_evaluate(facts, program, *def)) return false;
  const bool is_plain = function != nullptr && function->class_def == nullptr;
  if (!is_plain || call.file == program.entry || program.entry == nullptr) return true;
  return any_call_above(*function, kMostCallers, [&](const Call& caller) {
    const FunctionDef* from = caller.function;
    return caller.file == program.entry || (from != nullptr && from->class_def != nullptr);
  });
}

// Autocast, or apex's way to it, that is on with all options at their defaults, in the training.
const Call* autocast_of_training(const SourceFacts& facts, const Program& program) {
  for (const Autocast& autocast : autocasts_in(facts, program)) {
    if (autocast.call == nullptr || !autocast.on_gpu || autocast.is_off || autocast.may_be_off) {
      continue;
    }
    const bool is_on = is_asked_for(facts, program, *autocast.call) &&
                       is_reached_by_default(facts, *autocast.call);
    if (is_on) return autocast.call;
  }
  for (const Call* call : calls_in(facts, program, {"apex.amp.initialize"})) {
    const Value level = facts.argument(*call, "opt_level", 2);
    const bool is_on = level.absent() || level.is("O1") || level.is("O2");
    if (is_on && is_surely_reached(facts, *call)) return call;
  }
  return nullptr;
}

// Whether a parameter for groups with the default 1 is given nothing else by its callers than the
// channels, or what divides them: `groups=math.gcd(c1, c2)`.
bool is_one_or_depthwise(const Expr& groups, int depth = 0) {
  constexpr int kMostHops = 3;
  const Call* divisor = groups.call();
  if (divisor != nullptr) return divisor->method == "gcd";
  if (groups.kind == ExprKind::boolean) return true;
  if (groups.kind == ExprKind::integer) return groups.word() == "1";
  const FunctionDef* function = groups.statement->function;
  const bool is_parameter = groups.kind == ExprKind::name && groups.binding() == nullptr;
  if (!is_parameter || function == nullptr || depth > kMostHops) return false;
  const auto found = std::ranges::find(function->parameters, groups.word(), &Parameter::name);
  const bool has_default =
      found != function->parameters.end() && found->default_value != nullptr &&
      (found->default_value->kind == ExprKind::boolean || found->default_value->word() == "1");
  return has_default && std::ranges::all_of(function->callers, [&](const Call* caller) {
           const Argument* given = passed_argument(*caller, *function, groups.word());
           if (given == nullptr) return true;
           if (is_one_or_depthwise(*given->value, depth + 1)) return true;
           // Block(channels, channels, groups=channels)
           const Expr* first = caller->arguments.front().value;
           return given->value != first &&
                  caller->file->slice(first->range) == caller->file->slice(given->value->range);
         });
}

// Grouped convolutions that are not depthwise get slower in channels_last.
bool has_grouped_convolution(const SourceFacts& facts, const Program& program) {
  for (const Call* call : calls_in(facts, program, {"torch.nn.Conv2d", "torch.nn.Conv3d"})) {
    const Argument* groups = call->argument("groups", 6);
    if (groups == nullptr || largest_size(facts, groups->value, &program) == 1) continue;
    if (is_one_or_depthwise(*groups->value)) continue;
    const Argument* channels = call->argument("in_channels", 0);
    const bool is_depthwise = channels != nullptr && call->file->slice(channels->value->range) ==
                                                         call->file->slice(groups->value->range);
    if (!is_depthwise) return true;
  }
  return false;
}

bool decides_layout(const Program& program) {
  return mentions(program, {"channels_last", "channels_last_3d", "memory_format", "torch.compile",
                            "compile_model", "compiled", "NHWC", "nhwc"});
}

bool is_volumetric(const SizedLayer& layer) { return layer.text.starts_with("Conv3d"); }

// At the forward call, else at the loop.
Finding finding_for(const SourceFacts& facts, const Program& program, const TrainedLayer& trained,
                    const Call& autocast) {
  const SizedLayer& layer = trained.layer;
  const std::string format =
      is_volumetric(layer) ? "torch.channels_last_3d" : "torch.channels_last";
  const Call* forward = forward_call(facts, program);
  const bool has_loop = forward == nullptr && !program.training_loops.empty();
  const std::string message = fmt::format(
      "the convolutions{} run under {} on NCHW tensors, which Tensor Core "
      "kernels convert or read slowly",
      trained.is_certain ? " (" + layer.text + ")" : "",
      autocast.method == "autocast" ? "autocast" : "mixed precision");
  const Fix fix{fmt::format("Once: model = model.to(memory_format={}); each step: the images "
                            ".to(device, memory_format={})",
                            format, format),
                Exactness::exact_arithmetic};
  Finding finding = forward != nullptr ? finding_at(*forward, message, fix)
                    : has_loop
                        ? finding_at(*program.training_loops.front()->statement, message, fix)
                        : finding_at(*layer.call, message, fix);
  const File& file = forward != nullptr ? *forward->file
                     : has_loop         ? *program.training_loops.front()->file
                                        : *layer.call->file;
  finding.evidence = {
      Evidence::found(fmt::format("{} at {}", autocast.method, place_text(autocast, file))),
      Evidence::found("no channels_last anywhere in the program"),
      Evidence::published("28 torchvision networks with mixed precision gain 8 to 35 %",
                          "PyTorch tutorial, Channels Last Memory Format")};
  return finding;
}

}  // namespace conv_layout_in_source

std::vector<Finding> programs_without_channels_last(const source::SourceFacts& facts) {
  using namespace conv_layout_in_source;
  std::vector<Finding> findings;
  for (const Program* program : training_programs(facts)) {
    if (decides_layout(*program) || has_attention(*program) || !runs_training(*program)) continue;
    if (leaves_training_to_another(facts, *program)) continue;
    const auto layer = trained_layer(facts, *program, main_convolution);
    if (!layer || has_grouped_convolution(facts, *program)) continue;
    const Call* autocast = autocast_of_training(facts, *program);
    const bool has_place =
        forward_call(facts, *program) != nullptr || !program->training_loops.empty();
    if (autocast == nullptr || !has_place) continue;
    findings.push_back(finding_for(facts, *program, *layer, *autocast));
  }
  return findings;
}

}  // namespace rooftile
