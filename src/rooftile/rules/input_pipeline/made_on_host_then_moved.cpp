#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "rooftile/analysis/source/host_allocations.h"
#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/sample_size.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"
#include "rooftile/script/flow/sources.h"

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
- Less than about a megabyte: information, as the copy and the wait cost little.
- Outside of loops. In evaluation and sampling it is information: these take few of the steps.

## Evidence
- PyTorch performance tuning guide, "Create tensors directly on the target device".
)md";

using namespace source;

// Made again for each move: in the same loop, or the same statement.
bool is_in_same_loop(const Call& maker, const Call& move) {
  const auto loop_of = [](const Statement* statement) {
    while (statement != nullptr && statement->loop == nullptr) statement = statement->parent;
    return statement;
  };
  return loop_of(maker.statement) == loop_of(move.statement) || maker.statement == move.statement;
}

// Not where it is: `if mask.device != x.device` reads nothing of it.
bool reads_variable(const Statement& statement, std::string_view variable) {
  if (statement.function_def != nullptr) return false;
  bool reads = false;
  visit(statement.value, [&](const Expr& part) {
    const bool asks = part.kind == ExprKind::attribute &&
                      is_one_of(part.word(), {"device", "is_cuda", "dtype", "shape"});
    reads = reads || (part.kind == ExprKind::name && part.word() == variable);
    return !reads && !asks;
  });
  return reads;
}

// `x = …`, `x, y = …`
bool binds_name(const Expr* target, std::string_view variable) {
  if (target == nullptr) return false;
  if (target->kind == ExprKind::tuple || target->kind == ExprKind::list) {
    return std::any_of(target->children().begin(), target->children().end(),
                       [&](const Expr* part) { return binds_name(part, variable); });
  }
  return last_name(target) == variable;
}

bool is_made(const SourceFacts& facts, const Expr* value) {
  return value != nullptr && host_allocation(facts, *value) != nullptr;
}

// The host reads the variable too: before the move for something that is not made from nothing, or
// after it.
bool is_used_on_host(const SourceFacts& facts, const Call& maker, const Call& move) {
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
    if (!is_before || !is_made(facts, statement->value)) return true;
  }
  return false;
}

// `Tensor(np.random.normal(…))` copies to the GPU without a call that says so.
const Call* moving_maker(const SourceFacts& facts, const Call& call) {
  if (!is_gpu_class(*call.expr->children()[0])) return nullptr;
  if (!is_legacy_class(*call.expr->children()[0])) return nullptr;
  return makes_on_host(facts, call) && !has_only_sizes(call) ? &call : nullptr;
}

// A variable of whose shape, size or device its function asks.
bool is_used_as_tensor(const Expr& name) {
  const FunctionDef* function = name.statement->function;
  if (name.kind != ExprKind::name || function == nullptr) return false;
  bool is_used = false;
  for_statements(function->body, [&](const Statement& statement) {
    for_own_expressions(statement, [&](const Expr* expr) {
      visit(expr, [&](const Expr& part) {
        const bool asks = part.kind == ExprKind::attribute &&
                          is_one_of(part.word(), {"shape", "size", "device", "is_cuda", "dim",
                                                  "unsqueeze", "masked_fill"});
        is_used = is_used || (asks && part.children()[0]->kind == ExprKind::name &&
                              part.children()[0]->word() == name.word());
        return !is_used;
      });
    });
  });
  return is_used;
}

// `x.to(y)`, `x.type_as(y)`, `x.type(y.type())` with a tensor that may be on the GPU.
bool follows_tensor(const SourceFacts& facts, const Call& call) {
  if (call.receiver == nullptr || call.arguments.size() != 1) return false;
  const Expr* other = call.arguments.front().value;
  if (call.method == "type") {
    const Call* asked = other->call();
    const bool asks = asked != nullptr && asked->method == "type" && asked->arguments.empty();
    if (!asks || asked->receiver == nullptr) return false;
    other = asked->receiver;
  } else if (call.method != "to" && call.method != "type_as") {
    return false;
  }
  const Type& like = *other->type;
  const bool may_be = call.method != "to" || is_used_as_tensor(*other);
  const bool is_unknown = may_be && like.is(TypeKind::unknown);
  return like.on_gpu() || (like.is(TypeKind::tensor) && like.residence != Residence::host) ||
         (is_unknown && !is_made(facts, other));
}

// `x.type(torch.cuda.LongTensor)`
bool converts_to_gpu(const Call& call) {
  return call.receiver != nullptr && call.method == "type" && call.arguments.size() == 1 &&
         is_gpu_class(*call.arguments.front().value);
}

