#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <unordered_set>
#include <vector>

#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/script_rule.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace made_on_host_then_moved {

constexpr std::string_view kDoc = R"md(
## What it finds
In the hot path or an evaluation loop: `torch.zeros`, `ones`, `full`, `empty`, `rand`, `randn`,
`randint`, `randperm`, `arange`, `eye`, `linspace`, a legacy constructor with sizes, or NumPy
noise and constants, moved to the GPU in the same expression or on the next use. Labels put
together from such tensors count.

## Why it costs time
The host fills the memory and then waits for the copy, in every step. The device fills it in
microseconds and without a copy.

## How to fix
Pass `device=`: `torch.randn(n, z, device=device)`. Constants are made once before the loop.
Random numbers then come from the generator of the device: same distribution, other values.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step
time says what there is to gain.

## When not to
- Values that come from the data or a Python list.
- The tensor is also used on the host, or is empty: `torch.empty(0)`.
- Outside of loops.

## Evidence
- PyTorch performance tuning guide, "Create tensors directly on the target device".
)md";

using namespace source;

constexpr int kMaxDepth = 8;

bool is_number(const Expr& expr) {
  return expr.type->is(TypeKind::number) || expr.kind == ExprKind::none ||
         expr.type->is(TypeKind::dtype) ||
         (expr.kind == ExprKind::unary && !expr.type->is(TypeKind::tensor));
}

bool is_last_word(std::string_view name, std::string_view package, Words words) {
  if (!name.starts_with(package)) return false;
  const std::string_view last = name.substr(name.rfind('.') + 1);
  return std::find(words.begin(), words.end(), last) != words.end();
}

bool is_numpy_maker(const Expr& expr) {
  if (expr.call == nullptr) return false;
  const std::string_view name = expr.call->name;
  return name.starts_with("numpy.random.") ||
         is_last_word(name, "numpy.", {"zeros", "ones", "full", "eye", "arange", "linspace"});
}

// `Tensor(x)` where Tensor is torch.cuda.FloatTensor if there is a GPU, or a legacy class.
bool is_legacy_class(const Expr& callee) {
  const Expr* made = resolved(&callee);
  if (made->kind == ExprKind::conditional && !made->children.empty()) made = made->children[0];
  const std::string_view name = made->full_name;
  return name.starts_with("torch.") && name.ends_with("Tensor") && name.size() > 6;
}

bool is_gpu_class(const Expr& callee) {
  const Expr* made = resolved(&callee);
  if (made->kind == ExprKind::conditional && !made->children.empty()) made = made->children[0];
  return made->full_name.starts_with("torch.cuda.");
}

// A number, x.size(), x.shape, *x.shape; of several arguments also one that is not known.
bool is_size(const Expr& value, bool is_one_of_several) {
  if (value.type->is(TypeKind::number)) return true;
  const Expr* root = resolved(&value);
  while (root->kind == ExprKind::starred || root->kind == ExprKind::subscript) {
    root = root->children[0];
  }
  if (last_name(root) == "shape" || (root->call != nullptr && root->call->method == "size")) {
    return true;
  }
  if (root->kind == ExprKind::tuple) {
    return std::all_of(root->children.begin(), root->children.end(),
                       [](const Expr* part) { return is_size(*part, true); });
  }
  return is_one_of_several && value.type->is(TypeKind::unknown) && value.call == nullptr;
}

// FloatTensor(n, m), also FloatTensor(size=(n, m)).
bool has_only_sizes(const Call& call) {
  const bool is_several = call.arguments.size() > 1;
  return !call.arguments.empty() &&
         std::all_of(call.arguments.begin(), call.arguments.end(), [&](const Argument& argument) {
           const bool is_tuple = argument.value->kind == ExprKind::tuple;
           if (is_tuple && argument.name != "size") return false;
           return is_size(*argument.value, is_several);
         });
}

// torch.empty(0): nothing to fill and nothing to copy.
bool is_empty(const Call& call) {
  return is_last_word(call.name, "torch.", {"empty", "zeros", "ones", "rand", "randn"}) &&
         call.arguments.size() == 1 && call.arguments.front().value->word == "0";
}

