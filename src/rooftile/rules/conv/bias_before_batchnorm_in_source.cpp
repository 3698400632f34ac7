#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "rooftile/analysis/source/layer_pairs.h"
#include "rooftile/analysis/source/layer_queries.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/side_networks.h"
#include "rooftile/analysis/source/trained_parts.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace conv_bias_in_source {

using namespace source;

// Of the parameter.
int bias_position(const Call& layer) {
  constexpr int kConvolutionBias = 7, kLinearBias = 2;
  return is_convolution(layer) ? kConvolutionBias : kLinearBias;
}

bool has_bias(const SourceFacts& facts, const Call& layer) {
  if (layer.name != "torch.nn.Linear" && !is_convolution(layer)) return false;
  if (layer.unknown_arguments) return false;
  const Value bias = facts.argument(layer, "bias", bias_position(layer));
  const bool is_written = bias.expr != nullptr && bias.expr->kind == ExprKind::boolean;
  return bias.absent() || (is_written && bias.is_true());
}

bool is_same_width(const SourceFacts& facts, const Call& layer, const Call& norm) {
  const auto out = fixed_argument(
      facts, layer, layer.name == "torch.nn.Linear" ? "out_features" : "out_channels", 1);
  const auto width = fixed_argument(facts, norm, "num_features", 0);
  return !out || !width || *out == *width;
}

bool is_on_by_default(const FunctionDef& function, const Expr& condition) {
  return std::ranges::any_of(function.parameters, [&](const Parameter& parameter) {
    return parameter.name == condition.word() && parameter.default_value != nullptr &&
           parameter.default_value->word() == "True";
  });
}

// Whether some caller seen passes a true value for a parameter that is a function's option, leaves
// it at such a default, or hands on one of its own that gets such a value.
bool is_passed_by_a_caller(const SourceFacts& facts, const Expr& condition, int depth = 0) {
  const FunctionDef* function = condition.statement->function;
  if (function == nullptr || condition.kind != ExprKind::name || depth > kMaxCallDepth)
    return false;
  return std::any_of(function->callers.begin(), function->callers.end(), [&](const Call* call) {
    const Argument* given = passed_argument(*call, *function, condition.word());
    if (given == nullptr) return is_on_by_default(*function, condition);
    return facts.value(given->value).is_true() ||
           is_passed_by_a_caller(facts, *given->value, depth + 1);
  });
}

// Whether the norm is there with all options at their defaults, or as the callers set them.
bool is_normalized(const SourceFacts& facts, const LayerPair& pair) {
  if (pair.condition == nullptr) return true;
  // `self.batch_norm = batch_norm`
  const Statement* kept = pair.condition->binding();
  const bool is_kept = pair.condition->kind == ExprKind::attribute && kept != nullptr &&
                       kept->value != nullptr && kept->value->kind == ExprKind::name &&
                       kept->value->binding() == nullptr;
  const Expr& condition = is_kept ? *kept->value : *pair.condition;
  if (is_passed_by_a_caller(facts, condition)) return true;
  const Value value = facts.value(pair.condition);
  return pair.is_shared ? value.is_true() : !value.is_false();
}

struct Biased {
  const Call* layer = nullptr;
  const Expr* condition = nullptr;
  bool is_certain = true;  // else it may be that some layer of a list has no norm
};

// What to write for `bias`; empty when the norm depends on more than a variable.
std::string wanted_bias(const Biased& biased) {
  if (biased.condition == nullptr) return "False";
  if (last_name(biased.condition).empty()) return "";
  // What forward() asks need not be known where the layer is made.
  const Statement* asked = biased.condition->statement;
  if (asked == nullptr || asked->function != biased.layer->function) return "";
  return "not " + std::string(biased.layer->file->slice(biased.condition->range));
}

// `nn.init.zeros_(layer.bias)`, of a program that does not ask whether there is one.
const Expr* touched_bias(const Program& program) {
  for (const File* file : program.files) {
    if (has_text(*file, "bias is not None")) return nullptr;
  }
  for (const File* file : program.files) {
    if (!has_text(*file, ".bias")) continue;
    for (const Statement* statement : file->statements) {
      const Expr* found = nullptr;
      for_own_expressions(*statement, [&](const Expr* expr) {
        visit(expr, [&](const Expr& part) {
          const bool is_it = part.kind == ExprKind::attribute && part.word() == "bias";
          if (is_it && found == nullptr) found = &part;
          return true;
        });
      });
      if (found != nullptr) return found;
    }
  }
  return nullptr;
}