// Whether the function copies the parameter to the GPU: `def to_var(x): x = x.cuda(); …`.
bool moves_parameter(const SourceFacts& facts, const FunctionDef& function,
                     std::string_view parameter) {
  return std::any_of(function.calls.begin(), function.calls.end(), [&](const Call* inner) {
    if (!copies_to_device(facts, *inner)) return false;
    const Expr* root = resolved(inner->receiver);
    // Not on to the package of torch.autograd.Variable(x).
    while (root->call() != nullptr && root->call()->receiver != nullptr &&
           root->call()->receiver->full_name().empty()) {
      root = root->call()->receiver;
    }
    // Variable(x).cuda(), Variable(x, requires_grad=grad).long().cuda()
    const auto is_more = [](const Argument& argument) { return argument.name.empty(); };
    const bool is_wrapped = root->call() != nullptr && !root->call()->arguments.empty() &&
                            is_more(root->call()->arguments[0]) &&
                            std::ranges::count_if(root->call()->arguments, is_more) == 1 &&
                            !root->call()->unknown_arguments;
    if (is_wrapped) root = root->call()->arguments.front().value;
    return root->kind == ExprKind::name && root->word() == parameter &&
           is_reached_by_default(facts, *inner);
  });
}

// A function with the whole step gets batches: made-up ones are for a trial of it.
bool runs_step(const FunctionDef& function) {
  return any_call_below(function, kMaxCallDepth, [](const Call& call) {
    const bool steps = call.method == "step" && contains(last_name(call.receiver), "optim");
    return steps || contains(call.method, "backward");
  });
}

// `to_var(torch.randn(4, 8))`: the argument that an own function moves.
const Call* maker_handed_over(const SourceFacts& facts, const Call& call) {
  const FunctionDef* function = call.target;
  const bool is_plain = function != nullptr && call.name != "torch.nn.Module.__call__" &&
                        function->name != "__init__" && function->name != "forward";
  if (!is_plain) return nullptr;
  for (const Parameter& parameter : function->parameters) {
    const Argument* given = passed_argument(call, *function, parameter.name);
    const Call* maker = given == nullptr ? nullptr : host_allocation(facts, *given->value);
    if (maker == nullptr || !moves_parameter(facts, *function, parameter.name)) continue;
    return runs_step(*function) ? nullptr : maker;
  }
  return nullptr;
}

// `batch[i] = text` between: what is moved is data.
bool is_data(const Call& maker, const Call& move) {
  const Expr* target = maker.statement->target;
  return target != nullptr && target->kind == ExprKind::name && maker.statement != move.statement &&
         is_filled_between(target->word(), *maker.statement, *move.statement);
}

// The attribute that keeps what the statement makes: `self.mask = …`, `self.grids[i] = …`, and
// `mask = …` with `self.mask = mask` behind it.
const Expr* kept_in(const Statement& made) {
  const Expr* target = made.target;
  while (target != nullptr && target->kind == ExprKind::subscript) target = target->children()[0];
  if (target == nullptr || target->kind != ExprKind::name) return target;
  for (const Statement* next : after(made)) {
    const bool keeps = next->kind == StatementKind::assignment && next->value != nullptr &&
                       next->value->kind == ExprKind::name &&
                       next->value->word() == target->word() &&
                       next->target->kind == ExprKind::attribute;
    if (keeps) return next->target;
  }
  return nullptr;
}

// `if self.mask is None: self.mask = torch.ones(n).cuda()`: made once and kept.
bool is_kept_for_later(const Call& call) {
  const Expr* target = kept_in(*call.statement);
  if (target == nullptr || target->kind != ExprKind::attribute) return false;
  for (const Statement* each = call.statement; each != nullptr; each = each->parent) {
    const Statement* outer = each->parent;
    if (outer == nullptr || outer->kind != StatementKind::if_) continue;
    const bool asks = any_inside(outer->value, [&](const Expr& part) {
      const bool is_text = part.kind == ExprKind::text;  // hasattr(self, "mask")
      return (is_text || part.kind == ExprKind::attribute) && part.word() == target->word();
    });
    if (asks) return true;
  }
  return false;
}