// Makes a host tensor out of nothing but sizes and constants.
bool is_maker(const Call& call) {
  if (call.argument("device") != nullptr || is_empty(call)) return false;
  if (std::count(call.name.begin(), call.name.end(), '.') == 1 &&
      is_last_word(call.name, "torch.",
                   {"zeros", "ones", "full", "empty", "rand", "randn", "randint", "randperm",
                    "arange", "eye", "linspace"})) {
    return true;
  }
  const bool wraps = call.name == "torch.from_numpy" || call.name == "torch.tensor" ||
                     call.name == "torch.as_tensor" ||
                     (!call.expr->children.empty() && is_legacy_class(*call.expr->children[0]));
  if (!wraps || call.arguments.empty()) return false;
  const Expr* given = call.arguments.front().value;
  const Expr* root = given;
  while (root->call != nullptr && root->call->method == "astype" &&
         root->call->receiver != nullptr) {
    root = root->call->receiver;
  }
  const bool is_bound = root->kind == ExprKind::name && root->binding != nullptr &&
                        root->binding->kind == StatementKind::assignment &&
                        root->binding->function == call.function &&
                        root->binding->value != nullptr && root->binding->target != nullptr &&
                        root->binding->target->kind == ExprKind::name;
  if (is_numpy_maker(is_bound ? *root->binding->value : *root)) return true;
  const bool is_class = !call.expr->children.empty() && is_legacy_class(*call.expr->children[0]) &&
                        !is_gpu_class(*call.expr->children[0]);
  return is_class && has_only_sizes(call);
}

const Call* host_maker(const Expr* expr, int depth);

// All parts are made on the host or numbers, and at least one is made.
const Call* maker_among(std::span<const Expr* const> parts, int depth) {
  const Call* found = nullptr;
  for (const Expr* part : parts) {
    if (is_number(*part)) continue;
    const Call* maker = host_maker(part, depth + 1);
    if (maker == nullptr && part->type->is(TypeKind::unknown) && part->call == nullptr &&
        part->kind != ExprKind::subscript) {
      continue;
    }
    if (maker == nullptr) return nullptr;
    if (found == nullptr) found = maker;
  }
  return found;
}

// `h = rnn.init_hidden()`: an own function all of whose returns are made from nothing.
// Only a call that makes it, and methods on that.
bool is_just_made(const Expr* expr, int depth) {
  expr = resolved(expr);
  if (expr == nullptr || depth > kMaxDepth) return false;
  if (expr->kind == ExprKind::tuple) {
    return std::all_of(expr->children.begin(), expr->children.end(),
                       [&](const Expr* part) { return is_just_made(part, depth + 1); });
  }
  if (expr->call == nullptr) return false;
  return is_maker(*expr->call) || is_just_made(expr->call->receiver, depth + 1);
}

bool returns_made(const FunctionDef& function, int depth) {
  bool has_return = false;
  bool all = true;
  for_statements(function.body, [&](const Statement& statement) {
    if (statement.kind != StatementKind::return_ || !all) return;
    has_return = true;
    all = is_just_made(statement.value, depth + 1);
  });
  return has_return && all;
}

const Call* maker_in_call(const Call& call, int depth) {
  if (is_maker(call)) return &call;
  if (call.argument("device") != nullptr) return nullptr;
  if (call.target != nullptr) {
    const bool is_plain = call.name != "torch.nn.Module.__call__" && call.target->name != "__init__";
    return is_plain && returns_made(*call.target, depth + 1) ? &call : nullptr;
  }
  if (call.name == "torch.autograd.Variable" || call.name.starts_with("torch.")) {
    const bool is_method = call.receiver != nullptr && call.name.starts_with("torch.Tensor.");
    std::vector<const Expr*> parts;
    if (is_method) parts.push_back(call.receiver);
    const bool takes_sizes =
        is_method && is_one_of(call.method, {"expand", "view", "reshape", "repeat", "unsqueeze"});
    for (const Argument& argument : call.arguments) {
      if (argument.name.empty() && !takes_sizes) parts.push_back(argument.value);
    }
    if (is_method && (call.method == "to" || call.method == "cuda" || call.method == "item")) {
      return call.method == "to" ? host_maker(call.receiver, depth + 1) : nullptr;
    }
    return maker_among(parts, depth);
  }
  return nullptr;
}

// Of a name that several branches bind: the first, where all above are made from nothing.
const Call* maker_in_branches(const Expr& name, int depth) {
  const Statement* use = name.statement;
  if (use == nullptr || use->function == nullptr) return nullptr;
  const auto& parameters = use->function->parameters;
  if (std::ranges::any_of(parameters, [&](const auto& one) { return one.name == name.word; })) {
    return nullptr;
  }
  const Call* found = nullptr;
  for (const Statement* statement : use->file->statements) {
    const bool binds = statement->function == use->function && statement->target != nullptr &&
                       statement->range.begin < use->range.begin &&
                       statement->target->kind == ExprKind::name &&
                       statement->target->word == name.word;
    if (!binds) continue;
    const bool is_plain = statement->kind == StatementKind::assignment && statement->word == "=";
    const Call* maker = is_plain ? host_maker(statement->value, depth + 1) : nullptr;
    if (maker == nullptr) return nullptr;
    if (found == nullptr) found = maker;
  }
  return found;
}

