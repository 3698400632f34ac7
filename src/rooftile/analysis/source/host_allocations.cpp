#include "rooftile/analysis/source/host_allocations.h"

#include <algorithm>
#include <unordered_set>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/value_places.h"
#include "rooftile/base/text.h"
#include "rooftile/script/flow/sources.h"

namespace rooftile::source {
namespace {

using script::SourceStep;

// `torch.zeros` of the package "torch." and the words {"zeros", …}.
bool is_last_word(std::string_view name, std::string_view package, Words words) {
  if (!name.starts_with(package)) return false;
  const std::string_view last = name.substr(name.rfind('.') + 1);
  return std::find(words.begin(), words.end(), last) != words.end();
}

// A number, None or a dtype.
bool is_number(const Expr& expr) {
  return expr.type->is(TypeKind::number) || expr.kind == ExprKind::none ||
         expr.type->is(TypeKind::dtype) ||
         (expr.kind == ExprKind::unary && !expr.type->is(TypeKind::tensor));
}

// A number, x.size(), x.shape, *x.shape; of several arguments also one that is not known.
bool is_size(const Expr& value, bool is_one_of_several) {
  if (value.type->is(TypeKind::number)) return true;
  const Expr* root = resolved(&value);
  while (root->kind == ExprKind::starred || root->kind == ExprKind::subscript) {
    root = root->children()[0];
  }
  if (last_name(root) == "shape" || (root->call() != nullptr && root->call()->method == "size")) {
    return true;
  }
  // x.size() + (n,)
  if (root->kind == ExprKind::binary && root->word() == "+" &&
      is_size(*root->children()[0], false) && root->children()[1]->kind == ExprKind::tuple) {
    return true;
  }
  if (root->kind == ExprKind::tuple) {
    return std::all_of(root->children().begin(), root->children().end(),
                       [](const Expr* part) { return is_size(*part, true); });
  }
  // FloatTensor(len(x), max(lengths))
  if (is_one_of_several && root->call() != nullptr &&
      is_one_of(root->call()->name, {"max", "min"})) {
    return true;
  }
  return is_one_of_several && value.type->is(TypeKind::unknown) && value.call() == nullptr;
}

bool fills_in_place(std::string_view method) {
  return is_one_of(method, {"random_", "zero_", "fill_", "normal_", "uniform_", "bernoulli_"});
}

// LongTensor(n).random_(10): what is overwritten at once had no values.
bool is_filled_at_once(const Call& call) {
  const Expr* outer = call.expr->parent;
  return call.arguments.size() == 1 && call.arguments.front().value->kind != ExprKind::list &&
         outer != nullptr && outer->kind == ExprKind::attribute && fills_in_place(outer->word());
}

bool is_zero(const Expr* expr) { return expr->kind == ExprKind::integer && expr->word() == "0"; }

// torch.empty(0), torch.zeros(n, 0), torch.zeros((0, 4)): nothing to fill and nothing to copy.
bool holds_nothing(const Call& call) {
  return is_last_word(call.name, "torch.", {"empty", "zeros", "ones", "rand", "randn"}) &&
         std::ranges::any_of(call.arguments, [](const Argument& argument) {
           const Expr* size = argument.value;
           const bool is_list = size->kind == ExprKind::tuple || size->kind == ExprKind::list;
           return (argument.name.empty() || argument.name == "size") &&
                  (is_zero(size) || (is_list && std::ranges::any_of(size->children(), is_zero)));
         });
}

// In a `for` below the statement that makes the tensor: `for i, n in enumerate(lengths): mask[i,
// n:] = 0`.
bool is_in_loop_of_its_own(const Statement& fill, const Statement& made) {
  for (const Statement* outer = fill.parent; outer != nullptr; outer = outer->parent) {
    if (outer->kind == StatementKind::for_) return !is_within(made, *outer);
  }
  return false;
}

// Whether items of the variable are set between, but to plain numbers.
bool is_filled(std::string_view variable, const Statement& made, const Statement& used,
               bool in_loops_only) {
  return std::ranges::any_of(made.file->statements, [&](const Statement* statement) {
    const bool is_between = statement->function == made.function &&
                            statement->range.begin > made.range.begin &&
                            statement->range.begin < used.range.begin;
    const Expr* target = is_between ? statement->target : nullptr;
    const bool is_item = target != nullptr && target->kind == ExprKind::subscript;
    while (is_item && target->kind == ExprKind::subscript) target = target->children()[0];
    const bool fills = is_item && statement->kind == StatementKind::assignment &&
                       target->kind == ExprKind::name && target->word() == variable &&
                       statement->value != nullptr;
    if (!fills) return false;
    const bool is_number = statement->value->type->is(TypeKind::number);
    return (!is_number && !in_loops_only) || is_in_loop_of_its_own(*statement, made);
  });
}

// The class that a name was set to; of one for each device that of the GPU.
const Expr& chosen_class(const Expr& callee) {
  const Expr* made = resolved(&callee);
  const bool is_choice = made->kind == ExprKind::conditional;
  return is_choice ? *made->children()[0] : *made;
}

// x.view(a, b): what it gets are sizes.
bool takes_sizes(const Call& call) {
  return is_one_of(call.method, {"to", "expand", "view", "reshape", "repeat", "unsqueeze", "type",
                                 "expand_as", "view_as", "reshape_as", "type_as"}) ||
         fills_in_place(call.method);
}

// Goes back to what a value is made of; all of that is made on the host, or numbers.
class AllocationSearch {
 public:
  explicit AllocationSearch(const SourceFacts& facts) : facts_(facts) {}

