#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "rooftile/analysis/source/head_training.h"
#include "rooftile/analysis/source/iteration.h"
#include "rooftile/analysis/source/layer_queries.h"
#include "rooftile/analysis/source/model_size.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace precision_amp_off_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A program that trains a model with layers large enough for Tensor Cores on a GPU, and nowhere uses
or offers mixed precision, 16-bit weights or TF32. Large enough are convolutions from and to 64
channels, layers of 512 features, and models of torchvision, timm, transformers and the like. One
finding per program.

## Why it costs time
In fp32, matrix products run on CUDA cores: 19.5 TFLOPS on an A100, against 312 in bf16.
Activations take twice the memory and bandwidth.

## How to fix
`with torch.autocast("cuda", dtype=torch.bfloat16):` around the forward and the loss, backward
outside. On GPUs before Ampere use `torch.float16` and a `GradScaler`.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step time
says what there is to gain.

## When not to
- Small models and those that wait for data or launches gain little; a recording shows it.
- Reinforcement learning, adversarial training, float64 and second-order derivatives: the rule is
  silent.
- Tutorials on MNIST, unless it is one of several data sets to choose from.
- Programs that train only a linear head, on features computed without gradients or frozen.
- An option for it exists, even if it is off by default.

## Evidence
- PyTorch performance tuning guide, "Use Mixed Precision and AMP".
- PyTorch recipe "Automatic Mixed Precision": what to expect, and where nothing is gained.
- NVIDIA A100 datasheet: peak rates.
)md";

using namespace source;

// Amplitudes are no mixed precision: amp_to_db, db_to_amp.
bool is_of_sound(std::string_view line) { return contains_any(line, {"amp_to_", "_to_amp"}); }

// A scaler alone makes nothing 16 bits wide: who uses one with autocast says that too.
bool is_of_scaler(std::string_view line) {
  return contains_any(line, {"amp.GradScaler", "NativeScaler"});
}

// An option `--fp16` is a sign, and the error that says what apex would be for is none.
bool is_complaint(std::string_view line) { return trim(line).starts_with("raise "); }

// NumPy on the host, and digits of printed numbers.
bool is_of_host(std::string_view line) {
  return contains_any(line, {"np.float16", "numpy.float16", "set_printoptions"});
}

// `if x.dtype == torch.float16:`, `x.dtype in {torch.float16, torch.bfloat16}` and a table with the
// key `torch.float16:` take what they are given.
bool asks_for_dtype(std::string_view line) {
  return contains_any(line, {".dtype ==", ".dtype in", ".dtype not in",
                             ".dtype !=", "torch.float16:", "torch.bfloat16:"});
}

// `AverageMeter(precision=4)`: digits, where 16 and 32 would be bits.
bool counts_digits(std::string_view line) {
  constexpr std::string_view kWord = "precision=";
  const std::size_t at = line.find(kWord);
  if (at == std::string_view::npos) return false;
  const std::string_view rest = line.substr(at + kWord.size());
  const auto is_digit = [&](std::size_t i) {
    return i < rest.size() && rest[i] >= '0' && rest[i] <= '9';
  };
  return is_digit(0) && !is_digit(1);
}

// Precision and recall; `double_precision=False` of a solver.
bool is_of_metric(std::string_view line) {
  return contains_any(lower(line), {"recall", "f1", "fbeta", "metric", "double_precision"});
}

using LineTest = bool (*)(std::string_view);

// Whether a word stands in a line that no test takes out. Imports do not count: one that nothing
// uses decides nothing.
bool uses_word(const File& file, std::string_view word, std::initializer_list<LineTest> without) {
  if (!mentions(file, {word})) return false;
  const std::string text = code_of(file);
  std::string used;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size() - 1);
    const std::string_view line = std::string_view(text).substr(begin, end + 1 - begin);
    const std::string_view code = trim(line);
    const bool is_import = code.starts_with("import ") || code.starts_with("from ");
    const bool speaks = !is_import && line.find(word) != std::string_view::npos;
    const bool is_out =
        speaks && std::ranges::any_of(without, [&](LineTest test) { return test(line); });
    if (speaks && !is_out) used += line;
    begin = end + 1;
  }
  return has_word(used, word);
}

