#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/unseen_batches.h"
#include "rooftile/analysis/trace/uploads.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"
#include "rooftile/rules/trace_finding.h"

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
- Loaders that are not seen, or not pinned: `input_pipeline/unpinned-batches` tells of those.

## Evidence
- PyTorch tutorial, "A guide on good usage of non_blocking and pin_memory()".
- ML Engineering book (S. Bekman), DataLoader benchmark: 0.522 s with pinned batches, 0.459 s when
  they are also copied with non_blocking.
)md";

Finding describe(const TraceSummary& trace, const Upload& upload) {
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
  finding.evidence = {fmt::format(
      "measured: the host is blocked for {}; the GPU copies alone for {} and idles for {}",
      duration_text(upload.blocked), duration_text(upload.exposed), duration_text(upload.idle))};
  return finding;
}

std::vector<TraceCase> judge(const TraceSummary& trace) {
  std::vector<TraceCase> cases;
  for (const Upload& upload : uploads(trace)) {
    if (upload.pageable || !is_visible(trace, upload.idle)) continue;
    cases.push_back({upload.site.op + place_text(upload.site), describe(trace, upload)});
  }
  return cases;
}

bool is_pinned(const source::SourceFacts& facts, const source::Call& loader) {
  const source::Value pinned = facts.argument(loader, "pin_memory", 7);
  return source::is_set_by_default(pinned);
}

// What the receiver is made from was copied above: `x = x.cuda()`, then `x.float().to(device)`.
bool is_there_already(const source::SourceFacts& facts, const source::Expr* value, int depth = 0) {
  constexpr int kMaxDepth = 6;
  value = source::resolved(value);
  if (value == nullptr || depth > kMaxDepth) return false;
  if (value->kind == source::ExprKind::binary || value->kind == source::ExprKind::subscript) {
    return is_there_already(facts, value->children().front(), depth + 1);
  }
  if (value->call() == nullptr) return false;
  if (source::copies_to_device(facts, *value->call())) return true;
  return is_there_already(facts, value->call()->receiver, depth + 1);
}

// `torch.zeros(n)`, `torch.ones(n) * weight`
bool is_filled(const source::Expr* value, int depth = 0) {
  constexpr int kMaxDepth = 4;
  const source::Expr* made = source::resolved(value);
  if (made->kind == source::ExprKind::binary && depth < kMaxDepth) {
    return std::ranges::any_of(made->children(),
                               [&](const auto* side) { return is_filled(side, depth + 1); });
  }
  return made->call() != nullptr &&
         is_one_of(made->call()->name,
                   {"torch.zeros", "torch.ones", "torch.full", "torch.empty", "torch.arange"});
}

// The name, unpacked from what an own function returns, stands there for a tensor that it makes:
// `mask = torch.zeros(n)`.
bool is_made_by_callee(const source::Expr& name) {
  const source::Statement* binding = name.kind == source::ExprKind::name ? name.binding() : nullptr;
  const source::Expr* target = binding == nullptr ? nullptr : binding->target;
  const source::Call* call =
      binding == nullptr || binding->value == nullptr ? nullptr : binding->value->call();
  if (call == nullptr || call->target == nullptr || target == nullptr) return false;
  if (target->kind != source::ExprKind::tuple) return false;
  std::size_t place = 0;
  while (place < target->children().size() && target->children()[place]->word() != name.word())
    ++place;
  bool is_made = false;
  source::for_statements(call->target->body, [&](const source::Statement& statement) {
    const source::Expr* given =
        statement.kind == source::StatementKind::return_ ? statement.value : nullptr;
    const bool is_tuple = given != nullptr && given->kind == source::ExprKind::tuple &&
                          given->children().size() == target->children().size();
    if (!is_tuple || place >= given->children().size()) return;
    is_made = is_made || is_filled(given->children()[place]);
  });
  return is_made;
}

// tokenizer(texts, return_tensors="pt"): new tensors, none of which the loader has pinned.
bool is_encoded(const source::Expr* value) {
  const source::Expr* made = source::resolved(value);
  if (made == nullptr) return false;
  if (made->call() == nullptr) return is_made_by_callee(*made);
  // What an own function computes is new as well, or on the GPU.
  if (made->call()->target != nullptr) {
    const source::Type& given = *made->call()->target->returns;
    return given.is(source::TypeKind::tensor) && given.residence != source::Residence::host;
  }
  return contains_any(lower(made->call()->method), {"token", "processor", "encode"});
}

