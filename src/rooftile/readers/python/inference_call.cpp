// Calls of inference.h: what runs, what it gets and what it gives.
#include <algorithm>
#include <utility>

#include "rooftile/base/text.h"
#include "rooftile/readers/python/derive.h"
#include "rooftile/readers/python/device_words.h"
#include "rooftile/readers/python/inference.h"

namespace rooftile::source {
namespace {

constexpr int kMaxDeviceDepth = 8;
constexpr std::size_t kMaxCallers = 1000;  // that are kept of one function

// Calls that fill a class of options from the command line.
bool reads_configuration(std::string_view name) {
  return name == "tyro.cli" || name == "pyrallis.parse" || name == "draccus.parse" ||
         name == "simple_parsing.parse" || name == "jsonargparse.CLI" ||
         name == "omegaconf.OmegaConf.structured";
}

// getattr(module, name)(x), table[name](x)
bool is_open_choice(const Expr& callee) {
  return callee.type->is(TypeKind::unknown) && callee.full_name().empty() &&
         (callee.kind == ExprKind::call || callee.kind == ExprKind::subscript);
}

}  // namespace

const Type* Inference::infer_call(Expr& expr) {
  for (const Expr* child : expr.children()) infer(child);
  Call& call = writable(*expr.call());
  const Expr& callee = *expr.children()[0];
  const Expr& choice = chosen_before(callee);
  const bool may_be_picked = is_open_choice(choice);
  const Type* picked = may_be_picked ? picked_by_name(choice, call) : nullptr;
  if (may_be_picked && picked == nullptr) {
    if (const std::string_view name = picked_of_library(choice); !name.empty()) {
      const Known& what = known(name);
      call.name = what.name;
      return library_result(call, what);
    }
  }
  return call_of(call, picked != nullptr ? *picked : *callee.type);
}

// What is called is one of several classes or their objects: it may run the code of each, and
// stands for the first; it has a name where they agree on it.
const Type* Inference::call_of_each(Call& call, const Type& type,
                                    const std::function<const Type*(const Type&)>& call_of_one) {
  const Type* made = nullptr;
  const FunctionDef* first = nullptr;
  std::string_view name;
  for (const ClassDef* def : *type.choices) {
    Type one = type;
    one.class_def = def;
    one.choices = nullptr;
    call.target = nullptr;
    made = join(made, call_of_one(*store_.intern(one)));
    if (first == nullptr) first = call.target;
    name = def == type.choices->front() || name == call.name ? call.name : std::string_view();
  }
  call.target = first;
  call.name = name;
  return made;
}

const Type* Inference::call_of(Call& call, const Type& type) {
  const Expr& callee = *call.expr->children()[0];
  call.name = {};
  if (type.choices != nullptr) {
    return call_of_each(call, type, [&](const Type& one) { return call_of(call, one); });
  }
  if (type.function != nullptr) {
    const bool is_of_class =
        call.receiver != nullptr && call.receiver->type->is(TypeKind::class_) &&
        std::ranges::none_of(type.function->decorators,
                             [](const Expr* each) { return each->word() == "classmethod"; });
    // apply(x) gives forward(context, x) its first argument.
    const ClassDef* owner = type.function->class_def;
    const bool is_applied =
        owner != nullptr && owner->is_autograd_function && callee.word() != type.function->name;
    const bool bound = is_applied || (owner != nullptr && call.receiver != nullptr && !is_of_class);
    return own_function_call(call, *type.function, bound);
  }
  if (type.is(TypeKind::class_) && type.class_def != nullptr) {
    return own_class_call(call, *type.class_def);
  }
  if (!callee.full_name().empty() && type.is(TypeKind::unknown)) {
    const Known& what = known(callee.full_name());
    call.name = what.name;
    if (call.name == "exec" && function_ == nullptr) writable(*file_).runs_exec = true;
    return library_result(call, what);
  }
  const bool callable = type.is(TypeKind::module) || type.is(TypeKind::loss) ||
                        find_method(type.class_def, "__call__") != nullptr;
  if (call.receiver == nullptr || callable) return value_call(call, type);
  const Type& receiver = *call.receiver->type;
  // What libraries do to an object does not depend on its own class.
  const bool is_own = receiver.choices != nullptr &&
                      std::ranges::any_of(*receiver.choices, [&](const ClassDef* def) {
                        return find_method(def, call.method) != nullptr;
                      });
  if (!is_own) return method_call(call, receiver);
  return call_of_each(call, receiver, [&](const Type& one) {
    const bool has_it = find_method(one.class_def, call.method) != nullptr;
    return has_it ? method_call(call, one) : &unknown_type();
  });
}

void Inference::pass(const FunctionDef& def, std::size_t index, const Type* type) {
  if (index >= def.parameters.size() || type->guessed) return;
  Parameter& parameter = writable(def.parameters[index]);
  if (parameter.starred || parameter.double_starred) return;
  const Type* joined = join(parameter.type, type);
  if (joined == parameter.type) return;
  parameter.type = joined;
  enqueue(def);
}

// What `*rest` takes reaches no parameter behind it.
void Inference::pass_placed(const FunctionDef& def, std::size_t index, const Type* type) {
  const auto rest = std::ranges::find(def.parameters, true, &Parameter::starred);
  if (std::cmp_less(index, rest - def.parameters.begin())) pass(def, index, type);
}

void Inference::pass_named(const FunctionDef& def, std::string_view name, const Type* type) {
  const auto named = std::ranges::find(def.parameters, name, &Parameter::name);
  pass(def, static_cast<std::size_t>(named - def.parameters.begin()), type);
}

namespace {
// `loss(torch.rand(4, 3), labels)` under the main guard or in a test: where its tensors are says
// nothing of those that a training passes.
bool tries_out(const Call& call) {
  if (call.function != nullptr) {
    const std::string_view name = call.function->name;
    return name.starts_with("test") || name.starts_with("demo") || contains(name, "example");
  }
  for (const Statement* outer = call.statement; outer != nullptr; outer = outer->parent) {
    if (outer->kind == StatementKind::for_ || outer->kind == StatementKind::while_) return false;
    if (outer->kind != StatementKind::if_) continue;
    if (find_inside(outer->value, [](const Expr& part) { return part.word() == "__name__"; })) {
      return true;
    }
  }
  return false;
}
}  // namespace

void Inference::pass_arguments(const Call& call, const FunctionDef& def, bool skip_first) {
  const Call* partial = partial_behind(call);
  const std::size_t first = partial != nullptr ? pass_bound(*partial, def) : skip_first ? 1 : 0;
  const bool is_trial = tries_out(call);
  for (const Argument& argument : call.arguments) {
    if (argument.unpacked) continue;
    const Type* type = argument.value->type;
    if (is_trial && *type == *tensor(Residence::host)) type = tensor(Residence::unknown);
    if (argument.name.empty()) {
      pass_placed(def, argument.position + first, type);
    } else {
      pass_named(def, argument.name, type);
    }
  }
}

const Type* Inference::own_function_call(Call& call, const FunctionDef& def, bool bound) {
  call.name = def.full_name;
  call.target = &def;
  std::vector<const Call*>& callers = writable(def).callers;
  const bool room = callers.size() < kMaxCallers;
  if (room && std::ranges::find(callers, &call) == callers.end()) callers.push_back(&call);
  const bool is_static = std::ranges::any_of(
      def.decorators, [](const Expr* each) { return each->word() == "staticmethod"; });
  const bool has_context = def.class_def != nullptr && def.class_def->is_autograd_function;
  const bool has_self = def.class_def != nullptr && (!is_static || has_context);
  pass_arguments(call, def, bound && has_self);
  if (visits_[&def] == 0) enqueue(def);
  return chosen_argument_of(call, def);
}

const Type* Inference::own_class_call(Call& call, const ClassDef& def) {
  call.name = def.full_name;
  if (const FunctionDef* init = find_method(&def, "__init__")) {
    own_function_call(call, *init, true);
    call.name = def.full_name;
  }
  const std::string_view loader = handed_on_loader(call, def);
  if (!loader.empty()) call.name = loader;
  Type made = instance_of(def);
  made.made_by = &call;
  return store_.intern(made);
}

// from_pretrained(name, torch_dtype=torch.bfloat16)
void Inference::set_weight_dtype(const Call& call, Type& made) {
  for (const std::string_view name : {"torch_dtype", "dtype"}) {
    const Argument* argument = call.argument(name);
    if (argument == nullptr) continue;
    const std::string_view dtype = argument->value->full_name();
    made.half = dtype == "torch.float16" || dtype == "torch.half";
    made.bfloat16 = dtype == "torch.bfloat16";
  }
}

const Type* Inference::library_instance(Call& call, const Known& known) {
  Type made;
  made.kind = known.call.kind;
  made.name = known.name;
  made.made_by = &call;
  if (made.kind == TypeKind::module) set_weight_dtype(call, made);
  if (made.kind == TypeKind::device) {
    const bool named = known.name == "torch.device" && !call.arguments.empty();
    made.residence = named ? device_residence(call.arguments[0].value) : Residence::gpu;
  }
  if (made.kind == TypeKind::module || made.kind == TypeKind::loss) {
    made.residence = Residence::host;
  }
  return store_.intern(made);
}

// An object of the dataclass that is handed over.
const Type* Inference::configuration_of(const Call& call) {
  for (const Argument& argument : call.arguments) {
    const Type& given = *argument.value->type;
    if (!given.is(TypeKind::class_) || given.class_def == nullptr) continue;
    Type made = instance_of(*given.class_def);
    made.kind = TypeKind::host_object;
    return store_.intern(made);
  }
  return &unknown_type();
}

const Type* Inference::library_result(Call& call, const Known& known) {
  switch (known.call.gives) {
    case Gives::instance:
      return library_instance(call, known);
    case Gives::new_tensor:
      return new_tensor(call);
    case Gives::gpu_tensor:
      return tensor(Residence::gpu);
    case Gives::from_tensors:
      return from_tensors(call);
    case Gives::wrapped:
      return wrapped(call, known.name);
    case Gives::argument:
      return call.arguments.empty() ? &unknown_type() : call.arguments[0].value->type;
    case Gives::number:
      return simple(TypeKind::number);
    case Gives::text:
      return simple(TypeKind::text);
    case Gives::container:
      if (call.arguments.size() != 1) return simple(TypeKind::container);
      return container_of(call.arguments[0].value->type->element);
    case Gives::array:
      return simple(TypeKind::array);
    case Gives::host_object:
      return simple(TypeKind::host_object);
    case Gives::unknown:
      break;
  }
  if (known.name == "super") return base_object(call);
  if (known.name == "functools.partial") return partial_of(call);
  if (known.name == "click.option") record_click_option(call);
  if (reads_configuration(known.name)) return configuration_of(call);
  if (known.name == "map" && call.arguments.size() == 2) return mapped(call);
  if (known.name == "next" && !call.arguments.empty()) return next_of(call);
  return loaded_or_made(call);
}

// `map(lambda x: x.cuda(), batch)`
const Type* Inference::mapped(const Call& call) {
  const Expr& made = *call.arguments[0].value;
  if (made.kind != ExprKind::lambda) return &unknown_type();
  const Type& each = *made.children().back()->type;
  if (each.is(TypeKind::unknown) && each.on_gpu()) return container_of(tensor(Residence::gpu));
  return container_of(&each);
}

const Type* Inference::new_tensor(const Call& call) {
  const Argument* device = call.argument("device");
  if (device != nullptr) return tensor(device_residence(device->value));
  const bool is_apart = with_default_place_ && !with_default_place_->contains(*call.file);
  if (default_places_.empty() || is_apart) return tensor(Residence::host);
  // Of another file of the program it is not known whether it runs before or after.
  const auto own = default_places_.find(call.file);
  return tensor(own == default_places_.end() ? Residence::unknown : own->second);
}

// A tensor where the tensors among the arguments are; of unknown place without any.
const Type* Inference::from_tensors(const Call& call) {
  const Type* joined = nullptr;
  bool all_numbers = !call.arguments.empty();
  for (const Argument& argument : call.arguments) {
    const Type* type = argument.value->type;
    all_numbers = all_numbers && type->is(TypeKind::number);
    if ((type->is(TypeKind::container) || type->is(TypeKind::gradients)) &&
        type->element != nullptr) {
      type = type->element;
    }
    if (!type->is(TypeKind::tensor)) continue;
    joined = joined == nullptr ? type : combine(joined, type);
  }
  // The norm of gradients has no graph of its own.
  if (joined != nullptr && call.method.starts_with("clip_grad_")) return tensor(joined->residence);
  if (joined != nullptr) return joined;
  if (const Argument* device = call.argument("device")) {
    return tensor(device_residence(device->value));
  }
  if (!call.name.starts_with("torch.")) {  // sum, max, abs of Python
    return all_numbers ? simple(TypeKind::number) : &unknown_type();
  }
  return tensor(Residence::unknown);
}

const Type* Inference::wrapped(Call& call, std::string_view name) {
  if (call.arguments.empty()) return &unknown_type();
  Type made = *call.arguments[0].value->type;
  // Of a model that an unknown function made, and that may have been moved.
  if (made.is(TypeKind::unknown) || made.is(TypeKind::tensor)) made.kind = TypeKind::module;
  made.requires_grad = false;
  if (made.is(TypeKind::function)) return store_.intern(made);  // a compiled function
  made.guessed = false;
  if (name == "torch.compile") {
    made.compiled = true;
  } else if (name == "torch.nn.DataParallel") {
    made.data_parallel = true;
    made.residence = Residence::gpu;
  } else if (name.find("fsdp") != std::string_view::npos) {
    made.fsdp = true;
    made.residence = Residence::gpu;
  } else {
    made.ddp = true;
    if (call.argument("device_ids", 1) != nullptr) made.residence = Residence::gpu;
  }
  return store_.intern(made);
}

namespace {

bool is_assigned(const Expr& name) {
  return name.binding() != nullptr && name.binding()->kind == StatementKind::assignment;
}

}  // namespace

// By the name itself, or by what was assigned to it.
Residence Inference::named_residence(const Expr& name, int depth) {
  if (names_a_gpu(name.word())) return Residence::gpu;
  return is_assigned(name) ? device_residence(name.binding()->value, depth + 1)
                           : Residence::unknown;
}

// `args.cuda is not None` where that option has no default: false, and the opposite of `is None`.
std::optional<bool> Inference::truth_without_gpu(const Expr& condition, int depth) const {
  if (depth > kMaxDeviceDepth || condition.children().size() < 2) return std::nullopt;
  if (condition.kind == ExprKind::logical) {
    const bool deciding = condition.word() == "or";
    const bool is_decided = std::ranges::any_of(condition.children(), [&](const Expr* part) {
      return truth_without_gpu(*part, depth + 1) == deciding;
    });
    return is_decided ? std::optional(deciding) : std::nullopt;
  }
  const Expr& asked = *condition.children()[0];
  const bool asks = condition.kind == ExprKind::comparison && condition.word().starts_with("is") &&
                    condition.children()[1]->kind == ExprKind::none &&
                    asked.kind == ExprKind::attribute && is_one_of(asked.word(), {"cuda", "gpu"});
  if (!asks) return std::nullopt;
  const auto option = store_.options.find(asked.word());
  if (option == store_.options.end() || option->second.several) return std::nullopt;
  const Expr* usual = option->second.value;
  const bool is_unset =
      option->second.action.empty() && (usual == nullptr || usual->kind == ExprKind::none);
  return is_unset ? std::optional(condition.word() == "is") : std::nullopt;
}

namespace {

// cfg.accelerator, args.device, device: what a name says of what it holds.
bool names_a_device(const Expr& expr) {
  if (expr.kind == ExprKind::subscript && expr.children().size() == 2) {
    return names_a_device(*expr.children()[1]);
  }
  if (expr.kind == ExprKind::call) return contains(expr.call()->method, "device");
  const bool has_word = expr.kind == ExprKind::name || expr.kind == ExprKind::attribute ||
                        expr.kind == ExprKind::text;
  return has_word &&
         (contains_any(expr.word(), {"device", "accelerator", "cuda"}) || expr.word() == "dev");
}

}  // namespace

// Where `.to(x)` or device=x puts a tensor.
Residence Inference::device_residence(const Expr* expr, int depth) {
  const Residence place = written_residence(expr, depth);
  const bool is_open = place == Residence::unknown && expr != nullptr && file_->is_for_gpu;
  return is_open && names_a_device(*expr) ? Residence::gpu : place;
}

Residence Inference::chosen_residence(const Expr& conditional, int depth) {
  const Expr& condition = *conditional.children()[1];
  std::optional<bool> asked = truth_without_gpu(condition, depth);
  if (!asked) asked = fixed_truth(condition);
  if (asked) {
    return device_residence(conditional.children()[*asked ? 0 : 2], depth + 1);
  }
  const Residence yes = device_residence(conditional.children()[0], depth + 1);
  const Residence no = device_residence(conditional.children()[2], depth + 1);
  // The usual "cuda" if torch.cuda.is_available() else "cpu".
  return yes == Residence::gpu || no == Residence::gpu ? Residence::gpu : yes;
}

// As far as the source says.
Residence Inference::written_residence(const Expr* expr, int depth) {
  if (expr == nullptr || depth > kMaxDeviceDepth) return Residence::unknown;
  const Type& type = *expr->type;
  if (type.is(TypeKind::tensor) || type.is(TypeKind::module)) return type.residence;
  if (type.is(TypeKind::device) && type.residence != Residence::unknown) return type.residence;
  switch (expr->kind) {
    case ExprKind::integer:
      return Residence::gpu;
    case ExprKind::conditional:
      return chosen_residence(*expr, depth);
    case ExprKind::logical: {  // args.device or "cuda"
      const bool has_gpu = std::ranges::any_of(expr->children(), [&](const Expr* child) {
        return device_residence(child, depth + 1) == Residence::gpu;
      });
      return has_gpu ? Residence::gpu : Residence::unknown;
    }
    case ExprKind::binary:
      return device_residence(expr->children()[0], depth + 1);
    case ExprKind::name:
      return named_residence(*expr, depth);
    case ExprKind::attribute: {
      const Residence named = named_residence(*expr, depth);
      if (named != Residence::unknown || is_assigned(*expr)) return named;
      return option_residence(expr->word(), depth);
    }
    case ExprKind::subscript: {  // config["device"] of a dictionary of options
      const bool has_key =
          expr->children().size() == 2 && expr->children()[1]->kind == ExprKind::text;
      return has_key ? option_residence(expr->children()[1]->word(), depth) : Residence::unknown;
    }
    case ExprKind::call:
      return makes_gpu_device(*expr->call()) ? Residence::gpu : Residence::unknown;
    default:
      return Residence::unknown;
  }
}

// `if torch.cuda.is_available():`, also by the name of a variable that keeps the answer.
bool Inference::asks_for_cuda(const Expr* condition) {
  if (condition == nullptr) return false;
  const bool is_kept = condition->kind == ExprKind::name && is_assigned(*condition);
  const Expr* asked = is_kept ? condition->binding()->value : condition;
  return asked != nullptr && asked->call() != nullptr &&
         asked->call()->name == "torch.cuda.is_available";
}

}  // namespace rooftile::source