// apex's own way to train in 16 bits, or an option for it; its other parts do not count.
bool uses_amp(const Program& program) {
  return std::ranges::any_of(program.files, [](const File* file) {
    for (const std::string_view word : {"amp", "use_apex", "--apex"}) {
      if (uses_word(*file, word, {is_of_sound, is_of_scaler})) return true;
    }
    return false;
  });
}

// Words that mean something else in some lines.
bool names_precision(const Program& program) {
  return std::ranges::any_of(program.files, [](const File* file) {
    return uses_word(*file, "fp16", {is_complaint}) ||
           uses_word(*file, "float16", {is_of_host, asks_for_dtype}) ||
           uses_word(*file, "bfloat16", {asks_for_dtype}) || uses_word(*file, "fairseq", {}) ||
           uses_word(*file, "precision=", {is_of_host, is_of_metric, counts_digits});
  });
}

// fairseq trains by options of its own, --fp16 among them; its metrics alone do not.
bool trains_by_fairseq(const Program& program) {
  return std::ranges::any_of(program.files, [](const File* file) {
    if (!mentions(*file, {"fairseq"})) return false;
    if (file->module.starts_with("fairseq") || contains(file->module, ".fairseq")) return true;
    return std::ranges::any_of(file->imports, [](std::string_view name) {
      return name == "fairseq" || name.starts_with("fairseq_cli") ||
             (name.starts_with("fairseq.") &&
              contains_any(name, {".trainer", ".tasks", ".options", ".models", ".optim",
                                  ".dataclass", ".checkpoint_utils", ".distributed"}));
    });
  });
}

// Any sign that the author chose a precision, or offers it as an option.
bool has_precision(const Program& program) {
  if (uses_amp(program) || names_precision(program) || trains_by_fairseq(program)) return true;
  return mentions(program, {"autocast",
                            "bf16",
                            "fp8",
                            "half()",
                            "mixed_precision",
                            "deepspeed",
                            "Fabric",
                            "HfArgumentParser",
                            "allow_tf32",
                            "set_float32_matmul_precision",
                            "fp32_precision",
                            "HalfTensor",
                            "Accelerator",
                            "tf32",
                            "TF32",
                            "torch_dtype",
                            "mmcv",
                            "mmengine",
                            "FP16",
                            "AMP",
                            "Amp"});
}

// Where the head of a function or class ends; 0 for other statements.
std::uint32_t end_of_head(const Statement& statement) {
  const auto body = statement.class_def != nullptr      ? statement.class_def->body
                    : statement.function_def != nullptr ? statement.function_def->body
                                                        : std::span<const Statement* const>{};
  return body.empty() ? 0 : body.front()->range.begin;
}

// Whether the file names MNIST outside of its documentation and the help of its options; one that
// is only imported, also outside of imports and heads of functions and classes.
bool loads_mnist(const File& file) {
  if (!mentions(file, {"MNIST", "mnist", "FashionMNIST", "KMNIST", "EMNIST", "QMNIST"})) {
    return false;
  }
  std::string code = code_of(file);
  for (const Statement* statement : file.statements) {
    if (file.is_entry) break;
    const bool is_import =
        statement->kind == StatementKind::import_ || last_name(statement->target) == "__all__";
    const std::uint32_t begin = statement->range.begin;
    const std::uint32_t end = is_import ? statement->range.end : end_of_head(*statement);
    if (end > begin) std::fill(code.begin() + begin, code.begin() + end, ' ');
  }
  for (const Call* call : file.calls) {
    if (!is_one_of(call->method, {"ArgumentParser", "add_argument", "parser"})) continue;
    for (const Argument& argument : call->arguments) {
      const bool is_text = is_one_of(argument.name, {"description", "help", "epilog"});
      if (!is_text || argument.followed) continue;
      std::fill(code.begin() + argument.range.begin, code.begin() + argument.range.end, ' ');
    }
  }
  return contains_any(code, {"MNIST", "mnist"});
}

// The option `--dataset` in one of its spellings; `--data` may be a folder, unless it has a list to
// choose from.
bool names_dataset(const SourceFacts& facts, const Call& option) {
  return std::ranges::any_of(option.arguments, [&](const Argument& argument) {
    if (!argument.name.empty() || argument.unpacked) return false;
    const Value flag = facts.value(argument.value);
    if (flag.kind != ValueKind::text) return false;
    return is_one_of(flag.text, {"--dataset", "--dataset_name", "--dataset-name", "--dset"}) ||
           (flag.text == "--data" && option.argument("choices") != nullptr);
  });
}