bool is_blocking(const source::SourceFacts& facts, const source::Call& copy) {
  if (!source::copies_to_device(facts, copy) || copy.unknown_arguments) return false;
  if (is_there_already(facts, copy.receiver) || is_encoded(copy.receiver)) return false;
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
    if (test == nullptr || test->kind != source::StatementKind::if_ || test->value == nullptr) {
      continue;
    }
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

// `x`, `x.cuda()`, `Variable(x)`: what was copied, and nothing made of it.
bool is_copied_alone(const source::Expr* value, std::string_view name) {
  while (value != nullptr && value->call() != nullptr) {
    const source::Call& call = *value->call();
    if (call.target != nullptr) return false;
    const bool is_wrapped = call.method == "Variable" && !call.arguments.empty();
    value = is_wrapped ? call.arguments.front().value : call.receiver;
  }
  return value != nullptr && value->kind == source::ExprKind::name && value->word() == name;
}

// `def make_variable(x): x = x.cuda(); return Variable(x)`
bool returns_copy(const source::FunctionDef& function, std::string_view name) {
  bool returns = false;
  source::for_statements(function.body, [&](const source::Statement& statement) {
    returns = returns || (statement.kind == source::StatementKind::return_ &&
                          is_copied_alone(statement.value, name));
  });
  return returns;
}

// `make_variable(data)`: the argument that an own function copies and gives back.
const source::Expr* handed_to_copy(const source::SourceFacts& facts, const source::Call& call) {
  const source::FunctionDef* function = call.target;
  if (function == nullptr || call.name == "torch.nn.Module.__call__") return nullptr;
  for (const source::Call* inner : function->calls) {
    const source::Expr* copied = inner->receiver;
    if (copied == nullptr || copied->kind != source::ExprKind::name) continue;
    if (!is_blocking(facts, *inner) || !returns_copy(*function, copied->word())) continue;
    if (!source::is_reached_by_default(facts, *inner)) continue;
    const source::Argument* given = source::passed_argument(call, *function, copied->word());
    if (given != nullptr && !is_there_already(facts, given->value)) return given->value;
  }
  return nullptr;
}

// In a helper that gives back what it copies: its callers are told.
bool is_inside_helper(const source::Call& copy) {
  return copy.function != nullptr && !copy.function->callers.empty() && copy.receiver != nullptr &&
         copy.receiver->kind == source::ExprKind::name &&
         returns_copy(*copy.function, copy.receiver->word());
}

// What the call copies to the GPU while the host waits; null for other calls.
const source::Expr* copied_value(const source::SourceFacts& facts, const source::Call& call) {
  if (!is_blocking(facts, call)) return handed_to_copy(facts, call);
  return is_inside_helper(call) ? nullptr : call.receiver;
}

// `for batch in loader:`, `for i, batch in enumerate(loader):`: the whole of what the loader gives.
bool is_whole_batch(const source::Expr& value) {
  const source::Statement* loop = value.kind == source::ExprKind::name ? value.binding() : nullptr;
  if (loop == nullptr || loop->kind != source::StatementKind::for_ || loop->target == nullptr) {
    return false;
  }
  const source::Expr* target = loop->target;
  const source::Expr* over = loop->value;
  while (over != nullptr && over->call() != nullptr && over->call()->target == nullptr &&
         over->call()->name != "enumerate" && !over->call()->arguments.empty()) {
    over = over->call()->arguments.front().value;
  }
  const bool counts = over != nullptr && over->call() != nullptr &&
                      target->kind == source::ExprKind::tuple && target->children().size() == 2;
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
      fmt::format("its loader at {} has pin_memory", place_text(loader, *copy.file)),
      "PyTorch tutorial, A guide on good usage of non_blocking and pin_memory()"};
  return finding;
}

// The pinned loader whose batches the copy in a step loop moves; null where there is none.
const source::Call* pinned_loader_of(const source::SourceFacts& facts, const Loaders& loaders,
                                     const source::Call& copy) {
  const source::Expr* value = copied_value(facts, copy);
  if (value == nullptr || copy.statement == nullptr) return nullptr;
  if (!source::is_in_step_loop(facts, copy) && !source::feeds_step_loop(facts, copy)) {
    return nullptr;
  }
  const source::Call* loader = source::loader_of(facts, value);
  // An own class around the loader is not it.
  const bool is_wrapper = loader != nullptr && !source::is_torch_loader(*loader) &&
                          loader->argument("pin_memory") == nullptr;
  if (loader == nullptr || is_wrapper) loader = unseen_loader(facts, loaders, copy, value);
  return loader != nullptr && is_pinned(facts, *loader) ? loader : nullptr;
}

// One finding for each loop, with the edits of all its copies.
void check_script(const source::SourceFacts& facts, std::vector<Finding>& findings) {
  const Loaders loaders = loaders_of_steps(facts);
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
        findings.push_back(std::move(finding));
        continue;
      }
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
