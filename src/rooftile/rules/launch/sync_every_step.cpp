#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "rooftile/analysis/source/host_reads.h"
#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/script_rule.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace sync_every_step {

constexpr std::string_view kDoc = R"md(
## What it finds
A value of the GPU that the host reads on each training step: `.item()`, `float(t)`, `.cpu()`,
`.numpy()`, `.tolist()`, printing or formatting a tensor, `if`, `while` or `assert` on its value,
`loss.data[0]`. Code that the loop calls, `forward` included, counts.

## Why it costs time
The host normally runs ahead and queues kernels. A read waits until the GPU has finished all of
them; the queue is then empty, and the GPU idles until the next launches arrive.

## How to fix
Keep the value on the device: `total += loss.detach()`, and read it every so many steps (`if step
% 50 == 0`). `torch.where` in place of an `if`. Lengths that the host needs can stay on the host.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step
time says what there is to gain.

## When not to
- Reads under a guard of ten steps or more, at the end of an epoch, in evaluation, or under an
  option that is off.
- Values that the host needs in each step by nature: actions for an environment, input of a
  matching or of NMS on the CPU.
- NumPy values, sizes and shapes are no reads.

## Evidence
- PyTorch performance tuning guide, "Avoid unnecessary CPU-GPU synchronization".
)md";

using namespace source;

// `for key, weight in model.state_dict().items(): state[key] = weight.cpu()`: weights are saved.
bool copies_weights(const HostRead& read) {
  if (read.call == nullptr || read.call->method != "cpu") return false;
  const Expr* iterable = nullptr;
  for (const Expr* outer = read.expr->parent; outer != nullptr; outer = outer->parent) {
    if (outer->kind == ExprKind::comprehension) iterable = outer;
  }
  for (const Statement* outer = read.statement; outer != nullptr; outer = outer->parent) {
    if (outer->kind == StatementKind::function) break;
    if (outer->kind == StatementKind::for_ && iterable == nullptr) iterable = outer->value;
  }
  bool lists_state = false;
  visit(iterable, [&](const Expr& part) {
    const Expr* made = resolved(&part);
    lists_state = lists_state || (made->call != nullptr && made->call->method == "state_dict");
    return !lists_state;
  });
  return lists_state;
}

// Actions for an environment, or priorities for the memory of it.
bool is_for_environment(const Expr* expr, const Statement& statement) {
  bool found = false;
  const auto look = [&](const Expr* inner) {
    visit(inner, [&](const Expr& part) {
      found = found || contains(last_name(&part), "action");
      return !found;
    });
  };
  look(expr);
  look(statement.target);
  if (found) return true;
  for (const Expr* outer = expr->parent; outer != nullptr; outer = outer->parent) {
    if (outer->call == nullptr) continue;
    const bool is_environment =
        outer->call->method == "step" && contains(last_name(outer->call->receiver), "env");
    if (is_environment || contains(outer->call->method, "update_priorit")) return true;
  }
  return false;
}

// `def to_np(t): return t.cpu().numpy()` that also the actions go through.
bool serves_environment(const FunctionDef* function) {
  const bool is_helper = function != nullptr && function->class_def == nullptr &&
                         function->body.size() <= 2 && !function->parameters.empty();
  return is_helper && std::ranges::any_of(function->callers, [](const Call* caller) {
           return caller->statement != nullptr &&
                  is_for_environment(caller->expr, *caller->statement);
         });
}

// What the host has to know in each step by nature.
bool feeds_host(const HostRead& read) {
  return copies_weights(read) || is_for_environment(read.expr, *read.statement) ||
         serves_environment(read.statement->function);
}

bool shares_variable(const Expr* condition, const Expr* read) {
  bool shares = false;
  visit(condition, [&](const Expr& part) {
    shares = shares || (part.kind == ExprKind::name && uses_variable(read, part.word));
    return !shares;
  });
  return shares;
}

// A tensor, whichever branch ran before.
bool is_tensor_of_step(const Expr* value) {
  const Type& type = *value->type;
  if (value->kind == ExprKind::name && value->binding == nullptr) return false;
  return is_gpu_value(value) ||
         (type.is(TypeKind::tensor) && !type.guessed && type.residence == Residence::unknown);
}