// `if x.is_cuda: mask = mask.cuda()` with an x of the host.
bool asks_for_host_tensor(const Call& call) {
  for (const Statement* each = call.statement; each != nullptr; each = each->parent) {
    const Statement* outer = each->parent;
    if (outer == nullptr || outer->kind != StatementKind::if_) continue;
    const Expr& asked = *outer->value;
    const bool is_test = asked.kind == ExprKind::attribute && asked.word() == "is_cuda";
    if (is_test && asked.children()[0]->type->is(TypeKind::tensor) &&
        asked.children()[0]->type->residence == Residence::host) {
      return true;
    }
  }
  return false;
}

// The tensor that the call copies from the host, where it is made from nothing in the same pass.
const Call* moved_maker(const SourceFacts& facts, const Call& call) {
  if (const Call* maker = moving_maker(facts, call)) return maker;
  const bool copies =
      copies_to_device(facts, call) || follows_tensor(facts, call) || converts_to_gpu(call);
  const Call* maker =
      copies ? host_allocation(facts, *call.receiver) : maker_handed_over(facts, call);
  const bool is_kept =
      maker != nullptr && (!is_in_same_loop(*maker, call) || is_used_on_host(facts, *maker, call) ||
                           is_data(*maker, call));
  const bool is_once = maker != nullptr && (asks_for_host_tensor(call) || is_kept_for_later(call));
  return is_kept || is_once ? nullptr : maker;
}

// Where the call puts the tensor: of `.to(dtype=d, device=x)` the x, of `.type_as(y)` the y.
const Expr* place_of(const Call& move) {
  if (move.receiver == nullptr) return nullptr;
  if (move.method == "type_as") {
    return move.arguments.empty() ? nullptr : move.arguments.front().value;
  }
  const Argument* device = move.method == "to" ? move.argument("device", 0) : nullptr;
  return device == nullptr ? nullptr : device->value;
}

// `torch.zeros(n).to(device)` and `.cuda()` do nothing else than to move it.
bool only_moves(const Call& maker, const Call& move) {
  const bool is_plain = move.receiver == maker.expr && !move.unknown_arguments;
  return is_plain &&
         ((move.method == "to" && move.arguments.size() == 1 && place_of(move) != nullptr) ||
          (move.method == "cuda" && move.arguments.empty()));
}

// The GPU's exp() and cos() differ from the host's in the last bits.
bool rounds_alike(const SourceFacts& facts, const Call& maker, const Call& move) {
  using script::SourceStep;
  const Expr& moved = move.receiver == nullptr ? *maker.expr : *move.receiver;
  return !script::find_source(facts, moved, [](const Expr& part) {
    const Call* call = part.call();
    const bool differs =
        (part.kind == ExprKind::binary && part.word() == "**") ||
        (call != nullptr && call->target == nullptr &&
         is_one_of(call->method,
                   {"exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan",
                    "tanh", "sigmoid", "softmax", "erf", "pow", "rsqrt", "linspace", "logspace"}));
    return differs ? SourceStep::found : SourceStep::go_on;
  });
}

// What makes on the GPU what NumPy or an old constructor makes: "torch.arange".
std::string_view torch_maker(const Call& maker) {
  const Call* made = &maker;
  // torch.Tensor(np.arange(n)), torch.from_numpy(np.zeros(n))
  while (!made->name.starts_with("numpy.") && !made->arguments.empty() &&
         made->arguments.front().value->call() != nullptr) {
    made = made->arguments.front().value->call();
  }
  constexpr auto kMakers = std::to_array<std::pair<std::string_view, std::string_view>>(
      {{"arange", "torch.arange"},
       {"zeros", "torch.zeros"},
       {"ones", "torch.ones"},
       {"full", "torch.full"},
       {"eye", "torch.eye"},
       {"linspace", "torch.linspace"},
       {"randn", "torch.randn"},
       {"standard_normal", "torch.randn"},
       {"normal", "torch.randn"},
       {"rand", "torch.rand"},
       {"uniform", "torch.rand"},
       {"random", "torch.rand"},
       {"randint", "torch.randint"}});
  const auto found = std::ranges::find(kMakers, made->method,
                                       &std::pair<std::string_view, std::string_view>::first);
  if (found != kMakers.end()) return found->second;
  return made->method.ends_with("Tensor") && has_only_sizes(*made) ? "torch.empty"
                                                                   : std::string_view();
}

std::string remade_text(const Call& maker, std::string_view device) {
  const std::string_view with = torch_maker(maker);
  return with.empty() ? "Make it on the GPU, with device="
                      : fmt::format("Make it on the GPU: {}(…, device={})", with, device);
}

