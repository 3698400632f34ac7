#include "rooftile/analysis/source/layer_queries.h"

#include <algorithm>

#include "rooftile/analysis/source/iteration.h"
#include "rooftile/analysis/source/model_size.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"
#include "rooftile/script/reach/reach.h"

namespace rooftile::source {
namespace {

constexpr std::int64_t kSomeChannels = 16, kManyChannels = 32;

std::optional<SizedLayer> library_network(const SourceFacts& facts, const Program& program,
                                          const Accepts& accepts) {
  for (const Call* call :
       calls_in(facts, program, {"torchvision.models.*", "segmentation_models_pytorch.*"})) {
    const bool is_made = call->expr->type->is(TypeKind::module) ||
                         (starts_with_capital(call->method) && !call->method.ends_with("Loss"));
    const std::string name = lower(call->name);
    // Inception measures the images of a generator, and is seldom trained.
    if (!is_made || !accepts(*call) ||
        contains_any(name, {"vit", "swin", "weights", "detection", "utils", "inception"}))
      continue;
    return SizedLayer{call, std::string(call->name)};
  }
  for (const Call* call : calls_in(facts, program, {"diffusers.*"})) {
    if (call->name.find("UNet") == std::string_view::npos || !accepts(*call)) continue;
    return SizedLayer{call, std::string(call->name)};
  }
  return model_chosen_by_name(program, accepts);
}

// `self.weight = nn.Parameter(torch.randn(1, 512, 512, 3, 3))` in a file that convolves with such.
std::optional<SizedLayer> own_convolution(const SourceFacts& facts, const Program& program,
                                          const Accepts& accepts) {
  for (const Call* call : calls_in(facts, program, {"torch.nn.Parameter"})) {
    if (!accepts(*call)) continue;
    const bool is_layer = call->function != nullptr && call->function->class_def != nullptr &&
                          call->function->class_def->is_module && !call->arguments.empty();
    if (!is_layer || !mentions(*call->file, {"conv2d", "conv3d", "conv_transpose2d"})) continue;
    const Expr* made = resolved(call->arguments[0].value);
    const Call* tensor = made->call();
    const bool is_drawn = tensor != nullptr && tensor->arguments.size() >= 3 &&
                          is_one_of(tensor->name, {"torch.randn", "torch.empty", "torch.Tensor",
                                                   "torch.zeros", "torch.rand"});
    if (!is_drawn) continue;
    const bool is_kernel = tensor->arguments.size() >= 4 || tensor->arguments.back().unpacked;
    std::vector<std::int64_t> wide;
    for (const Argument& argument : tensor->arguments) {
      const auto size =
          argument.unpacked ? std::nullopt : largest_size(facts, argument.value, &program);
      if (size.value_or(0) >= kManyChannels) wide.push_back(*size);
    }
    if (!is_kernel || wide.size() != 2) continue;
    return SizedLayer{call, "own convolution of " + std::to_string(wide[1]) + " to " +
                                std::to_string(wide[0]) + " channels"};
  }
  return std::nullopt;
}

}  // namespace

std::optional<LayerSizes> wide_convolution(const SourceFacts& facts, const Program& program,
                                           const Call& call) {
  const Argument* groups = call.argument("groups", 6);
  const auto count =
      groups == nullptr ? std::nullopt : largest_size(facts, groups->value, &program);
  for (const LayerSizes& sizes :
       layer_sizes(facts, program, call, {"in_channels", 0}, {"out_channels", 1})) {
    const auto& [in, out] = sizes;
    if (!in || !out || count.value_or(1) == *in) continue;
    if (std::min(*in, *out) >= kSomeChannels && std::max(*in, *out) >= kManyChannels) return sizes;
  }
  return std::nullopt;
}

std::optional<std::int64_t> fixed_argument(const SourceFacts& facts, const Call& call,
                                           std::string_view name, int position) {
  const Value value = facts.argument(call, name, position);
  const bool is_fixed = value.kind == ValueKind::integer && value.fixed();
  return is_fixed ? std::optional(value.integer) : std::nullopt;
}

std::optional<std::int64_t> chosen_argument(const SourceFacts& facts, const Call& call,
                                            std::string_view name, int position) {
  const Value value = facts.argument(call, name, position);
  if (value.kind != ValueKind::integer) return std::nullopt;
  const std::string written =
      value.expr == nullptr ? std::string() : lower(call.file->slice(value.expr->range));
  const bool is_given = contains_any(
      written, {"class", "label", "categor", "action", "output", "n_out", "out_dim", "vocab"});
  return is_given ? std::nullopt : std::optional(value.integer);
}

std::optional<std::int64_t> known_argument(const SourceFacts& facts, const Call& call,
                                           std::string_view name, int position) {
  const Value value = facts.argument(call, name, position);
  return value.kind == ValueKind::integer ? std::optional(value.integer) : std::nullopt;
}

bool is_convolution(const Call& call) {
  return is_one_of(call.name, {"torch.nn.Conv1d", "torch.nn.Conv2d", "torch.nn.Conv3d",
                               "torch.nn.ConvTranspose1d", "torch.nn.ConvTranspose2d",
                               "torch.nn.ConvTranspose3d"});
}

bool is_batch_norm(const Call& call) {
  const auto is_one = [](std::string_view name) {
    return is_one_of(name, {"torch.nn.BatchNorm1d", "torch.nn.BatchNorm2d", "torch.nn.BatchNorm3d",
                            "torch.nn.SyncBatchNorm"});
  };
  if (is_one(call.name)) return true;
  // An own class that only sets other defaults.
  const ClassDef* def = call.expr->type->class_def;
  return def != nullptr && call.expr->type->made_by == &call && def->method("forward") == nullptr &&
         std::ranges::any_of(def->bases,
                             [&](const Expr* base) { return is_one(base->full_name()); });
}

bool is_recurrent_layer(const Call& call) {
  return is_one_of(call.name, {"torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN"});
}

bool is_recurrent_cell(const Call& call) {
  return is_one_of(call.name, {"torch.nn.LSTMCell", "torch.nn.GRUCell", "torch.nn.RNNCell"});
}

const void* home_of(const Call& call) {
  const FunctionDef* outermost = call.function;
  while (outermost != nullptr && outermost->class_def == nullptr && outermost->outer != nullptr) {
    outermost = outermost->outer;
  }
  if (outermost != nullptr && outermost->class_def != nullptr) return outermost->class_def;
  if (outermost != nullptr) return outermost;
  return call.file;
}

std::optional<SizedLayer> main_convolution(const SourceFacts& facts, const Program& program,
                                           const Accepts& accepts) {
  if (auto network = library_network(facts, program, accepts)) return network;
  for (const Call* call : calls_in(facts, program,
                                   {"torch.nn.Conv2d", "torch.nn.Conv3d",
                                    "torch.nn.ConvTranspose2d", "torch.nn.ConvTranspose3d"})) {
    const auto sizes = accepts(*call) ? wide_convolution(facts, program, *call) : std::nullopt;
    if (!sizes) continue;
    return SizedLayer{call, std::string(call->method) + " of " + std::to_string(*sizes->first) +
                                " to " + std::to_string(*sizes->second) + " channels"};
  }
  return own_convolution(facts, program, accepts);
}

namespace {

// A network of convolutions with some attention between them, as the U-Nets of diffusion have.
bool is_unet(const File& file) {
  return std::ranges::any_of(file.classes, [](const ClassDef* def) {
    return def->is_module && contains_any(def->name, {"UNet", "Unet", "U_Net"});
  });
}

}  // namespace

bool has_attention(const Program& program) {
  if (mentions(program, {"transformers", "VisionTransformer", "SwinTransformer", "timm"})) {
    return true;
  }
  if (std::ranges::any_of(program.files, [](const File* file) { return is_unet(*file); })) {
    return false;
  }
  if (mentions(program, {"scaled_dot_product_attention", "MultiheadAttention"})) return true;
  return std::any_of(program.files.begin(), program.files.end(), [](const File* file) {
    // Image transformation networks are called TransformerNet too.
    const bool has_parts = mentions(*file, {"LayerNorm", "softmax", "Softmax", "attention"});
    return has_parts &&
           std::any_of(file->classes.begin(), file->classes.end(), [](const ClassDef* def) {
             return def->is_module &&
                    contains_any(def->name, {"Transformer", "SelfAttention", "MultiHead"});
           });
  });
}

bool is_forward_call(const Call& call) {
  const ClassDef* def = call.function == nullptr ? nullptr : call.function->class_def;
  if (def != nullptr && def->is_module && !def->is_lightning_module) return false;
  if (call.name == "torch.nn.Module.__call__") return true;
  const FunctionDef* target = call.target;
  return call.method == "forward" && call.receiver != nullptr && target != nullptr &&
         target->class_def != nullptr && target->class_def->is_module;
}

namespace {

// Of a test that a training loop runs now and then, or of another network's features.
bool is_in_evaluation(const SourceFacts& facts, const Call& call) {
  if (without_gradients(facts, call)) return true;
  for (const Statement* at = call.statement; at != nullptr; at = at->parent) {
    if (at->kind == StatementKind::function) return false;
    if (at->loop != nullptr && at->loop->role == LoopRole::evaluation_step) return true;
  }
  return false;
}

constexpr int kMostCallers = 6;

bool is_called_from(const File& entry, const FunctionDef* function) {
  return function != nullptr && any_call_above(*function, kMostCallers, [&](const Call& call) {
           return call.file == &entry;
         });
}

// `def main(): pass` under the main guard of a module file, which other files import.
bool does_nothing(const File& entry) {
  const auto is_idle = [](const Statement* each) {
    const FunctionDef* function = each->value == nullptr || each->value->call() == nullptr
                                      ? nullptr
                                      : each->value->call()->target;
    if (each->kind == StatementKind::pass) return true;
    return function != nullptr && function->body.size() == 1 &&
           function->body.front()->kind == StatementKind::pass;
  };
  return !entry.is_notebook && std::ranges::any_of(entry.body, [&](const Statement* each) {
    return each->kind == StatementKind::if_ && uses_variable(each->value, "__name__") &&
           std::ranges::all_of(each->body, is_idle);
  });
}

bool is_in_reach(const Program& program, const Loop& loop) {
  if (loop.file == program.entry) return loop.function == nullptr || !does_nothing(*program.entry);
  return is_called_from(*program.entry, loop.function);
}

// The training loops, first those that the entry leads to, and of these those of a default run.
std::vector<const Loop*> loops_from_entry(const SourceFacts& facts, const Program& program) {
  std::vector<const Loop*> loops = program.training_loops;
  if (program.entry == nullptr) return loops;
  // Not a module's own training under its main guard.
  const auto idle = std::stable_partition(loops.begin(), loops.end(), [&](const Loop* loop) {
    return runs_in(facts, program, *loop->statement);
  });
  if (idle != loops.begin()) loops.erase(idle, loops.end());
  const auto first_far = std::stable_partition(
      loops.begin(), loops.end(), [&](const Loop* loop) { return is_in_reach(program, *loop); });
  std::stable_partition(loops.begin(), first_far, [&](const Loop* loop) {
    return is_reached_by_default(facts, *loop->statement);
  });
  return loops;
}

}  // namespace

const Call* forward_call(const SourceFacts& facts, const Program& program) {
  const Call* evaluated = nullptr;
  for (const Loop* loop : loops_from_entry(facts, program)) {
    const Call* called = nullptr;
    for (const IteratedCall& one : iteration_of(facts, loop->statement->body).calls) {
      // A library's loop leads to the steps of other programs too.
      if (!is_forward_call(*one.call) || !program.has(*one.call->file)) continue;
      const bool is_test_of_it = is_in_evaluation(facts, *one.call);
      if (!is_test_of_it && one.call->function == loop->function) return one.call;
      const Call*& kept = is_test_of_it ? evaluated : called;
      if (kept == nullptr) kept = one.call;
    }
    if (called != nullptr) return called;
  }
  return evaluated;
}

TrainingPlace training_place(const SourceFacts& facts, const Program& program) {
  const auto loops = loops_from_entry(facts, program);
  if (loops.empty()) return {};
  TrainingPlace place{loops.front(), nullptr};
  const Call* forward = forward_call(facts, program);
  if (forward == nullptr || is_in_evaluation(facts, *forward)) return place;
  const Call* backward = loops.front()->backward;
  const bool is_step = backward != nullptr && backward->function == forward->function;
  if (is_step && training_programs_of(facts, *forward->file).size() < 2) place.forward = forward;
  for (const Loop* loop : loops) {
    if (forward->function == loop->function && is_within(*forward->statement, *loop->statement)) {
      return {loop, forward};
    }
  }
  return place;
}

namespace {

bool imports(const File& from, const File& wanted) {
  return std::ranges::find(from.imported, &wanted) != from.imported.end();
}

// Itself, or through one other file.
bool gets_to(const File& entry, const File& wanted) {
  return imports(entry, wanted) || std::ranges::any_of(entry.imported, [&](const File* file) {
           return imports(*file, wanted);
         });
}

}  // namespace

bool runs_training(const Program& program) {
  if (program.entry == nullptr || program.training_loops.empty()) return true;
  const File& entry = *program.entry;
  return std::any_of(program.training_loops.begin(), program.training_loops.end(),
                     [&](const Loop* loop) {
                       return loop->file == &entry || gets_to(entry, *loop->file) ||
                              is_called_from(entry, loop->function);
                     });
}

bool takes_steps(const Program& program) {
  if (program.entry == nullptr) return true;
  const bool has_loops = !program.training_loops.empty();
  const auto may_train = [&](const Call* call) {
    const std::string name = lower(call->method);
    if (call->target == nullptr && contains(name, "main")) return true;
    return (call->target == nullptr || !has_loops) && !contains(name, "pretrain") &&
           contains_any(name, {"train", "fit", "run", "learn", "launch", "spawn", "experiment"});
  };
  return std::ranges::any_of(program.training_loops,
                             [&](const Loop* loop) { return is_in_reach(program, *loop); }) ||
         std::ranges::any_of(program.entry->functions, &FunctionDef::is_training_step) ||
         std::ranges::any_of(program.entry->calls, may_train);
}

std::vector<const Loop*> training_loops_in_reach(const Program& program) {
  std::vector<const Loop*> loops = program.training_loops;
  const bool has_some =
      program.entry != nullptr &&
      std::ranges::any_of(loops, [&](const Loop* loop) { return is_in_reach(program, *loop); });
  if (has_some)
    std::erase_if(loops, [&](const Loop* loop) { return !is_in_reach(program, *loop); });
  return loops;
}

bool leaves_training_to_another(const SourceFacts& facts, const Program& program) {
  const auto calls_some = [](const Program& one, const std::vector<const Loop*>& loops) {
    return one.entry != nullptr &&
           std::ranges::any_of(loops, [&](const Loop* loop) { return is_in_reach(one, *loop); });
  };
  const auto& loops = program.training_loops;
  if (program.entry == nullptr || loops.empty() || calls_some(program, loops)) return false;
  return std::ranges::any_of(facts.programs_of(*loops.front()->file), [&](const Program* other) {
    return other != &program && calls_some(*other, loops);
  });
}

const File* training_file(const Program& program) {
  const auto loops = training_loops_in_reach(program);
  return loops.empty() ? program.entry : loops.front()->file;
}

const Statement* last_import(const File& file) {
  const Statement* last = nullptr;
  for (const Statement* statement : file.body) {
    if (statement->kind == StatementKind::import_) last = statement;
    if (statement->kind == StatementKind::function || statement->kind == StatementKind::class_) {
      break;
    }
  }
  return last;
}

}  // namespace rooftile::source