// `meters.update(loss=loss, **losses)`: what `**values` takes are losses, or a tensor of the step.
bool takes_losses(const SourceFacts& facts, const FunctionDef& function) {
  const bool takes_named =
      std::ranges::any_of(function.parameters, [](const Parameter& p) { return p.double_starred; });
  return takes_named && std::ranges::any_of(function.callers, [&](const Call* call) {
           return std::ranges::any_of(call->arguments, [&](const Argument& argument) {
             const std::string_view text = call->file->slice(argument.value->range);
             if (argument.unpacked) return text.starts_with("**") && contains(text, "loss");
             return is_tensor_of_step(argument.value) && is_in_step_loop(facts, *call);
           });
         });
}

// The name at the root of `x.detach().cpu()`; of a loop's variable, of what it goes through.
const Expr* root_of(const Expr* expr, int depth = 0) {
  while (expr != nullptr && expr->kind != ExprKind::name && !expr->children.empty()) {
    expr = expr->children.front();
  }
  const Statement* set = expr == nullptr ? nullptr : expr->binding;
  const bool is_item = set != nullptr && set->kind == StatementKind::for_ && depth < 2;
  return is_item ? root_of(set->value, depth + 1) : expr;
}

// A caller that runs on each step hands over a tensor of the GPU.
bool gets_tensor(const SourceFacts& facts, const FunctionDef& function, const Expr* read) {
  const Expr* root = root_of(read);
  if (root == nullptr || root->kind != ExprKind::name || root->binding != nullptr) return false;
  return std::ranges::any_of(function.callers, [&](const Call* caller) {
    const Argument* given = passed_argument(*caller, function, root->word);
    return given != nullptr && !given->value->type->guessed && is_gpu_value(given->value) &&
           is_hot(facts, *caller);
  });
}

// `tensor2float(outputs["loss"])` in each step, of a function that also takes numbers or lists.
bool is_given_loss(const SourceFacts& facts, const FunctionDef& function) {
  if (function.class_def != nullptr || function.parameters.size() != 1) return false;
  return std::ranges::any_of(function.callers, [&](const Call* call) {
    if (call->arguments.size() != 1 || call->function == &function) return false;
    const Expr& given = *call->arguments.front().value;
    const bool is_number = given.type->is(TypeKind::number) || given.type->is(TypeKind::array);
    const bool is_loss = !is_number && contains(lower(call->file->slice(given.range)), "loss");
    return (is_loss || is_gpu_value(&given)) && is_in_step_loop(facts, *call);
  });
}

// `if isinstance(v, torch.Tensor): v = v.item()` of a meter: what it gets is mostly a number.
bool is_conversion(const SourceFacts& facts, const HostRead& read) {
  const Expr* value = read.call != nullptr ? read.call->receiver : nullptr;
  const bool is_known = value != nullptr && !value->type->guessed && is_gpu_value(value);
  const FunctionDef* function = read.statement->function;
  const bool is_meter = function != nullptr && function->class_def != nullptr;
  if (is_known && !is_meter) return false;
  if (function != nullptr &&
      (takes_losses(facts, *function) || gets_tensor(facts, *function, read.expr))) {
    return false;
  }
  for (const Statement* outer = read.statement->parent; outer != nullptr; outer = outer->parent) {
    if (outer->kind == StatementKind::function) return false;
    if (outer->kind != StatementKind::if_ || outer->value == nullptr) continue;
    const std::string_view condition = outer->file->slice(outer->value->range);
    const bool asks_for_kind = contains_any(condition, {"isinstance", "is_tensor"});
    if (asks_for_kind && shares_variable(outer->value, read.expr)) {
      return function == nullptr || !is_given_loss(facts, *function);
    }
  }
  return false;
}

// A part of the project that is compiled (Cython, numba): an algorithm for the host.
bool is_compiled(const Call& call) {
  if (call.target != nullptr) {
    return std::ranges::any_of(call.target->decorators, [](const Expr* decorator) {
      const std::string_view name =
          decorator->call != nullptr ? decorator->call->name : decorator->full_name;
      return name.starts_with("numba.");
    });
  }
  const std::string_view module = call.file->module;
  const std::string_view package = module.substr(0, module.find('.'));
  const std::string_view name = call.expr->children.front()->full_name;
  return call.receiver == nullptr && !package.empty() && call.expr->type->class_def == nullptr &&
         name.starts_with(package) && name.substr(package.size()).starts_with('.');
}

