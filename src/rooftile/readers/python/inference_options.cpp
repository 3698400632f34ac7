// Options and configuration entries of inference.h: their defaults.
#include <algorithm>
#include <optional>
#include <string>

#include "rooftile/base/text.h"
#include "rooftile/readers/python/inference.h"

namespace rooftile::source {
namespace {

// Roots of configuration trees: cfg, config, _C, __C.
bool is_configuration(std::string_view word) {
  const std::string name = lower(word);
  return contains(name, "cfg") || contains(name, "conf") || name == "_c" || name == "__c" ||
         name == "c";
}

std::string_view option_name(std::string_view flag) {
  flag.remove_prefix(std::min(flag.find_first_not_of('-'), flag.size()));
  return flag;
}

bool is_same_literal(const Expr* a, const Expr* b) {
  if (a == b) return true;
  if (a == nullptr || b == nullptr) return false;
  const bool is_plain = a->kind == ExprKind::integer || a->kind == ExprKind::real ||
                        a->kind == ExprKind::text || a->kind == ExprKind::boolean ||
                        a->kind == ExprKind::none;
  return is_plain && a->kind == b->kind && a->word() == b->word();
}

// What a switch is when it is not given, however it is written: action="store_true" or
// default=False.
std::optional<bool> usual_state(const Option& option) {
  if (option.value != nullptr) {
    const bool is_truth = option.value->kind == ExprKind::boolean;
    return is_truth ? std::optional(option.value->word() == "True") : std::nullopt;
  }
  if (option.action == "store_true") return false;
  return option.action == "store_false" ? std::optional(true) : std::nullopt;
}

bool is_same_option(const Option& a, const Option& b) {
  if (is_same_literal(a.value, b.value) && a.action == b.action) return true;
  const auto state = usual_state(a);
  return state && state == usual_state(b);
}

void add_option(std::string_view key, const Option& option,
                std::unordered_map<std::string_view, Option>& options) {
  const auto [place, added] = options.try_emplace(key, option);
  if (place->second.is_entry) place->second = option;
  if (place->second.is_set_later || added) return;
  if (!is_same_option(place->second, option)) place->second.several = true;
}

void set_default(const Argument& argument, Option& option) {
  const bool differs = option.is_set_later && option.value != argument.value;
  const bool is_several = differs || (option.is_set_later && option.several);
  option = {argument.value, {}, is_several, true};
}

// `_C = CN()`, `_C = CfgNode(new_allowed=True)`
bool is_config_node(const Expr& name) {
  const Statement* binding = name.binding();
  const Call* call =
      binding == nullptr || binding->value == nullptr ? nullptr : binding->value->call();
  return call != nullptr && is_one_of(call->method, {"CN", "CfgNode"}) &&
         std::ranges::all_of(call->arguments,
                             [](const Argument& one) { return !one.name.empty(); });
}

bool parses(const Expr* value) {
  return value != nullptr && value->call() != nullptr &&
         is_one_of(value->call()->method,
                   {"parse_args", "parse_known_args", "Namespace", "SimpleNamespace"});
}

// `args = parser.parse_args()`, or a parameter of the name that such objects have.
bool is_parsed(const Expr& name) {
  if (name.binding() == nullptr) return is_one_of(name.word(), {"args", "opt", "opts"});
  return parses(name.binding()->value);
}

// `opt = parser.parse_args()` and then, in the same block, `opt.device = "cuda"`: whatever was
// asked for.
bool replaces_option(const Expr& target, const Statement& statement) {
  const Statement* parsing = target.children()[0]->binding();
  return parsing != nullptr && parsing->file == statement.file &&
         parsing->block.data() == statement.block.data() && parsing->index < statement.index;
}

// What is written down, or a device.
bool is_known_value(const Expr* value) {
  if (value == nullptr) return false;
  switch (value->kind) {
    case ExprKind::integer:
    case ExprKind::real:
    case ExprKind::boolean:
    case ExprKind::text:
    case ExprKind::list:
      return true;
    default:
      return value->type->is(TypeKind::device);
  }
}

// `not args.no_cuda and torch.cuda.is_available()`
bool is_condition(const Expr* value) {
  return value != nullptr &&
         (value->kind == ExprKind::logical || value->kind == ExprKind::comparison);
}

// `torch.cuda.is_available()`, also `len(args.gpu_ids) > 0 and torch.cuda.is_available()`.
bool asks_for_cuda_inside(const Expr* condition) {
  if (condition == nullptr) return false;
  if (condition->call() != nullptr) return condition->call()->name == "torch.cuda.is_available";
  return condition->kind == ExprKind::logical && condition->word() == "and" &&
         std::ranges::any_of(condition->children(), asks_for_cuda_inside);
}

// add_argument("action"), add_argument("--data", required=True)
bool has_to_be_given(const Call& call) {
  const auto is_given = [&](std::string_view name) { return call.argument(name) != nullptr; };
  if (is_given("default") || is_given("action")) return false;
  const Argument* required = call.argument("required");
  if (required != nullptr) return required->value->word() == "True";
  const Expr* first = call.arguments.empty() ? nullptr : call.arguments[0].value;
  const bool is_positional = call.method == "add_argument" && first != nullptr &&
                             first->kind == ExprKind::text && !first->word().starts_with("-");
  return is_positional && !is_given("nargs");
}

}  // namespace

// What is called batch-size is read as args.batch_size.
void Inference::record_named(std::string_view name, const Call& call, std::string_view action,
                             std::vector<std::string_view> flags) {
  if (name.empty()) return;
  std::string key(name);
  std::ranges::replace(key, '-', '_');
  const Argument* given = call.argument("default");
  Option option;
  option.value = given == nullptr ? nullptr : given->value;
  option.action = action;
  option.is_required = has_to_be_given(call);
  option.flags = std::move(flags);
  const Argument* type = call.argument("type");
  option.is_number = type != nullptr && is_one_of(type->value->word(), {"int", "float"});
  add_option(intern(key), option, store_.options);
  add_option(intern(key), option, store_.file_options[file_]);
}

// parser.add_argument("--batch-size", type=int, default=64)
void Inference::record_option(const Call& call) {
  std::string_view name;
  std::vector<std::string_view> flags;
  for (const Argument& argument : call.arguments) {
    if (!argument.name.empty() || argument.value->kind != ExprKind::text) continue;
    const std::string_view flag = argument.value->word();
    if (name.empty() || flag.starts_with("--")) name = option_name(flag);
    flags.push_back(flag);
  }
  if (const Argument* dest = call.argument("dest")) name = dest->value->word();
  const Argument* action = call.argument("action");
  record_named(name, call, action == nullptr ? "" : action->value->word(), std::move(flags));
}

// @click.option("-n", "--workers", "num_workers", default=0), "--cache/--no-cache"
void Inference::record_click_option(const Call& call) {
  std::string_view name;
  for (const Argument& argument : call.arguments) {
    if (!argument.name.empty() || argument.value->kind != ExprKind::text) continue;
    const std::string_view flag = argument.value->word();
    const bool is_name = !flag.starts_with("-");
    if (name.empty() || is_name || flag.starts_with("--")) name = option_name(flag);
    if (is_name) break;
  }
  const Argument* flag = call.argument("is_flag");
  const bool is_switch = flag != nullptr && flag->value->word() == "True";
  record_named(name.substr(0, name.find('/')), call, is_switch ? "store_true" : "", {});
}

// Before any function is read: where the device of `main()` is depends on the option's default.
void Inference::record_options_of_functions() {
  for (const auto& file : facts_.files) {
    file_ = file.get();
    scope_ = module_scopes_[file_];
    for (const Call* call : file->calls) {
      const bool adds = is_one_of(call->method, {"add_argument", "add_option"});
      const Argument* usual = adds ? call->argument("default") : nullptr;
      if (call->function == nullptr || usual == nullptr) continue;
      if (usual->value->kind != ExprKind::text) continue;
      infer(usual->value);
      record_option(*call);
    }
  }
}

// parser.set_defaults(amp=True)
void Inference::record_defaults(const Call& call) {
  for (const Argument& argument : call.arguments) {
    if (argument.name.empty() || argument.unpacked) continue;
    set_default(argument, store_.options[intern(argument.name)]);
    set_default(argument, store_.file_options[file_][intern(argument.name)]);
  }
}

// `args.device = "cuda"` of an object that no option of the name fills: as good as a default.
void Inference::record_parsed_entry(const Expr& target, const Statement& statement) {
  if (!is_parsed(*target.children()[0])) return;
  auto& own = store_.file_options[file_];
  const bool is_in_branch =
      statement.parent != nullptr && statement.parent->kind == StatementKind::if_;
  // `args.device = "cuda"`, else "cpu": the GPU, with the CPU as the fallback.
  const bool is_device = is_in_branch && statement.value != nullptr &&
                         statement.value->type->is(TypeKind::device) &&
                         asks_for_cuda_inside(statement.parent->value);
  if (is_device && statement.value->type->residence == Residence::host) return;
  const bool is_sure = (is_known_value(statement.value) || is_condition(statement.value)) &&
                       statement.word == "=" && (!is_in_branch || is_device);
  Option option{statement.value, {}, !is_sure};
  option.is_entry = true;
  const auto [place, added] = own.try_emplace(target.word(), option);
  Option& kept = place->second;
  if (!kept.is_entry) {
    if (!is_sure || !replaces_option(target, statement)) return;
    kept = {statement.value, {}, false, true};
    const auto shared = store_.options.find(target.word());
    if (shared != store_.options.end()) shared->second.several = true;
    return;
  }
  if (!added && !is_same_literal(kept.value, option.value)) kept.several = true;
  if (kept.several) {
    const auto shared = store_.options.find(target.word());
    if (shared != store_.options.end() && shared->second.is_entry) shared->second.several = true;
    return;
  }
  const auto [shared, is_first] = store_.options.try_emplace(target.word(), kept);
  const bool differs =
      !is_first && shared->second.is_entry && !is_same_literal(shared->second.value, kept.value);
  if (differs) shared->second.several = true;
}

// Where an option's default is, as args.device and as config["device"].
Residence Inference::option_residence(std::string_view name, int depth) {
  const auto option = store_.options.find(name);
  if (option == store_.options.end() || option->second.several) return Residence::unknown;
  return device_residence(option->second.value, depth + 1);
}

// _C.PIN_MEMORY = False; an option of the same name wins.
void Inference::record_single_entry(const Expr& target, const Expr* value) {
  Option option{value, {}};
  option.is_entry = true;
  const auto [place, added] = store_.options.try_emplace(target.word(), option);
  Option& kept = place->second;
  if (!added && kept.is_entry && !is_same_literal(kept.value, value)) kept.several = true;
}

// config.train.batch_size = 64 at the top of a file: an entry of a configuration, under the name
// "train.batch_size".
void Inference::record_entry(const Expr& target, const Expr* value) {
  const bool is_plain =
      value != nullptr && (value->type->is(TypeKind::number) || value->kind == ExprKind::text ||
                           value->kind == ExprKind::none);
  if (!is_plain) return;
  const Expr* root = &target;
  while (root->kind == ExprKind::attribute) root = root->children()[0];
  if (function_ != nullptr) return;
  if (root->kind != ExprKind::name || !is_configuration(root->word())) return;
  const std::string_view whole = file_->slice(target.range);
  const std::size_t dot = whole.find('.');
  // One word alone may be an option of the command line as well.
  const bool is_nested = dot != std::string_view::npos && whole.find('.', dot + 1) != whole.npos;
  if (!is_nested && is_config_node(*root)) return record_single_entry(target, value);
  if (!is_nested && !file_->is_configuration) return;
  const auto [place, added] = store_.options.try_emplace(whole.substr(dot + 1), Option{value, {}});
  if (!added && place->second.value != value) place->second.several = true;
}

}  // namespace rooftile::source
