#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "rooftile/analysis/source/host_consumers.h"
#include "rooftile/analysis/source/host_reads.h"
#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/step_waits.h"
#include "rooftile/analysis/source/value_uses.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"
#include "rooftile/script/flow/sources.h"
#include "rooftile/script/reach/sure.h"
#include "rooftile/script/reach/ways_up.h"

namespace rooftile {

namespace launch_sync_every_step_in_trace {
std::vector<Finding> check(std::span<const TraceSummary> ranks);
}

namespace sync_every_step {

constexpr std::string_view kDoc = R"md(
## What it finds
In a script: a value of the GPU that the host reads on each training step: `.item()`, `float(t)`, `.cpu()`,
`.numpy()`, `.tolist()`, printing or formatting a tensor, `if`, `while` or `assert` on its value,
`loss.data[0]`, a tensor given to `add_scalar` or `wandb.log`. Code that the loop calls, `forward`
included, counts.

In a trace: places in the program where the host waits for the GPU and the GPU then has nothing to do. Besides
such reads: `nonzero`, indexing with a mask, `torch.cuda.synchronize()`. Other rules report copies to the GPU.

## Why it costs time
The host normally runs ahead and queues kernels. A read waits until the GPU has finished all of
them; the queue is then empty, and the GPU idles until the next launches arrive.

## How to fix
Keep the value on the device: `total += loss.detach()`, and read it every so many steps (`if step
% 50 == 0`). `torch.where` in place of an `if` or of indexing with a mask; a fixed size instead of `nonzero`;
lengths that the host needs can stay on the host; copies to the host with `non_blocking=True` into pinned
memory and an event. Remove `synchronize()` outside of timing. In a program without PyTorch:
`cudaMemcpyAsync` with pinned memory, events instead of waits for the device.

## How the saving is estimated
From a trace: only the GPU's idle time that follows from the wait; waiting while the GPU has work costs
nothing. The low end is half of it, because the next thing that holds the host up may take over. From a script
alone nothing is estimated.

## When not to
- One read at the end of a step, as of the loss for a log, and reads beside a wait that stays: a gradient
  scaler's, one for a value that Python needs, a list that goes to the GPU. So are several in
  the middle of a step. These are information. Advice are reads in a loop of the step, and batches that are
  copied to the host and back.
- A size, an index of a list, a schedule, what stops the loop or keeps weights: Python has to know these, and
  the finding is information.
- Reads under a guard of ten steps or more, at the end of an epoch, in evaluation, for a checkpoint or a
  benchmark, or under an option that is off.
- In a trace without steps: fewer than ten waits for all of the device, with which a program times its passes.
- Values that the host needs in each step by nature: actions for an environment, input of a
  matching or of NMS on the CPU.
- NumPy values, sizes and shapes are no reads.
- fp16 training with a gradient scaler reads one flag in each step. Fused optimizers take the flag
  on the device.

## Evidence
- PyTorch performance tuning guide, "Avoid unnecessary CPU-GPU synchronization".
)md";

using namespace source;

// A network that the function gets or calls, or a loop over batches: not figures of one prediction,
// `result.evaluate(scores, labels)`.
bool has_network(const FunctionDef& function) {
  const bool gets = std::ranges::any_of(function.parameters, [](const Parameter& parameter) {
    return contains_any(lower(parameter.name), {"model", "net", "module", "loader", "encoder",
                                                "generator", "policy", "agent", "trainer"});
  });
  return gets || any_call_below(function, kMaxCallDepth, [](const Call& call) {
           return call.name == "torch.nn.Module.__call__" ||
                  call.receiver_type().is(TypeKind::module) ||
                  is_one_of(call.method, {"eval", "forward", "model", "net"});
         });
}

// `def validate_step(model, x): model.eval(); with torch.no_grad(): …`, `def evaluate(…)`, which a
// loop over the whole graph calls in each pass.
bool is_in_evaluation(const SourceFacts& facts, const HostRead& read) {
  const FunctionDef* function = read.statement->function;
  if (function == nullptr) return false;
  const auto calls = [&](std::string_view method) {
    return std::ranges::any_of(function->calls, [&](const Call* call) {
      return call->method == method && call->receiver != nullptr;
    });
  };
  const bool is_evaluation = calls("eval") && !calls("backward") && !calls("train");
  const bool is_named = is_named_evaluation(*function) && has_network(*function);
  if (!is_evaluation && !is_named) return false;
  return without_gradients(facts, *read.statement);
}

bool is_hot_read(const SourceFacts& facts, const HostRead& read) {
  return read.call != nullptr ? is_hot(facts, *read.call) : is_hot(facts, *read.statement);
}

// Whether each way there is under an option that no default decides, or taken every few steps.
bool asks_for_option(const SourceFacts& facts, const Statement& statement) {
  return !leads_from_step(facts, statement, [&](const Guard& guard) {
    if (guard.kind == GuardKind::every_n && !guard.negated) return true;
    const bool is_open = guard.kind == GuardKind::option && guard.expr != nullptr;
    if (!is_open || facts.value(guard.expr).known()) return false;
    const Statement* at = guard.expr->statement;
    const std::string text = at == nullptr ? "" : lower(at->file->slice(guard.expr->range));
    return !contains(text, "rank") && !contains(text, "main_process");
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
  for (const HostRead& read : host_reads(facts, file)) {
    if (feeds_host(read) || is_conversion(facts, read)) continue;
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

// `lengths = mask.sum(1).cpu()`, and then `pack_padded_sequence(x, lengths)`.
template <class Takes>
bool feeds_later(const Expr& read, const Takes& takes) {
  const Statement* set = read.statement;
  const bool is_kept = set != nullptr && set->kind == StatementKind::assignment &&
                       set->target->kind == ExprKind::name;
  if (!is_kept) return false;
  return std::ranges::any_of(after(*set), [&](const Statement* later) {
    return std::ranges::any_of(calls_inside(*later), [&](const Call* call) {
      return takes(call) && std::ranges::any_of(call->arguments, [&](const Argument& argument) {
               return uses_variable(argument.value, set->target->word());
             });
    });
  });
}

// A bound of a slice, or an argument of what wants sizes: range(n), x.split(lengths.tolist()).
bool gives_size(const Expr& read) {
  constexpr std::string_view kTakers[] = {
      "range", "split", "zeros", "ones",   "empty",
      "full",  "view",  "pad",   "expand", "pack_padded_sequence"};
  const auto takes = [&](const Call* call) {
    return call != nullptr && std::ranges::find(kTakers, call->method) != std::end(kTakers);
  };
  if (takes(read.call()) || feeds_later(read, takes)) return true;
  for (const Expr* at = &read; at->parent != nullptr; at = at->parent) {
    if (at->parent->kind == ExprKind::slice || takes(at->parent->call())) return true;
    const bool is_wrapped = at->parent->call() != nullptr && at->parent->call()->method == "int";
    if (!is_wrapped) return false;
  }
  return false;
}

// `counts[int(t * 10)]` of a dictionary, in which no tensor can be looked up.
bool is_dictionary(const SourceFacts& facts, const Expr& holder) {
  return std::ranges::any_of(script::origins(facts, holder), [](const Expr* origin) {
    return origin->kind == ExprKind::dict ||
           (origin->kind == ExprKind::comprehension &&
            origin->statement->file->slice(origin->range).starts_with('{'));
  });
}

// `ids = target.cpu()`, and then `one_hot.scatter_(1, ids, 1).to(device)`.
bool goes_back(const SourceFacts& facts, const HostRead& read) {
  const FunctionDef* function = read.statement->function;
  if (read.call == nullptr || read.call->method != "cpu") return false;
  const auto& calls = function == nullptr ? read.statement->file->calls : function->calls;
  return std::ranges::any_of(calls, [&](const Call* copy) {
    if (!copies_to_device(facts, *copy)) return false;
    return script::find_source(facts, *copy->receiver, [&](const Expr& part) {
      return &part == read.expr ? script::SourceStep::found : script::SourceStep::go_on;
    });
  });
}

// The variable that keeps what is read, `start = int(self.pointer)`; empty without one.
std::string_view kept_as(const HostRead& read) {
  const Statement& set = *read.statement;
  const bool is_kept = set.kind == StatementKind::assignment &&
                       set.target->kind == ExprKind::name && set.word == "=";
  return is_kept ? set.target->word() : std::string_view();
}

bool is_product_with_tensor(const Expr& value) {
  const Expr* outer = value.parent;
  while (outer != nullptr && outer->call() != nullptr && outer->call()->receiver == nullptr &&
         is_one_of(outer->call()->method, {"max", "min", "float", "abs"})) {
    outer = outer->parent;
  }
  return outer != nullptr && outer->kind == ExprKind::binary &&
         std::ranges::any_of(outer->children(), [](const Expr* side) {
           return side->type->is(TypeKind::tensor) && side->type->on_gpu();
         });
}

// `loss / mask.sum().item()`, or by a variable: the step goes on with the number, on the GPU.
bool goes_on_with_tensors(const HostRead& read) {
  if (is_product_with_tensor(*read.expr)) return true;
  const std::string_view variable = kept_as(read);
  if (variable.empty()) return false;
  return std::ranges::any_of(after(*read.statement), [&](const Statement* later) {
    return any_part(*later, [&](const Expr& part) {
      return part.kind == ExprKind::name && part.word() == variable && is_product_with_tensor(part);
    });
  });
}

// `start = int(self.pointer)` of a buffer that counts, and then `self.queue[start:end]`.
bool is_pointer(const HostRead& read) {
  const std::string_view variable = kept_as(read);
  const Expr* value = read.expr;
  while (value->call() != nullptr) {
    const Call& call = *value->call();
    if (call.receiver == nullptr && call.arguments.size() != 1) return false;
    value = call.receiver != nullptr ? call.receiver : call.arguments.front().value;
  }
  const bool is_member =
      value->kind == ExprKind::attribute && value->children().front()->word() == "self";
  if (variable.empty() || !is_member) return false;
  return std::ranges::any_of(after(*read.statement), [&](const Statement* later) {
    const bool found = any_part(*later, [&](const Expr& part) {
      return part.kind == ExprKind::slice && uses_variable(&part, variable);
    });
    return found || (later->target != nullptr && later->target->kind == ExprKind::subscript &&
                     uses_variable(later->target->children()[1], variable));
  });
}

// "loss" of loss.item() and float(loss), which the log can keep as it is; empty where it has no
// short name.
std::string value_name(const HostRead& read) {
  const Expr* value = read.expr;
  while (value->call() != nullptr) {
    const Call& call = *value->call();
    const bool reads = call.receiver != nullptr && call.arguments.empty() &&
                       is_one_of(call.method, {"item", "cpu", "numpy", "tolist", "detach"});
    const bool converts = call.receiver == nullptr && call.arguments.size() == 1 &&
                          is_one_of(call.name, {"float", "int", "str"});
    if (!reads && !converts) return {};
    value = reads ? call.receiver : call.arguments.front().value;
  }
  bool is_named = value->kind == ExprKind::name || value->kind == ExprKind::attribute;
  visit(value, [&](const Expr& part) { return is_named = is_named && part.call() == nullptr; });
  return is_named ? code_text(*read.statement->file, value) : std::string();
}

bool has_copy(const HostRead& read) {
  return read.call != nullptr && is_one_of(read.call->method, {"cpu", "numpy", "tolist"});
}

bool has_use(const std::vector<ValueUse>& uses, UseKind kind) {
  return std::ranges::find(uses, kind, &ValueUse::kind) != uses.end();
}

// `index[x.item()]`: what the value is looked up in, at the first such use.
std::string index_remedy(const SourceFacts& facts, const std::vector<ValueUse>& uses) {
  const auto use = std::ranges::find(uses, UseKind::index, &ValueUse::kind);
  const Expr& subscript = *use->expr->parent;
  if (is_dictionary(facts, *subscript.children().front())) {
    return "Read all values of the batch at once, with one .tolist(): a dictionary takes no tensor "
           "as a key";
  }
  return "Index with the tensor itself, or let the host draw the number";
}

// What to do instead depends on what the host does with the value.
std::string remedy_for(const SourceFacts& facts, const HostRead& read) {
  const std::vector<ValueUse> uses = uses_of(facts, read);
  if (goes_back(facts, read)) {
    return "Compute it on the GPU: what is made of the value is copied back there";
  }
  if (is_pointer(read)) {
    return "Count in a number of Python beside the buffer: what the program itself counts needs no "
           "read";
  }
  if (goes_on_with_tensors(read)) {
    return "Keep it a tensor (clamp(min=1) for max(1, n)): the step goes on with it on the GPU";
  }
  if (has_use(uses, UseKind::size) || gives_size(*read.expr)) {
    return "Take the number on the host before the batch is moved, as in the collate function: a "
           "size cannot stay on the GPU";
  }
  if (has_use(uses, UseKind::index)) return index_remedy(facts, uses);
  if (has_use(uses, UseKind::decision)) {
    return "Decide on the GPU where both sides only compute (torch.where); what stops the loop, "
           "keeps weights or calls other code has to be read, at best less often";
  }
  if (has_use(uses, UseKind::host)) {
    const auto use = std::ranges::find(uses, UseKind::host, &ValueUse::kind);
    return fmt::format(
        "Compute it with tensors on the GPU, where that can do what {} does on the "
        "host",
        use->call->method);
  }
  if (has_use(uses, UseKind::unknown)) {
    return "Read it only in the steps that need the number";
  }
  if (has_use(uses, UseKind::tensors)) {
    return "Keep it a tensor: the step goes on with it on the GPU";
  }
  if (has_use(uses, UseKind::check)) {
    return "Check every ~50 steps, or only while debugging";
  }
  const bool is_collected = std::ranges::any_of(uses, [](const ValueUse& use) {
    const Call* call = use.expr->parent == nullptr ? nullptr : use.expr->parent->call();
    return call != nullptr && is_one_of(call->method, {"append", "extend"});
  });
  if (has_copy(read) && is_collected) {
    return "Keep the tensors on the GPU in the list (detach()), and copy them once, where they are "
           "used";
  }
  if (has_copy(read)) {
    return "Compute on the GPU what is logged of it, and read the result every ~50 steps";
  }
  const std::string name = value_name(read);
  return fmt::format("Add {} up on the GPU, and read it every ~50 steps",
                     name.empty() ? "the value" : name + ".detach()");
}

// A read that the step could do without, in a loop of it that then waits no more, or of what is
// copied back: the host need not wait there at all.
bool is_needless(const SourceFacts& facts, const HostRead& read) {
  if (!can_do_without(facts, read)) return false;
  if (goes_back(facts, read) && is_sure_to_run(facts, *read.statement)) return true;
  const Statement* loop = loop_in_step(facts, *read.statement, read.expr);
  return loop != nullptr &&
         std::ranges::none_of(host_reads(facts, *loop->file), [&](const HostRead& other) {
           return is_within(*other.statement, *loop) && !can_do_without(facts, other);
         });
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Read> reads;
  for (const auto& file : facts.files) {
    if (trains_on_gpu(facts, *file)) add_reads_of(facts, *file, reads);
  }
  std::vector<Finding> findings;
  for (Group& group : groups_of(facts, reads)) {
    const auto needless = std::ranges::find_if(
        group.reads, [&](const HostRead& read) { return is_needless(facts, read); });
    const bool costs = needless != group.reads.end();
    if (costs) std::rotate(group.reads.begin(), needless, needless + 1);
    const HostRead& first = group.reads.front();
    const File& file = *first.statement->file;
    const bool repeats = costs && loop_in_step(facts, *first.statement, first.expr) != nullptr;
    Finding finding = finding_at(
        file, first.expr->range.begin, "step",
        fmt::format("`{}` makes the host wait for the GPU {}{}", code_text(file, first.expr),
                    repeats ? "several times in every step" : "in every step", others_text(group)),
        {remedy_for(facts, first) + "; each read empties the launch queue", Exactness::bit_exact});
    finding.evidence = {Evidence::published(
        "PyTorch performance tuning guide, Avoid unnecessary CPU-GPU synchronization")};
    add_step(facts, *first.statement, finding);
    if (!costs) {
      finding.own_level = Level::info;
      finding.evidence.push_back(
          Evidence::found("one wait in a step, or one beside others that stay, costs little"));
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace sync_every_step

extern const Rule launch_sync_every_step{
    .id = "launch/sync-every-step",
    .former_id = "launch/sync-in-step",
    .level = Level::advice,
    .level_in_traces = Level::warning,
    .cause = Cause::none,
    .typical = Typical::tenth,
    .summary = "Host waits for a GPU value every step (forces a sync)",
    .doc = sync_every_step::kDoc,
    .in_any_trace = launch_sync_every_step_in_trace::check,
    .in_scripts = sync_every_step::find};

}  // namespace rooftile