// quadprog.solve_qp(P, q): another library works on the arrays.
bool is_other_library(const Call& call) {
  if (call.target != nullptr || call.arguments.empty() || call.expr->children.empty()) return false;
  const std::string_view name = call.expr->children.front()->full_name;
  const std::size_t dot = name.find('.');
  const bool takes_array = std::ranges::any_of(call.arguments, [](const Argument& argument) {
    return argument.value->type->is(TypeKind::array);
  });
  if (dot == std::string_view::npos || dot == 0 || !takes_array) return false;
  return !is_one_of(
      name.substr(0, dot),
      {"torch",       "torchvision", "torchaudio",   "numpy",    "math",       "random",
       "os",          "sys",         "time",         "logging",  "copy",       "itertools",
       "collections", "functools",   "cv2",          "warnings", "json",       "pickle",
       "wandb",       "tqdm",        "einops",       "PIL",      "matplotlib", "tensorboardX",
       "skimage",     "apex",        "transformers", "timm",     "horovod"});
}

// torch.from_numpy(x), torch.Tensor(x)
bool makes_tensor(const Call& call) {
  return call.method == "from_numpy" ||
         (!call.arguments.empty() &&
          is_one_of(call.name, {"torch.Tensor", "torch.tensor", "torch.FloatTensor"}));
}

bool runs_on_host(const FunctionDef* function) {
  if (function == nullptr) return false;
  const auto& calls = function->calls;
  // What it gives comes back as a tensor.
  const bool returns_to_gpu =
      std::ranges::any_of(calls, [](const Call* call) { return makes_tensor(*call); });
  const bool trains =
      std::ranges::any_of(calls, [](const Call* call) { return call->method == "backward"; });
  const bool works_on_host = std::ranges::any_of(calls, [&](const Call* call) {
    return is_compiled(*call) || (!trains && is_other_library(*call));
  });
  if (returns_to_gpu && works_on_host) return true;
  const std::string_view text = function->file->slice(function->statement->range);
  for (const std::string_view word :
       {"linear_sum_assignment", "scipy.", "nms(", "heapify(", "heappush("}) {
    if (text.find(word) != std::string_view::npos) return true;
  }
  const std::string_view name = function->name;
  return name == "act" || name.starts_with("act_") || name.starts_with("action") ||
         name.ends_with("_action");
}

// `def validate_step(model, x): model.eval(); with torch.no_grad(): …`, which a loop over the whole
// graph calls in each pass.
bool is_in_evaluation(const SourceFacts& facts, const HostRead& read) {
  const FunctionDef* function = read.statement->function;
  if (function == nullptr) return false;
  const auto calls = [&](std::string_view method) {
    return std::ranges::any_of(function->calls, [&](const Call* call) {
      return call->method == method && call->receiver != nullptr;
    });
  };
  if (!calls("eval") || calls("backward") || calls("train")) return false;
  const auto contexts = facts.contexts(*read.statement);
  return std::ranges::all_of(contexts, &Context::gradients_off);
}

bool is_hot_read(const SourceFacts& facts, const HostRead& read) {
  return read.call != nullptr ? is_hot(facts, *read.call) : is_hot(facts, *read.statement);
}

// Whether each way there is under an option that no default decides.
bool asks_for_option(const SourceFacts& facts, const Statement& statement) {
  const auto contexts = facts.contexts(statement);
  return std::ranges::all_of(contexts, [&](const Context& context) {
    return std::ranges::any_of(context.guards, [&](const Guard& guard) {
      const bool is_open =
          guard.in_loop && guard.kind == GuardKind::option && guard.expr != nullptr;
      if (!is_open || facts.value(guard.expr).known()) return false;
      const Statement* at = guard.expr->statement;
      const std::string text = at == nullptr ? "" : lower(at->file->slice(guard.expr->range));
      return !contains(text, "rank") && !contains(text, "main_process");
    });
  });
}

struct Read {
  HostRead read;
  bool is_hot = false;
  std::vector<HalfWay> ways;  // where one condition leads there
};