// Without a bias, code that touches it fails, and a checkpoint has a weight too many.
void add_edits(const Program& program, const std::vector<Biased>& layers, Fix& fix) {
  if (const Expr* touched = touched_bias(program)) {
    const File& file = *touched->statement->file;
    fix.text += fmt::format("; {}:{} has to ask first whether there is a bias", file.path,
                            file.place(touched->range.begin).line);
    return;
  }
  for (const Biased& biased : layers) {
    const std::string value = wanted_bias(biased);
    if (value.empty() || !biased.is_certain) continue;
    const Argument* written = biased.layer->argument("bias", bias_position(*biased.layer));
    add_edit(written != nullptr ? replace_argument(*biased.layer, *written, value)
                                : add_argument(*biased.layer, "bias", value),
             fix);
  }
  const auto touches = [](const File* file) { return has_text(*file, ".bias"); };
  const bool loads = mentions(program, {"load_state_dict", "load", "from_pretrained", "pretrained",
                                        "resume", "load_from_checkpoint", "checkpoint"});
  fix.safe = !fix.edits.empty() && !loads && std::ranges::none_of(program.files, touches);
}

std::string lines_text(const std::vector<Biased>& layers) {
  constexpr std::size_t kNamed = 6;
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < std::min(layers.size(), kNamed); ++i) {
    lines.push_back(std::to_string(layers[i].layer->file->place(layers[i].layer->open_paren).line));
  }
  std::string text = join(lines, ", ");
  if (layers.size() > kNamed) text += fmt::format(" and {} more", layers.size() - kNamed);
  return text;
}

Finding finding_for(const Program& program, const std::vector<Biased>& layers) {
  const Biased& first = layers.front();
  const std::string value = wanted_bias(first);
  Fix fix{fmt::format("Pass {} to {}",
                      value.empty() ? "bias=False where the norm follows" : "bias=" + value,
                      layers.size() == 1 ? std::string(first.layer->method) : "the layers"),
          Exactness::exact_arithmetic};
  add_edits(program, layers, fix);
  if (!fix.safe) {
    fix.text +=
        "; a checkpoint made before has the bias: subtract it from running_mean and drop its entry";
  }
  Finding finding = finding_at(
      *first.layer,
      layers.size() == 1
          ? fmt::format("the bias of this {} has no effect in training: BatchNorm behind it "
                        "subtracts it again",
                        first.layer->method)
          : fmt::format(
                "{} layers (lines {}) have a bias that BatchNorm behind them subtracts again",
                layers.size(), lines_text(layers)),
      std::move(fix));
  finding.count = static_cast<std::int64_t>(layers.size());
  finding.evidence = {
      Evidence::published("PyTorch Performance Tuning Guide, Disable bias for convolutions "
                          "directly followed by a batch norm")};
  return finding;
}

// `if isinstance(m, nn.BatchNorm2d): m.eval()`, `if m.__class__.__name__.find("BatchNorm") != -1:`
bool switches_norm(const Call& call) {
  const Expr* norm = call.method == "eval" ? call.receiver : nullptr;
  const Statement* test = call.statement->parent;
  const bool is_under_test = norm != nullptr && norm->kind == ExprKind::name && test != nullptr &&
                             test->kind == StatementKind::if_ &&
                             test->body.data() == call.statement->block.data();
  return is_under_test && contains_any(call.file->slice(test->value->range), {"BatchNorm"}) &&
         test->value->word() != "not";
}

// `self.apply(set_norm_eval)`
std::vector<const Call*> applications(const SourceFacts& facts, const FunctionDef& function) {
  std::vector<const Call*> found;
  for (const Call* call : facts.method_calls("apply")) {
    if (call->arguments.size() != 1) continue;
    const Expr& given = *call->arguments.front().value;
    if (given.type->function == &function) found.push_back(call);
  }
  return found;
}

// Where a run with all options at their defaults switches the norms: at the calls of the function,
// the modules that it is applied to, or the class's own train().
std::vector<const Call*> default_switches(const SourceFacts& facts, const Call& call) {
  const FunctionDef* function = call.function;
  std::vector<const Call*> places{&call};
  if (function != nullptr) {
    places = applications(facts, *function);
    if (places.empty()) places = function->callers;
    const bool is_hook = function->name == "train" && function->class_def != nullptr;
    if (is_hook && places.empty()) places = {&call};
    if (!is_reached_by_default(facts, call)) return {};
  }
  std::erase_if(places, [&](const Call* one) { return !is_reached_by_default(facts, *one); });
  return places;
}

// Whether one file imports the other, also through others.
bool leads_to(const File& from, const File& wanted) {
  std::vector<const File*> found{&from};
  for (std::size_t next = 0; next < found.size(); ++next) {
    if (found[next] == &wanted) return true;
    for (const File* file : found[next]->imported) {
      if (std::ranges::find(found, file) == found.end()) found.push_back(file);
    }
  }
  return false;
}

