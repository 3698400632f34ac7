#include "rooftile/analysis/source/unowned_networks.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"

namespace rooftile::source {
namespace {

bool takes_weights(const Call& call) {
  return is_one_of(call.method, {"parameters", "named_parameters", "requires_grad_", "children",
                                 "modules", "named_children", "named_modules"}) ||
         contains_any(lower(call.method), {"optim", "freez", "requires_grad", "toggle"});
}

bool leaves_weights(const FunctionDef& function) {
  return !any_call_below(function, kMaxCallDepth, takes_weights);
}

// What changes nothing about who trains the network.
bool is_plain_method(std::string_view name) {
  return is_one_of(
      name, {"cuda", "to", "cpu", "eval", "train", "float", "half", "double", "load_state_dict",
             "state_dict", "zero_grad", "forward", "device", "training"});
}

bool is_wrapper(const Call& call) {
  return is_one_of(call.method, {"DataParallel", "DistributedDataParallel", "DDP", "compile",
                                 "convert_sync_batchnorm"});
}

bool only_looks(const Call& call) {
  return is_wrapper(call) || is_one_of(call.name, {"print", "len", "isinstance", "hasattr", "type",
                                                   "id", "str", "copy.deepcopy", "copy.copy"});
}

// `net`, or `net.module`.
const Expr* whole(const Expr* part) {
  while (last_name(part->parent) == "module") part = part->parent;
  return part;
}

// The call, given the network, runs or keeps it in a way that is seen.
bool is_harmless_argument(const Call& call) {
  if (only_looks(call)) return true;
  return call.target != nullptr && call.target->name != "__init__" &&
         call.target->class_def == nullptr && leaves_weights(*call.target);
}

// `net.encode(x)`: a method of the network's own class.
bool is_harmless_method(const Expr& attribute) {
  if (is_plain_method(attribute.word())) return true;
  const Call* call = attribute.parent == nullptr ? nullptr : attribute.parent->call();
  const bool is_called = call != nullptr && call->expr->children().front() == &attribute;
  return is_called && call->target != nullptr && call->target->class_def != nullptr &&
         leaves_weights(*call->target);
}

// What a variable is set to: under wrappers and moves, a network that is made there, a copy of one,
// or the variable itself.
bool is_made_here(const Expr* value, const Expr& target) {
  while (value != nullptr && value->call() != nullptr) {
    const Call& call = *value->call();
    const bool is_moved = call.receiver != nullptr && is_plain_method(call.method);
    if (!is_moved && !is_wrapper(call)) break;
    if (!is_moved && call.arguments.empty()) return false;
    value = is_moved ? call.receiver : call.arguments.front().value;
  }
  if (value == nullptr) return false;
  const bool is_itself = value->kind == target.kind && value->word() == target.word();
  if (value->kind == ExprKind::none || is_itself) return true;
  const Call* call = value->call();
  if (call == nullptr || !value->type->is(TypeKind::module)) return false;
  if (call->name == "copy.deepcopy") return true;
  const bool is_class = call->target != nullptr && call->target->name == "__init__";
  const bool is_library = call->target == nullptr && value->type->made_by == call;
  return is_class || is_library || (call->target != nullptr && leaves_weights(*call->target));
}

bool is_harmless(const Expr& found) {
  const Expr* part = whole(&found);
  const Statement* statement = part->statement;
  const Expr* outer = part->parent;
  if (outer == nullptr) {
    if (statement->kind == StatementKind::delete_) return true;
    return statement->kind == StatementKind::assignment && statement->target == part &&
           statement->word == "=" && is_made_here(statement->value, *part);
  }
  if (outer->kind == ExprKind::attribute) return is_harmless_method(*outer);
  if (outer->kind == ExprKind::comparison) return true;
  if (outer->call() == nullptr) return false;
  return outer->children().front() == part || is_harmless_argument(*outer->call());
}

struct NetworkUses {
  bool is_made = false;  // set to a network that is made there
  bool escapes = false;
};

void read_uses(const File& file, ByteRange scope, ExprKind kind, std::string_view name,
               NetworkUses& uses) {
  for (const Statement* statement : file.statements) {
    const std::uint32_t at = statement->range.begin;
    if (at < scope.begin || at >= scope.end || uses.escapes) continue;
    for_own_expressions(*statement, [&](const Expr* expr) {
      visit(expr, [&](const Expr& part) {
        const bool is_use = part.kind == kind && part.word() == name;
        if (!is_use) return true;
        uses.escapes = uses.escapes || !is_harmless(part);
        uses.is_made = uses.is_made || (statement->target == &part && statement->value != nullptr &&
                                        statement->value->kind != ExprKind::none);
        return false;
      });
    });
  }
}

// The variable of the caller, where the network is a parameter that one call gives.
const Expr* given_by_caller(const Expr* name) {
  constexpr int kMaxCallers = 3;
  for (int level = 0; level < kMaxCallers; ++level) {
    const FunctionDef* function = name->statement->function;
    // `net = net.cuda()` is still what the caller gave.
    const bool is_set =
        name->binding() != nullptr && !uses_variable(name->binding()->value, name->word());
    const bool is_open = name->kind == ExprKind::name && !is_set && function != nullptr;
    if (!is_open || std::ranges::find(function->parameters, name->word(), &Parameter::name) ==
                        function->parameters.end()) {
      return name;
    }
    if (function->callers.size() != 1 || !leaves_weights(*function)) return nullptr;
    const Argument* given = passed_argument(*function->callers.front(), *function, name->word());
    if (given == nullptr || given->unpacked) return nullptr;
    name = given->value;
  }
  return name;
}

// What the class says of its weights itself.
bool leaves_own_weights(const ClassDef& def) {
  const std::string_view text = def.file->slice(def.statement->range);
  return std::ranges::none_of(
      std::initializer_list<std::string_view>{"requires_grad", "no_grad", "inference_mode",
                                              "detach", "optim", "step", "set_grad_enabled"},
      [&](std::string_view word) { return has_word(text, word); });
}

// Layers with weights in the class itself or in those of the project that it makes.
bool shows_weights(const ClassDef& def, int levels) {
  const std::string_view text = def.file->slice(def.statement->range);
  if (contains_any(text, {"nn.Conv", "nn.Linear", "nn.Parameter", "nn.Embedding", "nn.LSTM",
                          "nn.GRU", "nn.Bilinear", "torchvision.models", "models.vgg",
                          "models.resnet", "from_pretrained(", "create_model("})) {
    return true;
  }
  const FunctionDef* init = def.method("__init__");
  return levels > 0 && init != nullptr && std::ranges::any_of(init->calls, [&](const Call* call) {
           const ClassDef* part = call->expr->type->class_def;
           return part != nullptr && part->is_module && shows_weights(*part, levels - 1);
         });
}

bool is_network(const Type& type) {
  if (!type.is(TypeKind::module) || type.frozen || type.guessed) return false;
  const Call* made = type.made_by;
  if (type.class_def == nullptr) {
    return made != nullptr && (made->name.starts_with("torchvision.models.") ||
                               is_one_of(made->name, {"timm.create_model", "torch.hub.load"}));
  }
  return type.class_def->is_module && leaves_own_weights(*type.class_def) &&
         shows_weights(*type.class_def, kMaxCallDepth);
}

// detach(), item() and the like end the graph; sizes and indices have none.
bool cuts_graph(std::string_view attribute) {
  return is_one_of(attribute, {"detach", "detach_", "data", "item", "tolist", "cpu", "numpy",
                               "argmax", "shape", "size", "device", "dtype", "eq", "topk"});
}

// Whether the part gets out of the whole expression with its graph.
bool keeps_graph(const Expr& part, const Expr* end) {
  for (const Expr* at = &part; at != nullptr && at != end; at = at->parent) {
    const Expr* outer = at->parent;
    if (outer == nullptr) break;
    if (outer->kind == ExprKind::attribute && cuts_graph(outer->word())) return false;
    if (outer->kind == ExprKind::comparison) return false;
  }
  return true;
}

using Names = std::set<std::string_view>;

void add_names(const Expr* target, Names& names) {
  while (target->kind == ExprKind::subscript) target = target->children()[0];
  if (target->kind == ExprKind::tuple || target->kind == ExprKind::list) {
    for (const Expr* each : target->children()) add_names(each, names);
  } else if (!last_name(target).empty()) {
    names.insert(last_name(target));
  }
}

bool carries(const Expr* expr, const Names& names) {
  return any_inside(expr, [&](const Expr& part) {
    const bool is_name = part.kind == ExprKind::name || part.kind == ExprKind::attribute;
    return is_name && names.contains(part.word()) && keeps_graph(part, expr);
  });
}

bool has_backward(const Expr* expr) {
  return find_inside(expr, [](const Expr& part) {
           return part.call() != nullptr && part.call()->method == "backward";
         }) != nullptr;
}

// What the statement sets where it uses one of the names; true where it runs backward on it.
bool follow(const Statement& statement, Names& names) {
  if (statement.value == nullptr || !carries(statement.value, names)) return false;
  if (has_backward(statement.value)) return true;
  if (statement.kind == StatementKind::assignment || statement.kind == StatementKind::for_) {
    add_names(statement.target, names);
  }
  return false;
}

}  // namespace

bool reaches_backward(const Call& call) {
  const Statement* first = call.statement;
  if (!keeps_graph(*call.expr, nullptr)) return false;
  if (has_backward(first->value)) return true;
  Names names;
  if (first->kind == StatementKind::assignment) add_names(first->target, names);
  const auto& statements = call.file->statements;
  for (const Statement* statement : statements) {
    if (statement->function != call.function) continue;
    if (statement->range.begin <= first->range.begin) continue;
    if (follow(*statement, names)) return true;
  }
  return false;
}

bool is_in_no_optimizer(const SourceFacts& facts, const Call& call) {
  const bool is_method = call.name != "torch.nn.Module.__call__";
  const Expr* network = is_method ? call.receiver : call.expr->children().front();
  if (network == nullptr || !is_network(*network->type)) return false;
  network = given_by_caller(network);
  if (network == nullptr) return false;
  NetworkUses uses;
  if (network->kind == ExprKind::name) {
    const Statement& at = *network->statement;
    const FunctionDef* function = at.function;
    const ByteRange scope = function != nullptr
                                ? function->statement->range
                                : ByteRange{0, static_cast<std::uint32_t>(at.file->text.size())};
    read_uses(*at.file, scope, ExprKind::name, network->word(), uses);
    // A global that a function uses.
    if (!uses.is_made && function != nullptr && !uses.escapes) {
      const auto end = static_cast<std::uint32_t>(at.file->text.size());
      read_uses(*at.file, {0, end}, ExprKind::name, network->word(), uses);
    }
  } else if (network->kind == ExprKind::attribute && last_name(network->children()[0]) == "self") {
    for (const Program* program : facts.programs_of(*call.file)) {
      for (const File* file : program->files) {
        const auto end = static_cast<std::uint32_t>(file->text.size());
        read_uses(*file, {0, end}, ExprKind::attribute, network->word(), uses);
      }
    }
  }
  return uses.is_made && !uses.escapes;
}

}  // namespace rooftile::source