using WayKey = std::tuple<const Expr*, const Loop*, bool>;

std::set<WayKey> ways_of(const std::vector<Read>& reads) {
  std::set<WayKey> ways;
  for (const Read& read : reads) {
    for (const HalfWay& way : read.ways) ways.emplace(way.condition, way.loop, way.negated);
  }
  return ways;
}

// `if coin: sequence_loss(x) else: token_loss(x)`: both read, so each pass does.
bool has_opposite(const Read& read, const std::set<WayKey>& ways) {
  return std::ranges::any_of(read.ways, [&](const HalfWay& way) {
    return ways.contains({way.condition, way.loop, !way.negated});
  });
}

struct Group {
  const Statement* place = nullptr;
  std::vector<HostRead> reads;
};

void add_reads_of(const SourceFacts& facts, const File& file, std::vector<Read>& reads) {
  for (const HostRead& read : host_reads(file)) {
    if (feeds_host(read) || is_conversion(facts, read)) continue;
    if (runs_on_host(read.statement->function)) continue;
    Read found{read, is_hot_read(facts, read), {}};
    if (found.is_hot && is_in_evaluation(facts, read)) continue;
    if (!found.is_hot) found.ways = half_ways(facts, *read.statement);
    if (found.is_hot || !found.ways.empty()) reads.push_back(std::move(found));
  }
}

std::vector<Group> groups_of(const SourceFacts& facts, const std::vector<Read>& reads) {
  std::vector<Group> groups;
  const std::set<WayKey> ways = ways_of(reads);
  for (const Read& each : reads) {
    if (!each.is_hot && !has_opposite(each, ways)) continue;
    const Statement* place = place_of_work(*each.read.statement);
    const auto same = std::ranges::find_if(groups, [&](const Group& group) {
      return group.place == place &&
             group.reads.front().statement->file == each.read.statement->file;
    });
    Group& group = same != groups.end() ? *same : groups.emplace_back(Group{place, {}});
    group.reads.push_back(each.read);
  }
  // What each run does comes first.
  for (Group& group : groups) {
    const auto sure = std::ranges::find_if(group.reads, [&](const HostRead& read) {
      return !asks_for_option(facts, *read.statement);
    });
    if (sure != group.reads.end()) std::rotate(group.reads.begin(), sure, sure + 1);
  }
  return groups;
}

std::string others_text(const Group& group) {
  if (group.reads.size() == 1) return "";
  std::string lines;
  for (std::size_t i = 1; i < group.reads.size() && i < 6; ++i) {
    const HostRead& read = group.reads[i];
    lines += fmt::format("{}{}", i == 1 ? "" : ", ",
                         read.statement->file->place(read.expr->range.begin).line);
  }
  const std::string_view plural = group.reads.size() > 2 ? "s" : "";
  return fmt::format("; {} more read{}: line{} {}{}", group.reads.size() - 1, plural, plural, lines,
                     group.reads.size() > 6 ? ", ..." : "");
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Read> reads;
  for (const auto& file : facts.files) {
    if (trains_on_gpu(facts, *file)) add_reads_of(facts, *file, reads);
  }
  std::vector<Finding> findings;
  for (const Group& group : groups_of(facts, reads)) {
    const HostRead& first = group.reads.front();
    const File& file = *first.statement->file;
    Finding finding = finding_at(
        file, first.expr->range.begin, "step",
        fmt::format("`{}` makes the host wait for the GPU in every step{}",
                    code_text(file, first.expr), others_text(group)),
        {"Keep the value on the GPU (add up x.detach()) and read it every 50 steps or so, since "
         "each read empties the queue of launches",
         Exactness::bit_exact});
    finding.evidence = {
        "PyTorch performance tuning guide, Avoid unnecessary CPU-GPU synchronization"};
    findings.push_back(std::move(finding));
  }
  return findings;
}

std::vector<Finding> check(const RuleInput& input) { return check_scripts(input, find); }

}  // namespace sync_every_step

extern const Rule launch_sync_every_step{
    .id = "launch/sync-every-step",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "the host waits for a value of the GPU in each step",
    .doc = sync_every_step::kDoc,
    .check = sync_every_step::check};

}  // namespace rooftile