// An option that picks the data, whose default is something else or which has to be given.
bool picks_other_data(const SourceFacts& facts, const Program& program) {
  if (program.entry == nullptr) return false;
  for (const Call* call : program.entry->calls) {
    if (call->method != "add_argument" || call->arguments.empty()) continue;
    if (!names_dataset(facts, *call)) continue;
    const Value chosen = facts.argument(*call, "default");
    if (chosen.absent()) return true;
    return chosen.kind == ValueKind::text && lower(chosen.text).find("mnist") == std::string::npos;
  }
  return false;
}

bool is_tutorial(const SourceFacts& facts, const Program& program) {
  return std::any_of(program.files.begin(), program.files.end(),
                     [](const File* file) { return loads_mnist(*file); }) &&
         !picks_other_data(facts, program);
}

// The optimizer that the call hands to an own function that steps it; null for other calls.
const Expr* optimizer_handed_over(const Call& call) {
  const bool steps = call.target != nullptr && std::ranges::any_of(call.target->calls, [](auto* c) {
                       return c->method == "step";
                     });
  if (!steps) return nullptr;
  for (const Argument& argument : call.arguments) {
    const bool is_named = argument.value->type->is(TypeKind::unknown) &&
                          last_name(argument.value).find("optim") != std::string_view::npos;
    if (is_named || argument.value->type->is(TypeKind::optimizer)) return argument.value;
  }
  return nullptr;
}

// optim.SGD([delta]): looks for one tensor, as an adversarial example, and trains no network.
bool optimizes_tensors(const Expr& optimizer) {
  const Call* made = optimizer.type->made_by;
  const Argument* given = made == nullptr ? nullptr : made->argument("params", 0);
  const Expr* list = given == nullptr ? nullptr : resolved(given->value);
  return list != nullptr && list->kind == ExprKind::list && !list->children.empty() &&
         std::ranges::all_of(list->children,
                             [](const Expr* part) { return part->kind == ExprKind::name; });
}

bool steps_network(const Call& call) {
  const Expr* receiver = call.receiver;
  return call.method == "step" && receiver != nullptr && receiver->type != nullptr &&
         receiver->type->is(TypeKind::optimizer) && !optimizes_tensors(*receiver);
}

// One function may make both, `g = make_optimizer(netG)` and `d = make_optimizer(netD)`.
bool is_same_optimizer(const Expr& a, const Expr& b) {
  const Call* made = a.type->made_by;
  const bool is_by_function = made != nullptr && made->function != nullptr &&
                              a.statement != nullptr && made->function != a.statement->function;
  const bool is_named_apart =
      !last_name(&a).empty() && !last_name(&b).empty() && last_name(&a) != last_name(&b);
  return is_same_object(&a, &b) && !(is_by_function && is_named_apart);
}

// Two that one class or one file makes, each under a name of its own: not one of several kinds that
// a function returns, nor that of a tool in some other file.
bool has_two_optimizers(const SourceFacts& facts, const Program& program) {
  std::vector<std::pair<const void*, std::string_view>> made;
  for (const Call* call : constructions_in(facts, program, TypeKind::optimizer)) {
    const ClassDef* def = call->function == nullptr ? nullptr : call->function->class_def;
    const void* place = def != nullptr ? static_cast<const void*>(def) : call->file;
    const bool is_set = call->statement != nullptr && call->statement->target != nullptr;
    const bool is_returned =
        call->statement != nullptr && call->statement->kind == StatementKind::return_;
    std::string_view name;
    if (is_set) name = call->file->slice(call->statement->target->range);
    if (is_returned && call->function != nullptr) name = call->function->name;
    for (const auto& [other_place, other_name] : made) {
      if (other_place == place && other_name != name) return true;
    }
    made.emplace_back(place, name);
  }
  return false;
}

