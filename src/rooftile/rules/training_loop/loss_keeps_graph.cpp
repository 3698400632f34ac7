#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "rooftile/analysis/source/iteration.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/running_totals.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"
#include "rooftile/script/flow/queries.h"
#include "rooftile/script/reach/reach.h"

namespace rooftile {
namespace training_loop_loss_keeps_graph_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
`total += loss` or `losses.append(loss)` in a training loop, where the total lives longer than a
pass and no backward uses it.

## Why it costs time
The total refers to the last operation of every step, and with it to the graph. Buffers that
backward has freed are gone, but the nodes and the outputs stay: memory grows with each step.

## How to fix
`total += loss.detach()`, and `.item()` once where the number is printed. `.item()` in each step
makes the host wait for the GPU.

## How the saving is estimated
Memory, not time: nothing is estimated.

## When not to
- The total is made anew in each pass, or backward is called on it. So it is where an inner loop
  takes a few steps on each batch, and the total starts anew with the batch.
- The loss is a number by then: `loss = loss.item()`.
- Under `no_grad`.

## Evidence
- PyTorch FAQ, "My model reports cuda runtime error(2): out of memory".
)md";

using namespace source;

// Scores come from comparisons and indices, which have no graph, whatever they were made of.
bool names_a_loss(std::string_view name) {
  return contains_any(lower(name), {"loss", "cost", "elbo", "nll", "kld"});
}

// The names of losses on which the loop calls backward.
std::vector<std::string_view> backward_names(const Iteration& iteration) {
  std::vector<std::string_view> names;
  for (const IteratedCall& one : iteration.calls) {
    if (one.call->method != "backward") continue;
    const auto note = [&](const Expr* expr) {
      visit(expr, [&](const Expr& part) {
        if (part.kind != ExprKind::name) return true;
        names.push_back(part.word());
        // What the loss is a sum of takes part in backward as well.
        const Expr* made = resolved(&part);
        if (made->kind != ExprKind::binary) return true;
        visit(made, [&](const Expr& inner) {
          // One factor of a product may be a number.
          if (inner.kind == ExprKind::name &&
              (inner.parent->word() != "*" || names_a_loss(inner.word()))) {
            names.push_back(inner.word());
          }
          return inner.kind != ExprKind::call;
        });
        return true;
      });
    };
    note(one.call->receiver);
    for (const Argument& argument : one.call->arguments) note(argument.value);
  }
  return names;
}

bool is_detached(const Expr& part) {
  if (part.kind == ExprKind::attribute) return true;  // .data, or of something that is no tensor
  if (part.kind == ExprKind::subscript) return is_detached(*part.children().front());
  if (part.kind == ExprKind::binary) {  // loss.data * count
    const auto has_graph = [](const Expr* side) {
      return !is_detached(*side) && side->type->requires_grad;
    };
    return std::ranges::any_of(part.children(),
                               [](const Expr* side) { return is_detached(*side); }) &&
           std::ranges::none_of(part.children(), has_graph);
  }
  return part.call() != nullptr &&
         is_one_of(part.call()->method,
                   {"item", "detach", "detach_", "float", "int", "numpy", "tolist", "no_grad",
                    "cpu_item", "reduce_tensor", "len", "round", "str"});
}

// Whether the variable is what an own function returns detached: `loss, n = step(batch)` with
// `return loss.data[0], n`.
bool is_returned_detached(const Expr& name) {
  const Statement* binding = name.binding();
  const Expr* value = binding == nullptr ? nullptr : binding->value;
  if (value == nullptr || value->call() == nullptr || value->call()->target == nullptr)
    return false;
  std::size_t place = 0;
  const Expr* target = binding->target;
  const bool is_tuple = target != nullptr && target->kind == ExprKind::tuple;
  while (is_tuple && place < target->children().size() &&
         target->children()[place]->word() != name.word()) {
    ++place;
  }
  return any_statement(value->call()->target->body, [&](const Statement& statement) {
    if (statement.kind != StatementKind::return_ || statement.value == nullptr) return false;
    const Expr* given = statement.value;
    const bool is_part =
        is_tuple && given->kind == ExprKind::tuple && place < given->children().size();
    return is_detached(is_part ? *given->children()[place] : *given);
  });
}

// What the statement sets the variable to, `loss, n = loss.item(), 3` included; null for others.
const Expr* value_set(const Statement& statement, std::string_view name) {
  const Expr* target = statement.target;
  const Expr* value = statement.value;
  const bool sets =
      statement.kind == StatementKind::assignment && statement.word == "=" && value != nullptr;
  if (!sets) return nullptr;
  if (target->kind == ExprKind::name) return target->word() == name ? value : nullptr;
  if (target->kind != ExprKind::tuple || value->kind != ExprKind::tuple) return nullptr;
  for (std::size_t i = 0; i < std::min(target->children().size(), value->children().size()); ++i) {
    if (target->children()[i]->word() == name) return value->children()[i];
  }
  return nullptr;
}

