#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/layer_queries.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/time_loop.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace unbatched_in_source {

using namespace source;

const Type& callee_type(const Call& call) { return *call.expr->children()[0]->type; }

bool is_linear(const Call& call) {
  const Type& type = callee_type(call);
  return type.made_by != nullptr && type.made_by->name == "torch.nn.Linear";
}

bool is_product(const Call& call) {
  return is_linear(call) || call.name == "torch.nn.functional.linear" ||
         call.name == "torch.matmul" || call.name == "torch.mm";
}

bool is_gate(const Call& call) { return call.method == "sigmoid" || call.method == "tanh"; }

bool has_gate(const std::vector<const Call*>& calls) {
  return std::any_of(calls.begin(), calls.end(), [](const Call* call) { return is_gate(*call); });
}

// Products in the loop itself: one of the step's input, one of what the step before gave.
const Call* written_out(const TimeLoop& loop, const std::vector<const Call*>& calls) {
  const Call* of_input = nullptr;
  bool of_state = false;
  for (const Call* call : calls) {
    if (!is_product(*call) || call->arguments.empty()) continue;
    const Expr* input = call->arguments[0].value;
    if (!loop.is_known_before(input)) {
      of_state = true;
    } else if (loop.varies(input) && of_input == nullptr) {
      of_input = call;
    }
  }
  return of_state && has_gate(calls) ? of_input : nullptr;
}

// Whether the function has a product of exactly the parameter of this index.
bool multiplies(const FunctionDef& forward, std::size_t parameter) {
  if (parameter >= forward.parameters.size()) return false;
  return std::any_of(forward.calls.begin(), forward.calls.end(), [&](const Call* call) {
    if (!is_product(*call) || call->arguments.empty()) return false;
    const Expr* input = call->arguments[0].value;
    return input->kind == ExprKind::name && input->binding() == nullptr &&
           input->word() == forward.parameters[parameter].name;
  });
}

// An own cell with separate products of input and state, called with an input known before.
const Call* own_cell(const TimeLoop& loop, const std::vector<const Call*>& calls) {
  for (const Call* call : calls) {
    const ClassDef* def = callee_type(*call).class_def;
    if (def == nullptr || !def->is_module || call->arguments.size() < 2) continue;
    const FunctionDef* forward = def->method("forward");
    if (forward == nullptr || !has_gate(forward->calls)) continue;
    const Expr* input = call->arguments[0].value;
    const bool steps = loop.is_known_before(input) && loop.varies(input) &&
                       !loop.is_known_before(call->arguments[1].value);
    if (steps && multiplies(*forward, 1)) return call;
  }
  return nullptr;
}

// What the loop itself reads of a variable, in text order.
std::vector<const Expr*> reads_of(const TimeLoop& loop, std::string_view variable) {
  std::vector<const Expr*> reads;
  for_statements(loop.statement().body, [&](const Statement& statement) {
    for_own_expressions(statement, [&](const Expr* expr) {
      visit(expr, [&](const Expr& part) {
        const bool is_it = part.kind == ExprKind::name && part.word() == variable;
        if (is_it && &part != statement.target) reads.push_back(&part);
        return true;
      });
    });
  });
  return reads;
}

// The list of `list.append(expr)`, also of `list.append(log_softmax(expr))` with functions of
// torch around it; null for other uses.
const Expr* collecting_list(const Expr& expr) {
  for (const Expr* at = expr.parent; at != nullptr; at = at->parent) {
    if (at->kind == ExprKind::attribute) continue;  // a method of the result: .unsqueeze(1)
    const Call* call = at->call();
    if (call == nullptr) return nullptr;
    if (call->method == "append") return call->receiver;
    if (call->target != nullptr || !call->name.starts_with("torch.")) return nullptr;
  }
  return nullptr;
}

// The tensor of `tensor[:, t] = expr`.
const Expr* filled_tensor(const Expr& expr) {
  const Expr* target = expr.statement->target;
  const bool is_filled =
      target != nullptr && expr.statement->value == &expr && target->kind == ExprKind::subscript;
  return is_filled ? target->children()[0] : nullptr;
}

// Whether the value only goes where nothing in the loop reads it.
bool is_only_collected(const TimeLoop& loop, const Expr& value) {
  const Expr* list = collecting_list(value);
  const Expr* store = list != nullptr ? list : filled_tensor(value);
  if (store == nullptr || store->kind != ExprKind::name) return false;
  return std::ranges::all_of(reads_of(loop, store->word()), [](const Expr* read) {
    const Expr* parent = read->parent;
    const bool appends =
        parent != nullptr && parent->kind == ExprKind::attribute && parent->word() == "append";
    const bool fills = read->statement->target != nullptr && parent == read->statement->target;
    return appends || fills;
  });
}