// The call at the root of a value that is made on the host from nothing; null for other values.
const Call* host_maker(const Expr* expr, int depth) {
  if (expr == nullptr || depth > kMaxDepth) return nullptr;
  switch (expr->kind) {
    case ExprKind::call:
      return maker_in_call(*expr->call, depth);
    case ExprKind::name: {
      const Statement* binding = expr->binding;
      if (binding == nullptr) return maker_in_branches(*expr, depth);
      const bool is_plain = binding->kind == StatementKind::assignment && binding->word == "=" &&
                            binding->target != nullptr && binding->target->kind == ExprKind::name &&
                            expr->statement != nullptr &&
                            binding->function == expr->statement->function;
      return is_plain ? host_maker(binding->value, depth + 1) : nullptr;
    }
    case ExprKind::binary:
    case ExprKind::comparison:
    case ExprKind::unary:
    case ExprKind::list:
    case ExprKind::tuple:
      return maker_among(expr->children, depth);
    case ExprKind::comprehension:
      return expr->children.empty() ? nullptr : host_maker(expr->children[0], depth + 1);
    case ExprKind::subscript:
      return host_maker(expr->children[0], depth + 1);
    default:
      return nullptr;
  }
}

// Made again for each move: in the same loop, or the same statement.
bool is_in_same_loop(const Call& maker, const Call& move) {
  if (maker.statement == nullptr || move.statement == nullptr) return false;
  const auto loop_of = [](const Statement* statement) {
    while (statement != nullptr && statement->loop == nullptr) statement = statement->parent;
    return statement;
  };
  return loop_of(maker.statement) == loop_of(move.statement) || maker.statement == move.statement;
}

bool reads_variable(const Statement& statement, std::string_view variable) {
  return statement.function_def == nullptr && uses_variable(statement.value, variable);
}

// `x = …`, `x, y = …`
bool binds_name(const Expr* target, std::string_view variable) {
  if (target == nullptr) return false;
  if (target->kind == ExprKind::tuple || target->kind == ExprKind::list) {
    return std::any_of(target->children.begin(), target->children.end(),
                       [&](const Expr* part) { return binds_name(part, variable); });
  }
  return last_name(target) == variable;
}

// The host reads the variable too: before the move for something that is not made from nothing, or
// after it.
bool is_used_on_host(const Call& maker, const Call& move) {
  const Statement* first = maker.statement;
  if (first == move.statement || first->target == nullptr) return false;
  const std::string_view variable = last_name(first->target);
  const bool is_last = move.statement->kind == StatementKind::return_;
  const bool is_replaced = binds_name(move.statement->target, variable);
  for (const Statement* statement : first->file->statements) {
    const bool is_other = statement != first && statement != move.statement &&
                          statement->function == first->function &&
                          statement->range.begin > first->range.begin;
    if (!is_other || !reads_variable(*statement, variable)) continue;
    const bool is_before = statement->range.begin < move.statement->range.begin;
    if (!is_before && (is_replaced || is_last)) continue;
    if (!is_before || host_maker(statement->value, 0) == nullptr) return true;
  }
  return false;
}

// `Tensor(np.random.normal(…))` copies to the GPU without a call that says so.
const Call* moving_maker(const Call& call) {
  if (call.expr->children.empty() || !is_gpu_class(*call.expr->children[0])) return nullptr;
  if (!is_legacy_class(*call.expr->children[0])) return nullptr;
  return is_maker(call) && !has_only_sizes(call) ? &call : nullptr;
}

// `x.to(y)`, `x.type_as(y)` with a tensor that may be on the GPU.
bool follows_tensor(const Call& call) {
  if (call.receiver == nullptr || call.arguments.size() != 1) return false;
  if (call.method != "to" && call.method != "type_as") return false;
  const Type& like = *call.arguments.front().value->type;
  return like.on_gpu() || (like.is(TypeKind::tensor) && like.residence != Residence::host);
}

