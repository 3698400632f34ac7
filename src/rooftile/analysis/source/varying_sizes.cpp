// Inputs whose size differs from batch to batch, for input_sizes.h.
#include <algorithm>

#include "rooftile/analysis/source/input_sizes.h"
#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"
#include "rooftile/script/reach/reach.h"

namespace rooftile::source {

bool draws_at_random(const Expr* expr) {
  const auto draws = [](const Expr& part) {
    return part.call() != nullptr && draws_number(*part.call());
  };
  return any_inside(expr, [&](const Expr& part) {
    return draws(part) || (part.kind == ExprKind::name && any_inside(resolved(&part), draws));
  });
}

namespace {

// Calls made in the function and, one level down, in own functions that it calls.
std::vector<const Call*> calls_below(const FunctionDef& function) {
  std::vector<const Call*> calls = function.calls;
  for (const Call* call : function.calls) {
    if (call->target == nullptr) continue;
    calls.insert(calls.end(), call->target->calls.begin(), call->target->calls.end());
  }
  return calls;
}

// max([len(x) for x in batch]), or a length from sorting by length.
bool takes_longest(const Call& call) {
  const bool is_max = call.name == "max" || call.method == "max" || call.name == "torch.sort";
  if (!is_max) return false;
  return any_inside(call.expr, [&](const Expr& part) {
    return resolved(&part)->kind == ExprKind::comprehension ||
           (part.call() != nullptr && part.call()->method == "len") || last_name(&part) == "shape";
  });
}

bool fills_up(const Call& call) {
  return is_one_of(call.method, {"zeros", "zero_", "FloatTensor", "LongTensor", "pad", "full",
                                 "new_zeros", "new_full", "IntTensor", "zeros_like"});
}

bool pads_to_longest(const FunctionDef& function) {
  bool longest = false, fills = false;
  for (const Call* call : calls_below(function)) {
    if (call->method == "pad_sequence") return true;
    longest = longest || takes_longest(*call);
    fills = fills || fills_up(*call);
  }
  return longest && fills;
}

// np.zeros((len(batch), longest)): rows of words or numbers, of which no image is made. A list that
// becomes a tensor is filled up by nothing.
bool fills_rows(const Call& call) {
  if (call.arguments.empty() || call.arguments[0].unpacked) return false;
  if (call.method.ends_with("Tensor")) return call.arguments.size() <= 2;
  const Expr& shape = *call.arguments[0].value;
  const bool is_row = shape.kind == ExprKind::tuple || shape.kind == ExprKind::list;
  // torch.zeros(len(batch), longest)
  const auto sizes = std::ranges::count_if(
      call.arguments, [](const Argument& argument) { return argument.name.empty(); });
  if (!is_row && call.method == "zeros" && sizes == 2) return true;
  return call.method != "pad" && is_row && shape.children().size() == 2;
}

// Pads texts only, and stacks the images beside them as they are: those have one size.
bool stacks_beside_rows(const FunctionDef& function) {
  bool stacks = false;
  for (const Call* call : calls_below(function)) {
    if (call->method == "pad_sequence" || (fills_up(*call) && !fills_rows(*call))) return false;
    stacks = stacks || call->name == "torch.stack";
  }
  return stacks;
}

// Cuts pieces of one size at places drawn at random: what is shorter is left out or rare.
bool cuts_at_random(const FunctionDef& function) {
  bool cuts = false;
  for_statements(function.body, [&](const Statement& statement) {
    for_own_expressions(statement, [&](const Expr* expr) {
      visit(expr, [&](const Expr& part) {
        cuts = cuts || part.kind == ExprKind::slice;
        return !cuts;
      });
    });
  });
  return cuts && std::ranges::any_of(calls_below(function), [](const Call* call) {
           return is_one_of(call->method, {"randint", "randrange"});
         });
}

// The function behind collate_fn=…: a function, or an object with __call__.
const FunctionDef* collate_function(const Call& loader) {
  const Argument* argument = loader.argument("collate_fn", 6);
  if (argument == nullptr) return nullptr;
  const Type& type = *argument->value->type;
  if (type.function != nullptr) return type.function;
  return type.class_def != nullptr ? type.class_def->method("__call__") : nullptr;
}

// A batch sampler of the project that draws numbers and hands them on beside each index:
// `batch.append((index, height, width))`.
const ClassDef* sampler_of_sizes(const Call& loader) {
  const Argument* argument = loader.argument("batch_sampler");
  const ClassDef* def = argument == nullptr ? nullptr : argument->value->type->class_def;
  const FunctionDef* iterate = def == nullptr ? nullptr : def->method("__iter__");
  if (iterate == nullptr) return nullptr;
  const auto draws = [](const FunctionDef* method) {
    return std::ranges::any_of(method->calls, [](const Call* call) {
      return draws_number(*call) &&
             is_one_of(call->method, {"randint", "choice", "randrange", "uniform", "integers"});
    });
  };
  const auto gives_rows = [](const Call* call) {
    return call->method == "append" && call->arguments.size() == 1 &&
           call->arguments[0].value->kind == ExprKind::tuple;
  };
  return std::ranges::any_of(def->methods, draws) && std::ranges::any_of(iterate->calls, gives_rows)
             ? def
             : nullptr;
}

}  // namespace

std::optional<SizeSign> varying_input_size(const SourceFacts& facts, const Program& program) {
  for (const Call* loader : constructions_in(facts, program, TypeKind::loader)) {
    const bool is_for_training = !is_for_evaluation(facts, *loader);
    const ClassDef* sampler = sampler_of_sizes(*loader);
    if (sampler != nullptr && is_for_training) {
      return SizeSign{loader, std::string(sampler->name) + " draws a size for each batch"};
    }
    const FunctionDef* collate = collate_function(*loader);
    if (collate == nullptr || !pads_to_longest(*collate) || cuts_at_random(*collate)) continue;
    if (stacks_beside_rows(*collate)) continue;
    if (!is_reached_by_default(facts, *loader) || !is_for_training) continue;
    return SizeSign{loader, std::string(collate->class_def != nullptr ? collate->class_def->name
                                                                      : collate->name) +
                                " pads each batch to its longest"};
  }
  return std::nullopt;
}

std::optional<SizeSign> padded_to_longest(const SourceFacts& facts, const Program& program) {
  for (const Call* call :
       calls_in(facts, program,
                {"transformers.DataCollatorWithPadding", "transformers.DataCollatorForSeq2Seq"})) {
    if (call->argument("pad_to_multiple_of") != nullptr) continue;
    if (facts.argument(*call, "padding").is("max_length")) continue;
    return SizeSign{call, std::string(call->method) + " pads each batch to its longest"};
  }
  return varying_input_size(facts, program);
}

}  // namespace rooftile::source