// `y = self.out(h)` with y only collected, or self.out(h) itself.
bool is_collected(const TimeLoop& loop, const Expr& product) {
  const Expr* target = product.statement->target;
  const bool is_variable =
      target != nullptr && target->kind == ExprKind::name && product.statement->value == &product;
  if (!is_variable) return is_only_collected(loop, product);
  const auto reads = reads_of(loop, target->word());
  return !reads.empty() && std::ranges::all_of(reads, [&](const Expr* read) {
    return is_only_collected(loop, *read);
  });
}

// Gates, a cell of the library or a user-defined one with gates: a loop over layers has none.
bool is_recurrent(const std::vector<const Call*>& calls) {
  return std::ranges::any_of(calls, [](const Call* call) {
    const Type& type = callee_type(*call);
    const bool is_cell = type.made_by != nullptr &&
                         (is_recurrent_cell(*type.made_by) || is_recurrent_layer(*type.made_by));
    const FunctionDef* forward =
        type.class_def == nullptr ? nullptr : type.class_def->method("forward");
    return is_cell || is_gate(*call) || (forward != nullptr && has_gate(forward->calls));
  });
}

// A Linear of the state whose results are only collected.
const Call* output_projection(const TimeLoop& loop, const std::vector<const Call*>& calls) {
  if (!is_recurrent(calls)) return nullptr;
  for (const Call* call : calls) {
    if (!is_linear(*call) || call->arguments.size() != 1) continue;
    const bool is_of_state = !loop.is_known_before(call->arguments[0].value);
    if (is_of_state && is_collected(loop, *call->expr)) return call;
  }
  return nullptr;
}

// Rows of a step from which on its GEMM is math-bound on any GPU: above the ridge of an H100, 295
// flop per byte in 16 bits.
constexpr std::int64_t kFullRows = 512;

bool has_large_batches(const SourceFacts& facts, const File& file) {
  bool any = false;
  for (const Program* program : training_programs_of(facts, file)) {
    for (const Call* loader : constructions_in(facts, *program, TypeKind::loader)) {
      const Value size = facts.argument(*loader, "batch_size", 1);
      if (size.kind != ValueKind::integer || size.integer < kFullRows) return false;
      any = true;
    }
  }
  return any;
}

Finding output_finding(const Statement& loop, const Call& call) {
  const Expr* state = call.arguments[0].value;
  Finding finding = finding_at(
      call,
      fmt::format("`{}` multiplies `{}` once for each time step, though no later step reads it",
                  code_text(*call.file, call.expr->children()[0]), code_text(*call.file, state)),
      {"Collect the states, and apply the layer once to all of them after the loop",
       Exactness::exact_arithmetic});
  finding.evidence = {
      Evidence::found(fmt::format("loop at {}; its results are only collected there",
                                  place_text(loop, *call.file))),
      Evidence::published("concatenate activations across time", "NVIDIA, GTC 2019 talk S9143")};
  return finding;
}

Finding finding_for(const Statement& loop, const Call& call) {
  const Expr* input = call.arguments[0].value;
  Finding finding = finding_at(
      call,
      fmt::format(
          "the GEMM with `{}` runs once for each time step, though it depends on no other step",
          code_text(*call.file, input)),
      {"Multiply the whole sequence by the input weights before the loop, and take a slice of the "
       "result in each step",
       Exactness::exact_arithmetic});
  finding.evidence = {
      Evidence::found(fmt::format("loop at {}; its input does not depend on an earlier step",
                                  place_text(loop, *call.file))),
      Evidence::published("the input GEMMs of all time steps can be combined",
                          "NVIDIA Recurrent Layers User's Guide")};
  return finding;
}

}  // namespace unbatched_in_source

std::vector<Finding> step_by_step_projections(const source::SourceFacts& facts) {
  using namespace unbatched_in_source;
  std::vector<Finding> findings;
  for (const auto& file : facts.files) {
    if (!mentions(*file, {"Linear", "linear", "matmul", "mm"})) continue;
    if (!trains_on_gpu(facts, *file)) continue;
    const bool fills_gpu = has_large_batches(facts, *file);
    for (const Statement* statement : time_loops(*file)) {
      const TimeLoop loop(*statement);
      const std::vector<const Call*> calls = calls_inside(*statement);
      const Call* found = written_out(loop, calls);
      if (found == nullptr) found = own_cell(loop, calls);
      if (found != nullptr) findings.push_back(finding_for(*statement, *found));
      const Call* output = fills_gpu ? nullptr : output_projection(loop, calls);
      if (output != nullptr) findings.push_back(output_finding(*statement, *output));
    }
  }
  return findings;
}

}  // namespace rooftile