// A generator and a discriminator, or any two optimizers that step in one pass, but for those that
// share its only backward, as of an encoder and a decoder.
bool is_adversarial(const SourceFacts& facts, const Program& program) {
  for (const Loop* loop : program.training_loops) {
    const Iteration iteration = iteration_of(loop->statement->body);
    const Expr* first = nullptr;
    const Expr* given = nullptr;
    const auto backwards = std::ranges::count_if(
        iteration.calls, [](const auto& one) { return one.call->method == "backward"; });
    bool has_run_backward = false;
    for (const IteratedCall& one : iteration.calls) {
      has_run_backward = has_run_backward || one.call->method == "backward";
      if (const Expr* optimizer = optimizer_handed_over(*one.call)) {
        if (given != nullptr && last_name(given) != last_name(optimizer)) return true;
        given = optimizer;
      }
      const Expr* receiver = one.call->receiver;
      if (!steps_network(*one.call)) continue;
      if (backwards == 1 && has_run_backward) continue;
      if (first != nullptr && !is_same_optimizer(*first, *receiver)) return true;
      first = receiver;
    }
  }
  return mentions(program, {"netD", "netG", "discriminator", "Discriminator", "generator_loss"}) &&
         has_two_optimizers(facts, program);
}

// Where a library calls the training step: the model's call in it, or its first one.
const Call* call_in_step(const Program& program) {
  for (const File* file : program.files) {
    for (const FunctionDef* function : file->functions) {
      if (!function->is_training_step || function->calls.empty()) continue;
      const auto forward = std::ranges::find_if(function->calls, [](const Call* call) {
        return call->name == "torch.nn.Module.__call__" || call->method == "model";
      });
      return forward != function->calls.end() ? *forward : function->calls.front();
    }
  }
  return nullptr;
}

Finding finding_for(const Program& program, const SizedLayer& layer, const RuleInput& input) {
  const bool has_bf16 = input.device().has_tensor_cores(Dtype::bf16);
  const Fix fix{has_bf16 ? "Compute outputs and loss under torch.autocast(\"cuda\", "
                           "dtype=torch.bfloat16): bf16 needs no loss scaling"
                         : "Compute outputs and loss under torch.autocast(\"cuda\", "
                           "dtype=torch.float16), and step through torch.amp.GradScaler(\"cuda\")",
                Exactness::changes_numerics};
  const std::string message = fmt::format(
      "the model ({}) is trained in fp32: the Tensor Cores multiply bf16 and fp16 several times as "
      "fast",
      layer.text);
  const Call* forward = forward_call(program);
  if (forward == nullptr && program.training_loops.empty()) forward = call_in_step(program);
  const bool has_loop = forward == nullptr && !program.training_loops.empty();
  Finding finding = forward != nullptr ? finding_at(*forward, message, fix)
                    : has_loop
                        ? finding_at(*program.training_loops.front()->statement, message, fix)
                        : finding_at(*layer.call, message, fix);
  const bool is_same_line = finding.location.file == layer.call->file->path;
  finding.evidence = {
      is_same_line ? fmt::format("{} at {}", layer.text, place_text(*layer.call, *layer.call->file))
                   : fmt::format("{} in {}", layer.text, layer.call->file->path),
      "no autocast, 16-bit weights, precision option or TF32 switch anywhere in the program",
      "PyTorch performance tuning guide, Use mixed precision and AMP",
      "settle it with a recording: rooftile check train.py trace.json.gz"};
  return finding;
}

std::vector<Finding> check(const RuleInput& input) {
  if (input.workload.source == nullptr) return {};
  const SourceFacts& facts = *input.workload.source;
  std::vector<Finding> findings;
  for (const Program* program : training_programs(facts)) {
    if (has_precision(*program) || is_tutorial(facts, *program) ||
        is_numerically_strict(facts, *program))
      continue;
    if (is_reinforcement_learning(*program)) continue;
    const auto layer = tensor_core_sized_layer(facts, *program);
    if (!layer || is_adversarial(facts, *program)) continue;
    if (trains_head_only(facts, *program, *layer->call)) continue;
    findings.push_back(finding_for(*program, *layer, input));
  }
  return findings;
}

}  // namespace precision_amp_off_rule

extern const Rule precision_amp_off{
    .id = "precision/amp-off",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "a large model is trained in fp32 without mixed precision",
    .doc = precision_amp_off_rule::kDoc,
    .check = precision_amp_off_rule::check};

}  // namespace rooftile
