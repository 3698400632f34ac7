#include "rooftile/analysis/source/compiled_code.h"

#include <algorithm>
#include <set>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"

namespace rooftile::source {
namespace {

constexpr int kMaxLevels = 6;
constexpr std::size_t kMaxFunctions = 500, kFewBreaks = 3;

std::string_view decorator_name(const Expr& decorator) {
  return decorator.call() != nullptr ? decorator.call()->name : decorator.full_name();
}

bool is_kept_out(const FunctionDef& function) {
  return std::ranges::any_of(function.decorators, [](const Expr* decorator) {
    return is_one_of(decorator_name(*decorator), {"torch.compiler.disable", "torch._dynamo.disable",
                                                  "torch.jit.ignore", "torch.jit.unused"});
  });
}

const FunctionDef* compiled_function(const Type& type) {
  if (type.function != nullptr) return type.function;
  return type.class_def != nullptr ? type.class_def->method("forward") : nullptr;
}

// Surely a tensor, not one by the look of its name.
bool is_tensor(const Expr* expr) {
  return expr->type->is(TypeKind::tensor) && !expr->type->guessed;
}

bool may_be_tensor(const Expr* expr) {
  return expr->type->is(TypeKind::tensor) || expr->type->is(TypeKind::unknown);
}

bool asks_is_compiling(const Expr* condition) {
  return uses_name(condition, {"is_compiling", "is_dynamo_compiling", "is_tracing", "is_scripting",
                               "is_exporting"});
}

bool is_outside_tracing(const Statement& statement) {
  for (const Statement* at = statement.parent; at != nullptr; at = at->parent) {
    if (at->kind == StatementKind::if_ && asks_is_compiling(at->value)) return true;
  }
  return false;
}

bool captures_scalars(const SourceFacts& facts) {
  const auto set = facts.assignments("torch._dynamo.config.capture_scalar_outputs");
  return std::any_of(set.begin(), set.end(), [&](const Statement* statement) {
    return !facts.value(statement->value).is_false();
  });
}

bool reads_scalar(const Call& call) {
  if (is_one_of(call.method, {"item", "tolist"})) {
    return call.receiver != nullptr && call.arguments.empty() && may_be_tensor(call.receiver);
  }
  const bool converts = is_one_of(call.name, {"float", "int", "bool"});
  return converts && call.arguments.size() == 1 && is_tensor(call.arguments[0].value);
}

bool leaves_torch(const Call& call) {
  if (is_one_of(call.name, {"print", "breakpoint", "pdb.set_trace", "ipdb.set_trace"})) return true;
  if (call.name.starts_with("logging.")) return call.method != "getLogger";
  const bool logs = is_one_of(call.method, {"info", "debug", "warning", "error"});
  if (logs && is_one_of(last_name(call.receiver), {"logger", "log", "LOG", "LOGGER", "_logger"})) {
    return true;
  }
  if (call.method == "numpy" && call.receiver != nullptr) return may_be_tensor(call.receiver);
  return call.name.starts_with("numpy.") &&
         std::any_of(call.arguments.begin(), call.arguments.end(),
                     [](const Argument& argument) { return is_tensor(argument.value); });
}

// x.sum(), torch.any(x): a tensor made there by PyTorch; own functions may return a plain bool.
bool is_tensor_operation(const Expr* expr) {
  return is_tensor(expr) && expr->call() != nullptr && expr->call()->target == nullptr &&
         is_one_of(expr->call()->method, {"any", "all", "sum", "max", "min", "mean", "norm", "abs",
                                          "isnan", "isinf", "prod", "count_nonzero", "item"});
}

// `if x.sum() > 0`, `while mask.any()`.
bool tests_tensor(const Statement& statement) {
  if (statement.kind != StatementKind::if_ && statement.kind != StatementKind::while_) return false;
  const Expr* condition = statement.value;
  while (condition->kind == ExprKind::logical && condition->word() == "not") {
    condition = condition->children()[0];
  }
  if (condition->kind != ExprKind::comparison) return is_tensor_operation(condition);
  return is_one_of(condition->word(), {"<", ">", "<=", ">=", "==", "!="}) &&
         std::any_of(condition->children().begin(), condition->children().end(),
                     is_tensor_operation);
}

std::string call_ending(const Call& call) {
  std::string text(call.method.empty() ? call.name : call.method);
  if (call.receiver != nullptr) {
    text = std::string(call.file->slice(call.receiver->range)) + "." + text;
  }
  constexpr std::size_t kMost = 40;
  if (text.size() > kMost) text = "..." + text.substr(text.size() - kMost);
  return text + (call.arguments.empty() ? "()" : "(...)");
}

}  // namespace

std::vector<const Call*> compile_calls(const SourceFacts& facts) {
  std::vector<const Call*> calls = facts.calls("torch.compile");
  for (const Call* call : facts.method_calls("compile")) {
    const bool is_module = call->receiver != nullptr && call->receiver_type().is(TypeKind::module);
    if (is_module && call->target == nullptr) calls.push_back(call);
  }
  return calls;
}

namespace {

// What the call compiles; null for a decorator with arguments and for what is not known.
const FunctionDef* compiled_by(const Call& call) {
  const Argument* model = call.argument("model", 0);
  const Expr* argument = model != nullptr ? model->value : nullptr;
  const Expr* expr = call.name == "torch.compile" ? argument : call.receiver;
  return expr == nullptr ? nullptr : compiled_function(*expr->type);
}

void add_decorated(const SourceFacts& facts, const File& file, std::vector<Compiled>& found) {
  if (!has_text(file, "compile") || !trains_on_gpu(facts, file)) return;
  for (const FunctionDef* function : file.functions) {
    for (const Expr* decorator : function->decorators) {
      if (decorator_name(*decorator) == "torch.compile") found.push_back({nullptr, function});
    }
  }
}

}  // namespace

std::vector<Compiled> compiled_code(const SourceFacts& facts) {
  std::vector<Compiled> found;
  for (const Call* call : compile_calls(facts)) {
    if (!trains_on_gpu(facts, *call->file) || !is_reached_by_default(facts, *call)) continue;
    if (const FunctionDef* function = compiled_by(*call)) found.push_back({call, function});
  }
  for (const auto& file : facts.files) add_decorated(facts, *file, found);
  return found;
}

std::vector<const FunctionDef*> traced_functions(const FunctionDef& root) {
  std::vector<const FunctionDef*> traced{&root}, level{&root};
  std::set<const FunctionDef*> seen{&root};
  for (int depth = 0; depth < kMaxLevels; ++depth) {
    std::vector<const FunctionDef*> next;
    for (const FunctionDef* function : level) {
      for (const Call* call : function->calls) {
        const FunctionDef* target = call->target;
        if (target == nullptr || target->name == "__init__" || is_kept_out(*target)) continue;
        if (traced.size() >= kMaxFunctions || !seen.insert(target).second) continue;
        traced.push_back(target);
        next.push_back(target);
      }
    }
    level = std::move(next);
  }
  return traced;
}

std::vector<GraphBreak> graph_breaks(const SourceFacts& facts, const FunctionDef& function) {
  std::vector<GraphBreak> breaks;
  const bool scalars_are_captured = captures_scalars(facts);
  const auto add = [&](const Statement& statement, std::string text) {
    if (!breaks.empty() && breaks.back().statement == &statement) return;
    if (is_outside_tracing(statement) || !is_reached_by_default(facts, statement)) return;
    breaks.push_back({&statement, std::move(text)});
  };
  for_statements(function.body, [&](const Statement& statement) {
    if (statement.kind == StatementKind::raise_ || statement.kind == StatementKind::assert_) return;
    if (statement.kind == StatementKind::print) add(statement, "print");
    if (tests_tensor(statement)) add(statement, "a branch on a tensor's value");
    for_own_expressions(statement, [&](const Expr* expr) {
      visit(expr, [&](const Expr& part) {
        if (part.call() == nullptr) return true;
        const bool is_scalar = reads_scalar(*part.call()) && !scalars_are_captured;
        if (is_scalar || leaves_torch(*part.call())) add(statement, call_ending(*part.call()));
        return true;
      });
    });
  });
  return breaks;
}

std::string_view work_class(std::size_t breaks) {
  if (breaks == 0) return "just works";
  return breaks <= kFewBreaks ? "little work" : "slog";
}

bool compiles(const Program& program) {
  return std::any_of(program.files.begin(), program.files.end(), [](const File* file) {
    return has_any_text(*file,
                        {"torch.compile", ".compile(", "torchcompile", "torch_compile", "_dynamo",
                         "use_compile", "compile=", "--compile", "thunder.jit", "import compile"});
  });
}

}  // namespace rooftile::source