  const Call* find(const Expr& value, const FunctionDef* function) {
    const Call* found = nullptr;
    const auto note = [&](const Call& call) {
      // Of what each pass makes and what was made before, the first tells.
      const bool is_newer = found != nullptr && loop_around(call.statement) != nullptr &&
                            loop_around(found->statement) == nullptr;
      if (found == nullptr || is_newer) found = &call;
      return SourceStep::stop;
    };
    const bool has_other = script::find_source(facts_, value, [&](const Expr& part) {
      const Call* call = part.call();
      if (&part == &value && call != nullptr && open_.contains(call)) return SourceStep::go_on;
      if (part.statement->function != function) {
        // What a caller passes beside it, a size or a factor.
        const bool may_be_number =
            open_.empty() && part.type->is(TypeKind::unknown) && call == nullptr;
        return is_number(part) || may_be_number ? SourceStep::stop : SourceStep::found;
      }
      if (call == nullptr) return step_of(part);
      return allocates(*call) ? note(*call) : step_of_call(*call);
    });
    return has_other ? nullptr : found;
  }

  // np.zeros(n), np.random.choice(n), not drawn by what the GPU has computed: `p=weights.cpu()`.
  bool is_of_numpy(const Call& call) {
    const bool makes =
        call.name.starts_with("numpy.random.") ||
        is_last_word(call.name, "numpy.", {"zeros", "ones", "full", "eye", "arange", "linspace"});
    const Argument* weights = makes ? call.argument("p") : nullptr;
    return makes && (weights == nullptr || !was_on_gpu(facts_, *weights->value));
  }

  bool is_allocation(const Call& call) {
    if (call.argument("device") != nullptr || holds_nothing(call)) return false;
    if (std::count(call.name.begin(), call.name.end(), '.') == 1 &&
        is_last_word(call.name, "torch.",
                     {"zeros", "ones", "full", "empty", "rand", "randn", "randint", "randperm",
                      "arange", "eye", "linspace", "logspace", "hann_window", "hamming_window",
                      "blackman_window", "bartlett_window", "kaiser_window"})) {
      return call.expr->type->residence == Residence::host;  // with no other default place
    }
    const Expr& callee = *call.expr->children().front();
    const bool is_class = is_legacy_class(callee);
    const bool wraps =
        is_class || is_one_of(call.name, {"torch.from_numpy", "torch.tensor", "torch.as_tensor"});
    if (!wraps || call.arguments.empty()) return false;
    const Expr& given = *call.arguments.front().value;
    const Call* array = is_open(call) ? nullptr : inner(call, given, call.function);
    if (array != nullptr && array->name.starts_with("numpy.")) return true;
    return is_class && !is_gpu_class(callee) && (has_only_sizes(call) || is_filled_at_once(call));
  }

 private:
  bool is_open(const Call& call) const { return open_.contains(&call); }

  const Call* inner(const Call& call, const Expr& value, const FunctionDef* function) {
    open_.insert(&call);
    const Call* found = find(value, function);
    open_.erase(&call);
    return found;
  }

  // Makes it, or is a function that does.
  bool allocates(const Call& call) {
    if (is_of_numpy(call) || is_allocation(call)) return !is_filled_with_data(call);
    const bool is_plain = call.target != nullptr && call.name != "torch.nn.Module.__call__" &&
                          call.target->name != "__init__" && call.argument("device") == nullptr;
    return is_plain && !is_open(call) && inner(call, *call.expr, call.target) != nullptr;
  }