// Whether the function copies the parameter to the GPU: `def to_var(x): x = x.cuda(); …`.
bool moves_parameter(const SourceFacts& facts, const FunctionDef& function,
                     std::string_view parameter) {
  return std::any_of(function.calls.begin(), function.calls.end(), [&](const Call* inner) {
    if (!copies_to_device(facts, *inner)) return false;
    const Expr* root = resolved(inner->receiver);
    while (root->call != nullptr && root->call->receiver != nullptr) root = root->call->receiver;
    const bool is_wrapped = root->call != nullptr && root->call->arguments.size() == 1;
    if (is_wrapped) root = root->call->arguments.front().value;  // Variable(x).cuda()
    return root->kind == ExprKind::name && root->word == parameter &&
           is_reached_by_default(facts, *inner);
  });
}

// `to_var(torch.randn(4, 8))`: the argument that an own function moves.
const Call* maker_handed_over(const SourceFacts& facts, const Call& call) {
  const FunctionDef* function = call.target;
  if (function == nullptr || call.name == "torch.nn.Module.__call__") return nullptr;
  if (function->class_def != nullptr || function->parameters.empty()) return nullptr;
  if (call.arguments.empty() || call.arguments.front().unpacked) return nullptr;
  const Argument& first = call.arguments.front();
  if (!first.name.empty() || first.value->call == nullptr) return nullptr;
  const Call* maker = host_maker(first.value, 0);
  if (maker == nullptr) return nullptr;
  return moves_parameter(facts, *function, function->parameters.front().name) ? maker : nullptr;
}

// The tensor that the call copies from the host, where it is made from nothing in the same pass.
const Call* moved_maker(const SourceFacts& facts, const Call& call) {
  if (const Call* maker = moving_maker(call)) return maker;
  const bool copies = copies_to_device(facts, call) || follows_tensor(call);
  const Call* maker =
      copies ? host_maker(call.receiver, 0) : maker_handed_over(facts, call);
  const bool is_kept =
      maker != nullptr && (!is_in_same_loop(*maker, call) || is_used_on_host(*maker, call));
  return is_kept ? nullptr : maker;
}

Finding finding_for(const Call& maker, const Call& move) {
  const bool is_random =
      maker.method.starts_with("rand") ||
      maker.file->slice(maker.expr->range).find("random") != std::string_view::npos;
  const bool is_torch = maker.name.starts_with("torch.") && !maker.method.ends_with("Tensor") &&
                        maker.method != "from_numpy" && maker.method != "tensor";
  const bool is_named = &move != &maker && move.receiver != nullptr && !move.arguments.empty() &&
                        (move.method == "to" || move.method == "type_as");
  std::string device = is_named ? code_text(*move.file, move.arguments.front().value)
                                : std::string("\"cuda\"");
  if (is_named && follows_tensor(move)) device += ".device";
  Fix fix{is_torch ? fmt::format("Pass device={} to torch.{}, so that the GPU fills it", device,
                                 maker.method)
                   : "Make it on the GPU: torch.randn, torch.ones or torch.full with device=",
          is_random ? Exactness::changes_training : Exactness::bit_exact};
  if (is_torch && maker.statement == move.statement && &move != &maker) {
    add_edit(add_argument(maker, "device", device), fix);
  }
  Finding finding =
      finding_at(maker,
                 fmt::format("`{}` is made on the host and copied to the GPU in each pass",
                             code_text(*maker.file, maker.expr)),
                 std::move(fix));
  finding.evidence = {
      &move == &maker ? "the class is torch.cuda.FloatTensor where there is a GPU"
                      : fmt::format("moved at {}", place_text(move, *maker.file)),
      "PyTorch performance tuning guide, Create tensors directly on the target device"};
  return finding;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::unordered_set<const Call*> seen;
  for (const auto& file : facts.files) {
    if (!trains_on_gpu(facts, *file)) continue;
    for (const Call* call : file->calls) {
      const Call* maker = moved_maker(facts, *call);
      if (maker == nullptr || !is_hot_or_evaluated(facts, *call)) continue;
      if (seen.insert(maker).second) findings.push_back(finding_for(*maker, *call));
    }
  }
  return findings;
}

std::vector<Finding> check(const RuleInput& input) { return check_scripts(input, find); }

}  // namespace made_on_host_then_moved

extern const Rule input_pipeline_made_on_host_then_moved{
    .id = "input_pipeline/made-on-host-then-moved",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "a tensor is made on the host and then copied to the GPU",
    .doc = made_on_host_then_moved::kDoc,
    .check = made_on_host_then_moved::check};

}  // namespace rooftile