// `x.shape`, `images.size()`, `*x.shape`: as large as a batch of the network's input, which the
// tensor is by its name.
bool is_shape_of_input(const Expr& size) {
  const Expr* part = size.kind == ExprKind::starred ? size.children().front() : &size;
  const bool is_method =
      part->call() != nullptr && part->call()->method == "size" && part->call()->arguments.empty();
  const bool is_shape = part->kind == ExprKind::attribute && part->word() == "shape";
  const Expr* whole = is_method  ? part->call()->receiver
                      : is_shape ? part->children().front()
                                 : nullptr;
  const std::string name = lower(last_name(whole));
  return is_one_of(name,
                   {"x", "x0", "x_0", "x_t", "x_start", "data", "batch", "input", "inputs"}) ||
         contains_any(name, {"img", "image", "pixel", "frame", "video"});
}

// The sizes of the tensor, as written: of zeros(a, b) and zeros((a, b)); of randint(0, 9, (a, b))
// the last.
std::vector<const Expr*> sizes_of(const Call& maker) {
  const Argument* named = maker.argument("size");
  std::vector<const Expr*> given;
  if (named != nullptr) {
    given = {named->value};
  } else {
    for (const Argument& argument : maker.arguments) {
      if (argument.name.empty()) given.push_back(argument.value);
    }
    const bool is_last = is_one_of(maker.method, {"randint", "normal", "uniform", "integers"});
    if (is_last && !given.empty()) given = {given.back()};
    if (maker.method == "full" && !given.empty()) given = {given.front()};
    if (maker.method == "eye" && given.size() == 1) given.push_back(given.front());
    const bool has_one = is_one_of(maker.method, {"arange", "linspace", "randperm"});
    if (has_one && given.size() > 1) given.resize(1);
  }
  const Expr* whole = given.size() == 1 ? resolved(given.front()) : nullptr;
  const bool is_packed =
      whole != nullptr && (whole->kind == ExprKind::tuple || whole->kind == ExprKind::list);
  if (!is_packed) return given;
  return {whole->children().begin(), whole->children().end()};
}

// From about a megabyte on: known sizes, those of the input where that is large, a square, or an
// image and the like for each sample. Labels, times and masks of one channel are not.
bool is_large(const SourceFacts& facts, const Call& maker) {
  constexpr double kManyElements = 256 * 1024;
  const std::vector<const Expr*> sizes = sizes_of(maker);
  if (std::ranges::any_of(sizes, [](const Expr* size) { return is_shape_of_input(*size); })) {
    return has_large_samples(facts, *maker.file);
  }
  double known = 1;
  std::size_t open = 0, ones = 0;
  for (const Expr* size : sizes) {
    const Value value = facts.value(size);
    const bool is_known = value.kind == ValueKind::integer;
    known *= is_known ? static_cast<double>(std::max<std::int64_t>(value.integer, 1)) : 1;
    open += is_known ? 0U : 1U;
    ones += is_known && value.integer == 1 ? 1U : 0U;
  }
  if (known >= kManyElements) return true;
  // A matrix of classes or ways is small.
  const bool is_square = sizes.size() == 2 && open == 2 && maker.method != "eye" &&
                         maker.file->slice(sizes[0]->range) == maker.file->slice(sizes[1]->range);
  constexpr std::size_t kOfImages = 3;
  return is_square || (open >= kOfImages && ones == 0);
}

// Of an own function what it makes there.
std::vector<const Call*> makers_in(const SourceFacts& facts, const Call& maker) {
  std::vector<const Call*> makers;
  const auto add = [&](const FunctionDef& function) {
    for (const Call* call : function.calls) {
      if (makes_on_host(facts, *call)) makers.push_back(call);
    }
  };
  const bool is_library = maker.name.starts_with("torch.") || maker.name.starts_with("numpy.");
  if (maker.target != nullptr) {
    add(*maker.target);
  } else if (!is_library && maker.receiver != nullptr) {  // of an object that is not known
    for (const auto& file : facts.files) {
      for (const FunctionDef* function : file->functions) {
        if (function->class_def != nullptr && function->name == maker.method) add(*function);
      }
    }
  }
  return makers.empty() ? std::vector<const Call*>{&maker} : makers;
}

// Drawn by a generator, which each device has one of its own of.
bool is_random(const Call& maker, const Call& move) {
  const std::string_view text = move.file->slice(move.expr->range);
  return maker.method.starts_with("rand") ||
         contains(maker.file->slice(maker.expr->range), "random") ||
         contains_any(text, {"normal_(", "uniform_(", "random_(", "bernoulli", "exponential_("});
}