// A statement before the use, in its block or one around it, has made it a number.
bool is_number_by_now(const Expr& name) {
  constexpr int kMaxStatements = 64;
  int left = kMaxStatements;
  for (const Statement* at = name.statement; at->loop == nullptr; at = at->parent) {
    for (std::size_t i = at->index; i > 0 && left > 0; --i, --left) {
      const Statement& before = *at->block[i - 1];
      if (const Expr* value = value_set(before, name.word())) return is_detached(*value);
    }
  }
  return false;
}

// "%f" % loss
bool makes_text(const Expr& part) {
  if (part.type->is(TypeKind::text)) return true;
  return part.kind == ExprKind::binary && part.word() == "%" &&
         part.children().front()->type->is(TypeKind::text);
}

// `loss == 0` of `0 if loss == 0 else loss.item()`.
bool is_condition(const Expr& part) {
  const Expr* choice = part.parent;
  return choice != nullptr && choice->kind == ExprKind::conditional &&
         choice->children()[1] == &part;
}

// `loss.item() if has_old else loss`: without the one, the other is a number as well.
bool chooses_detached(const Expr& part) {
  return part.kind == ExprKind::conditional &&
         (is_detached(*part.children()[0]) || is_detached(*part.children()[2]));
}

// Of `a = loss` the loss; else the name itself.
std::string_view name_behind(const SourceFacts& facts, const Expr& name) {
  const Statement* set = name.binding();
  const bool is_copy = set != nullptr && set->kind == StatementKind::assignment &&
                       set->word == "=" && set->value != nullptr &&
                       set->value->kind == ExprKind::name &&
                       &script::written(facts, name) == &script::written(facts, *set->value);
  return is_copy ? set->value->word() : name.word();
}

// The attached loss in the value: on which backward is called, or a tensor with a graph by its
// name.
const Expr* attached_name(const SourceFacts& facts, const Expr* value,
                          const std::vector<std::string_view>& losses) {
  const Expr* found = nullptr;
  visit(value, [&](const Expr& part) {
    if (found != nullptr || is_detached(part) || chooses_detached(part)) return false;
    if (makes_text(part) || is_condition(part)) return false;
    if (part.kind == ExprKind::call || part.kind == ExprKind::subscript) return false;
    if (part.kind != ExprKind::name) return true;
    const std::string_view word = name_behind(facts, part);
    const bool is_loss = std::find(losses.begin(), losses.end(), word) != losses.end();
    const bool has_graph = part.type->requires_grad && names_a_loss(word);
    const bool is_number = part.type->is(TypeKind::number) || part.type->is(TypeKind::container);
    const bool is_cut =
        is_detached(*resolved(&part)) || is_returned_detached(part) || is_number_by_now(part);
    if ((is_loss || has_graph) && !is_number && !is_cut) found = &part;
    return false;
  });
  return found;
}

// The first parameter that is part of the sum as it came; their number where none is.
std::size_t added_parameter(std::span<const Parameter> parameters, const Expr* sum) {
  for (std::size_t i = 1; i < parameters.size(); ++i) {
    bool is_added = false;
    visit(sum, [&](const Expr& part) {
      if (is_detached(part) || part.call() != nullptr) return false;
      is_added = is_added || (part.kind == ExprKind::name && part.word() == parameters[i].name);
      return true;
    });
    if (is_added) return i;
  }
  return parameters.size();
}

bool is_own_attribute(const Expr* target) {
  return target->kind == ExprKind::attribute && target->children()[0]->word() == "self";
}

// `self.v = (self.v * self.n + x) / (self.n + 1)`, a mean that goes on.
bool continues_itself(const Statement& statement) {
  return any_inside(statement.value, [&](const Expr& part) {
    return is_own_attribute(&part) && part.word() == statement.target->word();
  });
}

// `meter.update(loss, n)` of an own class: the parameter that `self.sum += val * n` adds up as it
// came; the number of parameters where there is none.
std::size_t summed_parameter(const FunctionDef& method) {
  const auto parameters = method.parameters;
  std::size_t found = parameters.size();
  if (method.class_def == nullptr || method.class_def->is_module) return found;
  for (const Statement* statement : method.body) {
    if (statement->kind == StatementKind::return_) break;
    // `val = val.item()`, `if torch.is_tensor(val): …` and guards change what is added.
    const bool is_plain =
        statement->kind == StatementKind::assignment && is_own_attribute(statement->target);
    if (!is_plain && statement->kind != StatementKind::expression) return parameters.size();
    const bool goes_on = is_plain && (statement->word == "+=" ||
                                      (statement->word == "=" && continues_itself(*statement)));
    const bool is_sum = goes_on && found == parameters.size();
    if (is_sum) found = added_parameter(parameters, statement->value);
  }
  return found;
}

