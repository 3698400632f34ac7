#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/sample_size.h"
#include "rooftile/analysis/source/step_waits.h"
#include "rooftile/analysis/source/unseen_batches.h"
#include "rooftile/analysis/trace/host_copies.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"
#include "rooftile/rules/trace_finding.h"
#include "rooftile/script/flow/queries.h"
#include "rooftile/script/flow/sources.h"

namespace rooftile {
namespace blocking_copy {

constexpr std::string_view kDoc = R"md(
## What it finds
- In a recording: copies from pinned host memory to the GPU for which the host waits, so that the
  GPU has nothing to do during or after them.
- In a script: a training loop that copies a batch (`.cuda()`, `.to(device)`) without
  `non_blocking=True`, from a loader with `pin_memory=True`.

## Why it costs time
The copy itself could run beside the kernels. Because the host waits for its end, the launches of
the next operators come late.

## How to fix
`.to(device, non_blocking=True)`. To hide the copy too, fetch the next batch on a stream of its own
while the step computes.

## How the saving is estimated
In a recording, the GPU's idle time that follows from the wait, and at the high end also the time in
which the GPU only copies. From a script alone nothing is estimated.

## When not to
- Copies from the device to the host are another matter: with `non_blocking` the values are not
  there yet when the call returns.
- Batches that nothing shows to have some MB: information.
- Steps that read a value of the GPU, as the loss for a log: information. The launch queue is empty
  before the next copy then, and only the launches behind it gain.
- What goes to where another tensor is, `x.to(points.device)`: as a rule it was made there.
- Loaders that are not seen, or not pinned: `input_pipeline/unpinned-batches` tells of those.

## Evidence
- PyTorch tutorial, "A guide on good usage of non_blocking and pin_memory()".
- ML Engineering book (S. Bekman), DataLoader benchmark: 0.522 s with pinned batches, 0.459 s when
  they are also copied with non_blocking.
)md";

Finding describe(const TraceSummary& trace, const HostCopy& upload) {
  const Range<Seconds> idle = gain_of_idle_time(upload.idle);
  Finding finding =
      about_site(trace, upload.site,
                 fmt::format("the host waits for {} to the GPU, and the GPU then idles {}",
                             count_text(trace, window_count(trace, upload.count), "copy"),
                             cost_text(trace, upload.idle)),
                 {"Copy with .to(device, non_blocking=True); the batches are pinned already",
                  Exactness::bit_exact},
                 Range<Seconds>{idle.low, idle.expected, idle.high + upload.exposed});
  finding.count = upload.count;
  finding.evidence = {Evidence::measured(
      fmt::format("the host is blocked for {}; the GPU copies alone for {} and idles for {}",
                  time_text(upload.blocked), time_text(upload.exposed), time_text(upload.idle)))};
  return finding;
}

std::vector<TraceCase> judge(const TraceSummary& trace) {
  std::vector<TraceCase> cases;
  for (const HostCopy& upload : uploads(trace)) {
    if (upload.pageable || !is_visible(trace, upload.idle)) continue;
    cases.push_back({upload.site.op + place_text(upload.site), describe(trace, upload)});
  }
  return cases;
}

bool is_pinned(const source::SourceFacts& facts, const source::Call& loader) {
  const source::Value pinned = facts.argument(loader, "pin_memory", 7);
  return source::is_set_by_default(pinned);
}

using script::SourceStep;

// What the receiver is made from was copied above: `x = x.cuda()`, then `x.float().to(device)`.
bool is_there_already(const source::SourceFacts& facts, const source::Expr* value) {
  return value != nullptr && script::find_source(facts, *value, [&](const source::Expr& part) {
           if (part.call() != nullptr) {
             const bool copies = source::copies_to_device(facts, *part.call());
             return copies ? SourceStep::found : SourceStep::receiver;
           }
           const bool is_passed = part.statement->function != value->statement->function;
           return is_passed ? SourceStep::stop : SourceStep::go_on;
         });
}

// `torch.zeros(n)`, `torch.ones(n) * weight`; tokenizer(texts, return_tensors="pt"): new tensors,
// none of which the loader has pinned.
bool is_new(const source::SourceFacts& facts, const source::Expr& value) {
  return script::find_source(facts, value, [](const source::Expr& part) {
    const source::Call* call = part.call();
    if (call == nullptr) {
      const bool is_followed =
          part.kind == source::ExprKind::name || part.kind == source::ExprKind::binary;
      return is_followed ? SourceStep::go_on : SourceStep::stop;
    }
    const bool is_made = is_one_of(call->name, {"torch.zeros", "torch.ones", "torch.full",
                                                "torch.empty", "torch.arange", "torch.stack",
                                                "torch.cat", "torch.lerp", "torch.where"}) ||
                         call->name.starts_with("torch.nn.functional.") ||
                         (call->target == nullptr &&
                          contains_any(lower(call->method), {"token", "processor", "encode"}));
    if (is_made) return SourceStep::found;
    return call->target == nullptr ? SourceStep::stop : SourceStep::go_on;
  });
}

// What arithmetic or an own function computes is new as well, or on the GPU.
bool is_computed(const source::SourceFacts& facts, const source::Expr& value) {
  const source::Expr* written = &script::written(facts, value);
  const source::Call* made = written->call();
  // (points / interval).to(torch.int64)
  while (written->call() != nullptr && written->call()->receiver != nullptr) {
    written = written->call()->receiver;
  }
  if (written->kind == source::ExprKind::binary) return true;
  if (made == nullptr || made->target == nullptr) return false;
  const source::Type& given = *made->target->returns;
  return given.is(source::TypeKind::tensor) && given.residence != source::Residence::host;
}

// `x.to(points.device)`, `device = points.device`: beside a tensor that is there already, and so as
// a rule is what the function makes of it; no batch of a loader.
bool follows_tensor(const source::Call& copy) {
  const source::Argument* given = copy.argument("device", 0);
  const source::Expr* device = given == nullptr ? nullptr : source::resolved(given->value);
  const bool asks = copy.method == "to" && device != nullptr &&
                    device->kind == source::ExprKind::attribute && device->word() == "device" &&
                    device->children().front()->kind == source::ExprKind::name;
  if (!asks) return false;
  const source::Expr& owner = *device->children().front();
  return !owner.type->is(source::TypeKind::module) &&
         !owner.type->is(source::TypeKind::accelerator) &&
         !contains_any(lower(owner.word()), {"self", "model", "net", "arg", "cfg", "conf", "opt",
                                             "accelerator", "trainer", "param"});
}

bool is_blocking(const source::SourceFacts& facts, const source::Call& copy) {
  if (!source::copies_to_device(facts, copy) || copy.unknown_arguments) return false;
  if (follows_tensor(copy)) return false;
  const source::Expr& copied = *copy.receiver;
  const bool is_no_batch =
      is_there_already(facts, &copied) || is_new(facts, copied) || is_computed(facts, copied);
  if (is_no_batch) return false;
  for (const std::string_view name : {"non_blocking", "async"}) {
    if (!facts.argument(copy, name).absent() && !facts.argument(copy, name).is_false())
      return false;
  }
  return copy.method != "cuda" || copy.arguments.size() < 2;
}

// Made for other than training: in the else of `if train`.
bool is_for_others(const source::SourceFacts& facts, const source::Call& loader) {
  if (source::is_for_evaluation(facts, loader)) return true;
  for (const source::Statement* each = loader.statement; each != nullptr; each = each->parent) {
    const source::Statement* test = each->parent;
    if (test == nullptr || test->kind != source::StatementKind::if_) continue;
    const bool is_else = test->body.data() != each->block.data();
    if (is_else && contains(source::last_name(test->value), "train")) return true;
  }
  return false;
}

using Loaders = std::vector<const source::Call*>;

// Those that training steps may read.
Loaders loaders_of_steps(const source::SourceFacts& facts) {
  Loaders loaders = source::training_loaders(facts);
  std::erase_if(loaders, [&](const source::Call* one) { return is_for_others(facts, *one); });
  return loaders;
}

// Of a batch whose loader is not seen: one of the program, where all that are made for training are
// pinned.
const source::Call* unseen_loader(const source::SourceFacts& facts, const Loaders& loaders,
                                  const source::Call& copy, const source::Expr* value) {
  if (!source::is_unseen_batch(facts, value)) return nullptr;
  const source::Call* found = nullptr;
  const auto programs = source::training_programs_of(facts, *copy.file);
  for (const source::Call* loader : loaders) {
    const bool is_other = std::ranges::none_of(
        programs, [&](const source::Program* program) { return program->has(*loader->file); });
    if (is_other) continue;
    if (!is_pinned(facts, *loader)) return nullptr;
    found = found == nullptr ? loader : found;
  }
  return found;
}

// `def make_variable(x): x = x.cuda(); return Variable(x)`: a call of it may give the copy itself.
bool gives(const source::SourceFacts& facts, const source::Call& call, const source::Call& copy) {
  const auto origins = script::origins(facts, *call.expr);
  return std::ranges::find(origins, copy.expr) != origins.end();
}

// `make_variable(data)`: the argument that an own function copies and gives back.
const source::Expr* handed_to_copy(const source::SourceFacts& facts, const source::Call& call) {
  const source::FunctionDef* function = call.target;
  if (function == nullptr || call.name == "torch.nn.Module.__call__") return nullptr;
  for (const source::Call* inner : function->calls) {
    const source::Expr* copied = inner->receiver;
    if (copied == nullptr || copied->kind != source::ExprKind::name) continue;
    if (!is_blocking(facts, *inner) || !gives(facts, call, *inner)) continue;
    if (!source::is_reached_by_default(facts, *inner)) continue;
    const source::Argument* given = source::passed_argument(call, *function, copied->word());
    if (given != nullptr && !is_there_already(facts, given->value)) return given->value;
  }
  return nullptr;
}

// In a helper that gives back what it copies: its callers are told.
bool is_inside_helper(const source::SourceFacts& facts, const source::Call& copy) {
  return copy.function != nullptr && copy.receiver != nullptr &&
         copy.receiver->kind == source::ExprKind::name &&
         std::ranges::any_of(copy.function->callers, [&](const source::Call* caller) {
           return gives(facts, *caller, copy);
         });
}

// What the call copies to the GPU while the host waits; null for other calls.
const source::Expr* copied_value(const source::SourceFacts& facts, const source::Call& call) {
  if (!is_blocking(facts, call)) return handed_to_copy(facts, call);
  return is_inside_helper(facts, call) ? nullptr : call.receiver;
}

// `for batch in loader:`, `for i, batch in enumerate(loader):`: the whole of what the loader gives.
bool is_whole_batch(const source::Expr& value) {
  const source::Statement* loop = value.kind == source::ExprKind::name ? value.binding() : nullptr;
  if (loop == nullptr || loop->kind != source::StatementKind::for_) return false;
  const source::Expr* target = loop->target;
  const source::Expr* over = loop->value;
  while (over->call() != nullptr && over->call()->target == nullptr &&
         over->call()->name != "enumerate" && !over->call()->arguments.empty()) {
    over = over->call()->arguments.front().value;
  }
  const bool counts = over->call() != nullptr && target->kind == source::ExprKind::tuple &&
                      target->children().size() == 2;
  if (counts) target = target->children()[1];
  return target->kind == source::ExprKind::name && target->word() == value.word();
}

// A tensor, whose `to` takes non_blocking: by its type, or a part of what PyTorch's own collate
// function puts together.
bool is_surely_tensor(const source::Expr& value, const source::Call& loader) {
  if (value.type->is(source::TypeKind::tensor)) return !value.type->guessed;
  const source::Statement* set = value.kind == source::ExprKind::name ? value.binding() : nullptr;
  const bool is_taken_out =  // `for x, y in loader`, `x, y = batch`, `x = batch["x"]`
      set != nullptr && !is_whole_batch(value) &&
      (set->kind == source::StatementKind::for_ ||
       (set->value != nullptr && (set->value->kind == source::ExprKind::name ||
                                  set->value->kind == source::ExprKind::subscript)));
  const bool is_part = value.kind == source::ExprKind::subscript || is_taken_out;
  return is_part && value.type->class_def == nullptr && loader.argument("collate_fn", 6) == nullptr;
}

Finding finding_for(const source::Call& copy, const source::Call& loader) {
  Fix fix{"Copy with non_blocking=True: the loader pins its batches, so the host can go on",
          Exactness::bit_exact};
  const bool is_tensor = copy.receiver != nullptr && is_surely_tensor(*copy.receiver, loader);
  if (copy.target == nullptr && is_tensor)
    add_edit(source::add_argument(copy, "non_blocking", "True"), fix);
  fix.safe = !fix.edits.empty();
  Finding finding = finding_at(
      copy,
      fmt::format("the host waits while {} is copied to the GPU",
                  copy.target == nullptr ? "`" + receiver_text(copy) + "`" : "the batch"),
      std::move(fix));
  finding.own_level = Level::advice;
  finding.evidence = {
      Evidence::found(
          fmt::format("its loader at {} has pin_memory", place_text(loader, *copy.file))),
      Evidence::published(
          "PyTorch tutorial, A guide on good usage of non_blocking and pin_memory()")};
  return finding;
}

// The pinned loader whose batches the copy in a step loop moves; null where there is none.
const source::Call* pinned_loader_of(const source::SourceFacts& facts, const Loaders& loaders,
                                     const source::Call& copy) {
  const source::Expr* value = copied_value(facts, copy);
  if (value == nullptr) return nullptr;
  if (!source::is_in_step_loop(facts, copy)) return nullptr;
  const source::Call* loader = source::loader_of(facts, value);
  // An own class around the loader is not it.
  const bool is_wrapper = loader != nullptr && !source::is_torch_loader(*loader) &&
                          loader->argument("pin_memory") == nullptr;
  if (loader == nullptr || is_wrapper) loader = unseen_loader(facts, loaders, copy, value);
  return loader != nullptr && is_pinned(facts, *loader) ? loader : nullptr;
}

// "; 2 more copies: lines 61, 62"
std::string others_text(const std::vector<const source::Call*>& copies) {
  constexpr std::size_t kMostNamed = 6;
  if (copies.size() < 2) return "";
  std::string lines;
  for (std::size_t i = 1; i < std::min(copies.size(), kMostNamed); ++i) {
    const source::Call& copy = *copies[i];
    lines += fmt::format("{}{}", i == 1 ? "" : ", ", copy.file->place(copy.expr->range.begin).line);
  }
  return fmt::format("; {} more {}: {} {}{}", copies.size() - 1,
                     copies.size() == 2 ? "copy" : "copies", copies.size() == 2 ? "line" : "lines",
                     lines, copies.size() > kMostNamed ? ", ..." : "");
}

// The GPU has nothing to do then but the copy; only the launches behind it gain.
bool follows_wait(const source::SourceFacts& facts, const source::Call& copy) {
  const auto loops = source::step_loops_of(facts, *copy.statement);
  return !loops.empty() && std::ranges::all_of(loops, [&](const source::Loop* loop) {
    return source::empties_queue(facts, *loop);
  });
}

// One finding for each loop, with the edits of all its copies.
void check_script(const source::SourceFacts& facts, std::vector<Finding>& findings) {
  const Loaders loaders = loaders_of_steps(facts);
  std::vector<std::vector<const source::Call*>> copies;  // of each finding
  for (const auto& file : facts.files) {
    if (!source::trains_on_gpu(facts, *file)) continue;
    std::unordered_map<const source::Statement*, std::size_t> places;
    for (const source::Call* copy : file->calls) {
      const source::Call* loader = pinned_loader_of(facts, loaders, *copy);
      if (loader == nullptr) continue;
      if (source::is_taken_over(facts, *file)) break;
      Finding finding = finding_for(*copy, *loader);
      const auto [place, added] =
          places.try_emplace(source::place_of_work(*copy->statement), findings.size());
      if (added) {
        add_step(facts, *copy->statement, finding);
        if (follows_wait(facts, *copy)) {
          finding.own_level = Level::info;
          finding.evidence.push_back(Evidence::found(
              "a value read in each step empties the launch queue before the copy"));
        } else if (!source::has_large_samples(facts, *loader)) {
          finding.own_level = Level::info;
          finding.evidence.push_back(
              Evidence::to_check("nothing here says that a batch is larger than some MB"));
        }
        findings.push_back(std::move(finding));
        copies.push_back({copy});
        continue;
      }
      copies[place->second].push_back(copy);
      // All copies of the loop are changed, or a person does it: one that stays would still wait.
      Fix& fix = findings[place->second].fix;
      if (fix.edits.empty() || finding.fix.edits.empty()) {
        fix.edits.clear();
        fix.safe = false;
        continue;
      }
      fix.edits.insert(fix.edits.end(), finding.fix.edits.begin(), finding.fix.edits.end());
    }
  }
  for (std::size_t i = 0; i < findings.size(); ++i) findings[i].message += others_text(copies[i]);
}

std::vector<Finding> check_traces(const RuleInput& input) {
  return judge_ranks(input.workload.traces, judge);
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  check_script(facts, findings);
  return findings;
}

}  // namespace blocking_copy

extern const Rule input_pipeline_blocking_copy{.id = "input_pipeline/blocking-copy",
                                               .level = Level::warning,
                                               .cause = Cause::none,
                                               .summary = "Copies to the GPU block the host",
                                               .doc = blocking_copy::kDoc,
                                               .in_traces = blocking_copy::check_traces,
                                               .in_scripts = blocking_copy::find};

}  // namespace rooftile