// `tokens` of unknown type, where the file asks `tokens.size()`.
bool is_used_as_tensor(const File& file, const Expr& place) {
  if (!place.type->is(TypeKind::unknown)) return false;
  const std::string name = code_text(file, &place);
  constexpr std::string_view kOfTensors[] = {".size(", ".shape", ".dim(",
                                             ".new_",  ".dtype", ".ne("};
  return std::ranges::any_of(kOfTensors, [&](std::string_view member) {
    return contains(file.text, name + std::string(member));
  });
}

Finding finding_for(const SourceFacts& facts, const Call& maker, const Call& move) {
  const std::vector<const Call*> makers = makers_in(facts, maker);
  const bool is_torch = maker.name.starts_with("torch.") && !maker.method.ends_with("Tensor") &&
                        maker.method != "from_numpy" && maker.method != "tensor";
  const Expr* place = &move == &maker ? nullptr : place_of(move);
  std::string device = place != nullptr ? code_text(*move.file, place) : std::string("\"cuda\"");
  const bool names_tensor =
      place != nullptr && (move.method == "type_as" || place->type->is(TypeKind::tensor) ||
                           is_used_as_tensor(*move.file, *place));
  if (names_tensor && !device.ends_with(".device")) device += ".device";
  const bool is_inside = makers.size() == 1 && makers.front() != &maker;
  Fix fix{is_torch    ? fmt::format("Pass device={} to torch.{}, so that the GPU fills it", device,
                                    maker.method)
          : is_inside ? fmt::format("Pass device= to {} at {}, so that the GPU fills it",
                                    makers.front()->name, place_text(*makers.front(), *maker.file))
                      : remade_text(maker, device),
          std::ranges::any_of(makers, [&](const Call* one) { return is_random(*one, move); })
              ? Exactness::changes_training
          : rounds_alike(facts, maker, move) ? Exactness::bit_exact
                                             : Exactness::exact_arithmetic};
  if (is_torch && maker.statement == move.statement && &move != &maker) {
    const auto made = add_argument(maker, "device", device);
    add_edit(made, fix);
    if (made && only_moves(maker, move)) {
      add_edit(replace(*maker.file, {maker.expr->range.end, move.expr->range.end}, ""), fix);
    }
  }
  Finding finding =
      finding_at(maker,
                 fmt::format("`{}` is made on the host and copied to the GPU in each pass",
                             code_text(*maker.file, maker.expr)),
                 std::move(fix));
  finding.evidence = {
      &move == &maker ? Evidence::found("the class is torch.cuda.FloatTensor where there is a GPU")
                      : Evidence::found(fmt::format("moved at {}", place_text(move, *maker.file))),
      Evidence::published(
          "PyTorch performance tuning guide, Create tensors directly on the target device")};
  return finding;
}

// An evaluation or sampling takes far fewer steps than the training.
bool is_in_training_step(const SourceFacts& facts, const Call& call) {
  return is_hot(facts, call) || any_way(facts, call, [](const Way& way) {
           const bool is_forward =
               way.is_open() && way.passes_forward && !(way.gradients_off && way.forward_is_off);
           return (way.trains() || is_forward) && !way.is_shut_for_good &&
                  !way.is_off_when_launched && !way.is_for_inference;
         });
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::unordered_set<const Call*> seen;
  for (const auto& file : facts.files) {
    const bool trains = trains_on_gpu(facts, *file);
    for (const Call* call : file->calls) {
      const Call* maker = moved_maker(facts, *call);
      if (maker == nullptr) continue;
      const bool runs =
          trains ? is_hot_or_evaluated(facts, *call) : is_evaluated_on_gpu(facts, *call);
      if (!runs) continue;
      if (!seen.insert(maker).second) continue;
      Finding finding = finding_for(facts, *maker, *call);
      const bool steps = trains && is_in_training_step(facts, *call);
      if (steps) add_step(facts, *call->statement, finding);
      const auto makers = makers_in(facts, *maker);
      const bool costs =
          std::ranges::any_of(makers, [&](const Call* one) { return is_large(facts, *one); });
      if (!steps || !costs) finding.own_level = Level::info;
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace made_on_host_then_moved

extern const Rule input_pipeline_made_on_host_then_moved{
    .id = "input_pipeline/made-on-host-then-moved",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "Tensor created on the CPU, then moved to the GPU",
    .doc = made_on_host_then_moved::kDoc,
    .in_scripts = made_on_host_then_moved::find};

}  // namespace rooftile