  SourceStep step_of(const Expr& part) {
    if (is_number(part) || !part.full_name().empty()) return SourceStep::stop;
    switch (part.kind) {
      case ExprKind::text:  // of einops
        return SourceStep::stop;
      case ExprKind::name:
      case ExprKind::comprehension:
      case ExprKind::subscript:
      case ExprKind::binary:
      case ExprKind::comparison:
      case ExprKind::unary:
      case ExprKind::conditional:
        return SourceStep::go_on;
      case ExprKind::list:
      case ExprKind::tuple:
        return is_added_to(part) ? SourceStep::found : SourceStep::go_on;
      case ExprKind::attribute:
        if (is_one_of(part.word(), {"T", "mT", "data"})) return SourceStep::go_on;
        return part.type->is(TypeKind::unknown) ? SourceStep::stop : SourceStep::found;
      default:
        return SourceStep::found;
    }
  }

  SourceStep step_of_call(const Call& call) {
    const bool is_method = call.receiver != nullptr && call.name.starts_with("torch.Tensor.");
    if (call.argument("device") != nullptr || call.target != nullptr) return SourceStep::found;
    if (call.method == "astype") return SourceStep::receiver;
    if (is_one_of(call.name, {"einops.rearrange", "einops.repeat", "numpy.triu", "numpy.tril"})) {
      return SourceStep::go_on;
    }
    if (is_method && is_one_of(call.method, {"cuda", "item"})) return SourceStep::found;
    // zeros(n, classes).scatter_(1, labels.cpu(), 1): one-hot rows of labels that were on the GPU.
    const bool sets_number = is_method && is_one_of(call.method, {"scatter_", "scatter"}) &&
                             call.arguments.size() == 3 && is_number(*call.arguments[2].value) &&
                             was_on_gpu(facts_, *call.arguments[1].value);
    if (is_method && (takes_sizes(call) || sets_number)) return SourceStep::receiver;
    return call.name.starts_with("torch.") ? SourceStep::go_on : SourceStep::found;
  }

  // `parts = [torch.zeros(n)]`, and then `parts.append(x)`.
  bool is_added_to(const Expr& list) const {
    const Statement* made = list.statement;
    const bool is_kept = made->value == &list && made->target != nullptr &&
                         made->target->kind == ExprKind::name && made->function != nullptr;
    return is_kept && std::ranges::any_of(made->function->calls, [&](const Call* call) {
             return is_one_of(call->method, {"append", "extend", "insert"}) &&
                    last_name(call->receiver) == made->target->word() &&
                    is_reached_by_default(facts_, *call);
           });
  }

  // `mask = np.zeros(n)`, and then `mask[i] = label` somewhere; of a tensor that a function gives
  // back, where a loop fills it.
  bool is_filled_with_data(const Call& call) const {
    const Statement* made = call.statement;
    const bool is_kept =
        made->value == call.expr && made->target != nullptr && made->target->kind == ExprKind::name;
    const bool is_of_numpy = call.name.starts_with("numpy.");
    return is_kept && (is_of_numpy || !open_.empty()) &&
           is_filled(made->target->word(), *made, *made->file->statements.back(), !is_of_numpy);
  }

  const SourceFacts& facts_;
  std::unordered_set<const Call*> open_;  // that are being looked into
};

}  // namespace

bool is_legacy_class(const Expr& callee) {
  const std::string_view name = chosen_class(callee).full_name();
  // What torch.sparse.FloatTensor(indices, values, shape) gets last is no size of its own.
  return name.starts_with("torch.") && name.ends_with("Tensor") && name.size() > 6 &&
         !contains(name, ".sparse.");
}

bool is_gpu_class(const Expr& callee) {
  return chosen_class(callee).full_name().starts_with("torch.cuda.");
}

bool has_only_sizes(const Call& call) {
  const bool is_several = call.arguments.size() > 1;
  return !call.arguments.empty() &&
         std::all_of(call.arguments.begin(), call.arguments.end(), [&](const Argument& argument) {
           const bool is_tuple = argument.value->kind == ExprKind::tuple;
           if (is_tuple && argument.name != "size") return false;
           return is_size(*argument.value, is_several);
         });
}

bool makes_on_host(const SourceFacts& facts, const Call& call) {
  return AllocationSearch(facts).is_allocation(call);
}

const Call* host_allocation(const SourceFacts& facts, const Expr& value) {
  return AllocationSearch(facts).find(value, value.statement->function);
}

bool is_filled_between(std::string_view variable, const Statement& made, const Statement& used) {
  return is_filled(variable, made, used, false);
}

}  // namespace rooftile::source