// BatchNorm that uses stored statistics in training: by the name of what freezes it, or by eval()
// of each norm from a file with the network or above it.
bool is_frozen_somewhere(const SourceFacts& facts, const File& network, const Program& program) {
  if (mentions(program, {"freeze_bn", "FrozenBatchNorm2d", "frozen_bn", "freeze_batchnorm"})) {
    return true;
  }
  return std::ranges::any_of(facts.method_calls("eval"), [&](const Call* call) {
    if (!program.has(*call->file) || !switches_norm(*call)) return false;
    return std::ranges::any_of(default_switches(facts, *call),
                               [&](const Call* place) { return leads_to(*place->file, network); });
  });
}

// Whether a module has the other inside, or is it.
bool holds_module(const ClassDef& whole, const ClassDef& part, int depth = 0) {
  constexpr int kMaxDepth = 4;
  if (&whole == &part) return true;
  return depth < kMaxDepth && std::ranges::any_of(whole.layers, [&](const Layer& layer) {
           const ClassDef* inner = layer.made_by->expr->type->class_def;
           return inner != nullptr && holds_module(*inner, part, depth + 1);
         });
}

// `def train(self, mode=True): super().train(mode); self.net.eval()`, of a module or of a class
// around one: what is in that network normalises with stored statistics, and its biases count.
bool stays_in_evaluation(const SourceFacts& facts, const Call& layer) {
  const ClassDef* def = layer.function == nullptr ? nullptr : layer.function->class_def;
  if (def == nullptr) return false;
  return std::ranges::any_of(facts.method_calls("eval"), [&](const Call* call) {
    const bool is_hook = call->receiver != nullptr && call->function != nullptr &&
                         call->function->name == "train" && call->function->class_def != nullptr;
    const ClassDef* whole = is_hook ? call->receiver_type().class_def : nullptr;
    if (whole == nullptr || whole == call->function->class_def) return false;
    // Layers that functions of other files make are not all seen.
    const bool is_apart = whole->file != def->file && whole->file != call->file;
    return holds_module(*whole, *def) || (is_apart && leads_to(*whole->file, *def->file));
  });
}

// A convolution of a trained network that is known to be wide: the bias of a Linear or of a few
// channels takes no time that shows.
bool matters(const SourceFacts& facts, const Program& program, const Biased& biased) {
  constexpr std::int64_t kWide = 128;
  const Call& layer = *biased.layer;
  if (!is_convolution(layer)) return false;
  const TrainedParts& parts = trained_parts(facts, program);
  if (parts.is_complete && !is_part(parts, layer)) return false;
  const ClassDef* def = layer.function == nullptr ? nullptr : layer.function->class_def;
  if (def != nullptr && is_beside_training(facts, program, *def)) return false;
  const Argument* out = layer.argument("out_channels", 1);
  const auto channels =
      out == nullptr || out->unpacked ? std::nullopt : largest_size(facts, out->value, &program);
  return channels.value_or(0) >= kWide;
}

void judge_file(const SourceFacts& facts, const File& file, const Program& program,
                std::vector<Finding>& findings) {
  constexpr std::ptrdiff_t kSeveral = 2;
  std::map<const void*, std::vector<Biased>> homes;
  for (const LayerPair& pair : neighbouring_layers(file)) {
    if (!is_batch_norm(*pair.second) || !has_bias(facts, *pair.first)) continue;
    if (!is_same_width(facts, *pair.first, *pair.second)) continue;
    if (!is_normalized(facts, pair)) continue;
    if (stays_in_evaluation(facts, *pair.first)) continue;
    homes[home_of(*pair.first)].push_back({pair.first, pair.condition, true});
  }
  for (auto& [home, layers] : homes) {
    std::sort(layers.begin(), layers.end(), [](const Biased& a, const Biased& b) {
      return a.layer->open_paren < b.layer->open_paren;
    });
    findings.push_back(finding_for(program, layers));
    const auto costs = [&](const Biased& one) { return matters(facts, program, one); };
    if (std::ranges::count_if(layers, costs) < kSeveral) findings.back().own_level = Level::info;
  }
  const auto added = findings.end() - static_cast<std::ptrdiff_t>(homes.size());
  std::sort(added, findings.end(),
            [](const Finding& a, const Finding& b) { return a.location.line < b.location.line; });
}

}  // namespace conv_bias_in_source

std::vector<Finding> biases_before_batchnorm(const source::SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const auto& file : facts.files) {
    if (!has_text(*file, "BatchNorm")) continue;
    const auto programs = source::training_programs_of(facts, *file);
    if (programs.empty() ||
        conv_bias_in_source::is_frozen_somewhere(facts, *file, *programs.front()))
      continue;
    conv_bias_in_source::judge_file(facts, *file, *programs.front(), findings);
  }
  return findings;
}

}  // namespace rooftile