// What the statement adds to, and the value it adds.
struct Sum {
  const Expr* total = nullptr;
  const Expr* value = nullptr;
};

// `sum = total + loss; total = sum`
Sum sum_set(const SourceFacts& facts, const Statement& statement) {
  const Expr& value = script::written(facts, *statement.value);
  if (value.kind != ExprKind::binary || value.word() != "+") return {};
  const std::string_view total = root_name(statement.target);
  const Expr* first = value.children()[0];
  const Expr* second = value.children()[1];
  if (root_name(first) == total) return {statement.target, second};
  return root_name(second) == total ? Sum{statement.target, first} : Sum{};
}

// `totals.append(loss)`, `meter.update(loss)`
Sum sum_of_call(const Call& call) {
  if (call.receiver == nullptr) return {};
  const bool appends = call.method == "append" && call.arguments.size() == 1 &&
                       !call.receiver_type().is(TypeKind::host_object);
  if (appends) return {call.receiver, call.arguments.front().value};
  if (call.target == nullptr) return {};
  const std::size_t place = summed_parameter(*call.target);
  if (place >= call.target->parameters.size()) return {};
  const Argument* given =
      call.argument(call.target->parameters[place].name, static_cast<int>(place) - 1);
  return given == nullptr ? Sum{} : Sum{call.receiver, given->value};
}

Sum sum_of(const SourceFacts& facts, const Statement& statement) {
  if (statement.value == nullptr) return {};
  if (statement.kind == StatementKind::assignment) {
    if (statement.word == "+=") return {statement.target, statement.value};
    return statement.word == "=" ? sum_set(facts, statement) : Sum{};
  }
  const Call* call =
      statement.kind == StatementKind::expression ? statement.value->call() : nullptr;
  return call == nullptr ? Sum{} : sum_of_call(*call);
}

Fix fix_for(const File& file, const Expr& loss) {
  Fix fix{
      fmt::format("Add {}.detach(): the number is the same, and the graph is freed", loss.word()),
      Exactness::bit_exact};
  add_edit(replace(file, {loss.range.end, loss.range.end}, ".detach()"), fix);
  fix.safe = !fix.edits.empty() && loss.type->is(TypeKind::tensor);
  return fix;
}

bool is_recorded(const SourceFacts& facts, const Statement& statement) {
  return any_way(facts, statement, [](const Way& way) {
    return way.trains() && !way.gradients_off && !way.is_off_by_default;
  });
}

void check_loop(const SourceFacts& facts, const Loop& loop, std::vector<Finding>& findings) {
  const std::vector<std::string_view> losses =
      backward_names(iteration_of(facts, loop.statement->body));
  for_statements(loop.statement->body, [&](const Statement& statement) {
    const Sum sum = sum_of(facts, statement);
    const std::string_view total = root_name(sum.total);
    if (total.empty() || starts_anew(facts, loop, statement, total)) return;
    if (std::find(losses.begin(), losses.end(), total) != losses.end()) return;
    const Expr* loss = attached_name(facts, sum.value, losses);
    if (loss == nullptr || loss->word() == total || !is_recorded(facts, statement)) return;
    Finding finding = finding_at(
        statement,
        fmt::format("{} takes {} with its graph: the activations' graph of every step stays in "
                    "memory until the total is dropped",
                    code_text(*loop.file, sum.total), loss->word()),
        fix_for(*loop.file, *loss));
    finding.evidence = {
        Evidence::found(fmt::format("training loop at {}, no reset of {} in it",
                                    place_text(*loop.statement, *loop.file), total)),
        Evidence::published("do not accumulate history across your loop",
                            "PyTorch FAQ, My model reports out of memory")};
    findings.push_back(std::move(finding));
  });
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Loop* loop : facts.loops(LoopRole::training_step)) {
    if (trains_on_gpu(facts, *loop->file)) check_loop(facts, *loop, findings);
  }
  return findings;
}

}  // namespace training_loop_loss_keeps_graph_rule

extern const Rule training_loop_loss_keeps_graph{
    .id = "training_loop/loss-keeps-graph",
    .level = Level::warning,
    .cause = Cause::none,
    .summary = "Running total keeps the graph of every step",
    .doc = training_loop_loss_keeps_graph_rule::kDoc,
    .in_scripts = training_loop_loss_keeps_graph_rule::find};

}  // namespace rooftile
