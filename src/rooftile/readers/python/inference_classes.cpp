// What classes of the given files are, of inference.h.
#include <algorithm>

#include "rooftile/base/text.h"
#include "rooftile/readers/python/inference.h"
#include "rooftile/script/flow/queries.h"

namespace rooftile::source {

bool Inference::derives_from(const ClassDef& def, std::initializer_list<std::string_view> bases) {
  return std::ranges::any_of(lineage(store_, &def), [&](const ClassDef* each) {
    return std::ranges::any_of(each->bases, [&](const Expr* base) {
      return std::ranges::find(bases, base->full_name()) != bases.end();
    });
  });
}

// class Net(nn.Transformer), class ResNet(torchvision.models.ResNet)
namespace {

// transformers.BertPreTrainedModel, pytorch_transformers.BertForTokenClassification.
bool is_pretrained_model(std::string_view name) {
  const std::string_view package = name.substr(0, name.find('.'));
  const std::string_view last = name.substr(name.rfind('.') + 1);
  return is_one_of(package, {"transformers", "pytorch_transformers", "pytorch_pretrained_bert"}) &&
         (last.ends_with("Model") ||
          contains_any(last, {"ForTokenClassification", "ForSequenceClassification",
                              "ForQuestionAnswering", "ForMaskedLM", "ForCausalLM",
                              "ForConditionalGeneration", "ForPreTraining", "LMHeadModel"}));
}

}  // namespace

bool Inference::derives_from_layer(const ClassDef& def) {
  const auto is_layer = [&](const Expr* base) {
    const LibraryCall made = known(base->full_name()).call;
    return (made.gives == Gives::instance && made.kind == TypeKind::module) ||
           is_pretrained_model(base->full_name());
  };
  return std::ranges::any_of(lineage(store_, &def), [&](const ClassDef* each) {
    return std::ranges::any_of(each->bases, is_layer);
  });
}

namespace {

// `self.head = nn.Linear(n, m)`, `self.head = torch.nn.Linear(n, m)`
bool sets_layer(const Statement& statement) {
  const bool sets = statement.kind == StatementKind::assignment &&
                    statement.target->kind == ExprKind::attribute && statement.value != nullptr &&
                    statement.value->call() != nullptr;
  const Expr* package = sets ? statement.value->call()->receiver : nullptr;
  if (package == nullptr || package->word() != "nn") return false;
  const bool is_named =
      package->kind == ExprKind::name ||
      (package->kind == ExprKind::attribute && package->children().front()->word() == "torch");
  return is_named && statement.value->call()->method != "Parameter";
}

}  // namespace

// A class with a forward() that keeps layers, derived from one that is not given: only a module can
// list their weights.
bool Inference::looks_like_module(const ClassDef& def) {
  const FunctionDef* init = def.method("__init__");
  if (init == nullptr || def.bases.empty() || def.method("forward") == nullptr) return false;
  const bool is_open = std::ranges::all_of(def.bases, [&](const Expr* base) {
    return !store_.classes_by_name.contains(base->full_name()) && base->word() != "object" &&
           known(base->full_name()).call.gives == Gives::unknown;
  });
  return is_open &&
         std::ranges::any_of(init->body, [](const Statement* each) { return sets_layer(*each); });
}

void Inference::classify_classes() {
  for (const auto& file : facts_.files) {
    for (const ClassDef* each : file->classes) {
      ClassDef& def = writable(*each);
      def.is_lightning_module = derives_from(def, {"lightning.pytorch.LightningModule"});
      def.is_lightning_callback = derives_from(
          def, {"lightning.Callback", "lightning.pytorch.Callback",
                "lightning.pytorch.callbacks.Callback", "lightning.pytorch.callbacks.base.Callback",
                "lightning.pytorch.callbacks.callback.Callback"});
      def.is_module =
          def.is_lightning_module || derives_from_layer(def) || looks_like_module(def) ||
          derives_from(
              def, {"torch.nn.Module", "torch.nn.Sequential", "torch.jit.ScriptModule",
                    "torch.nn.ModuleList", "transformers.PreTrainedModel",
                    "torch_geometric.nn.MessagePassing", "torch_geometric.nn.conv.MessagePassing",
                    "torch_geometric.nn.conv.message_passing.MessagePassing"});
      def.is_dataset = derives_from(
          def, {"torch.utils.data.Dataset", "torch.utils.data.IterableDataset",
                "monai.data.Dataset", "monai.data.CacheDataset", "monai.data.PersistentDataset"});
      def.is_autograd_function = derives_from(def, {"torch.autograd.Function"});
      def.is_hf_trainer =
          derives_from(def, {"transformers.Trainer", "transformers.Seq2SeqTrainer"});
      for (const Expr* decorator : def.decorators) {
        const Expr* name = decorator->kind == ExprKind::call ? decorator->children()[0] : decorator;
        if (name->word() == "dataclass") def.is_config = true;
      }
      if (derives_from(def, {"typing.NamedTuple"})) def.is_config = true;
    }
  }
}

namespace {

// `Loader(**options)` of an __init__ that takes its own out of **kwargs, and hands on the rest
// without a look at what loaders know.
bool passes_options_on(const Call& call, const FunctionDef& init) {
  // One at its place is the data set, or what __init__ makes it from.
  const auto is_placed = [](const Argument& argument) {
    return argument.unpacked ? argument.value->word() == "*" : argument.name.empty();
  };
  const bool is_first_named = init.parameters.size() > 2 && !init.parameters[1].starred;
  const bool are_named =
      std::ranges::count_if(call.arguments, is_placed) <= (is_first_named ? 1 : 0) &&
      std::ranges::none_of(call.arguments, [](const Argument& argument) {
        return argument.unpacked && argument.value->word() == "*";
      });
  const std::string_view text = init.file->slice(init.statement->range);
  const std::string rest(init.parameters.back().name);
  const std::size_t first = text.find("**" + rest);
  return are_named && !call.arguments.empty() && first != std::string_view::npos &&
         text.find("**" + rest, first + 1) != std::string_view::npos &&
         text.find(rest + ".update") == std::string_view::npos &&
         text.find(rest + " =") == std::string_view::npos &&
         !contains_any(text, {"num_workers", "pin_memory", "batch_size"});
}

// `super().__init__(*args, **kwargs)` first, and then a look at what was given: nothing is changed
// but for the number of workers, which the call has to name.
bool hands_on_first(const Call& call, const FunctionDef& init) {
  const Statement* first = init.body.empty() ? nullptr : init.body.front();
  const Call* made = first == nullptr || first->value == nullptr ? nullptr : first->value->call();
  const std::size_t count = init.parameters.size();
  const bool is_first = made != nullptr && made->method == "__init__" && count == 3 &&
                        init.parameters[1].starred && made->arguments.size() == 2 &&
                        made->arguments[0].unpacked && made->arguments[1].unpacked;
  const std::string_view text = init.file->slice(init.statement->range);
  return is_first && !contains_any(text, {"pin_memory", "batch_size"}) &&
         (!contains(text, "num_workers") || call.argument("num_workers") != nullptr);
}

}  // namespace

// The library's DataLoader that a class stands for: one whose __init__ takes *args and **kwargs for
// super().__init__, which gets nothing about workers and pinning, or that has none.
std::string_view Inference::handed_on_loader(const Call& call, const ClassDef& def) {
  std::string_view name;
  for (const Expr* base : def.bases) {
    const Known& parent = known(base->full_name());
    const bool is_loader =
        parent.call.gives == Gives::instance && parent.call.kind == TypeKind::loader;
    if (is_loader) name = parent.name;
  }
  if (name.empty()) return {};
  const FunctionDef* init = def.method("__init__");
  if (init == nullptr) return name;
  const auto& parameters = init->parameters;
  const std::size_t count = parameters.size();
  if (count < 2 || !parameters.back().double_starred) return {};
  if (passes_options_on(call, *init)) return name;
  if (count < 3) return {};
  if (hands_on_first(call, *init)) return name;
  // `dataset` may have a name, at the place that it has in the library.
  const bool is_named = is_one_of(parameters[1].name, {"dataset", "data"});
  const bool only_hands_on =
      parameters[is_named ? 2 : 1].starred &&
      !contains_any(init->file->slice(init->statement->range),
                    {"num_workers", "pin_memory", "batch_size", "kwargs[", "kwargs."});
  return only_hands_on ? name : std::string_view();
}

// Settings.width of `class Settings: width = 64`; null where the class has no such attribute.
const Type* Inference::class_member(Expr& expr, const Type& owner, std::string_view full_name) {
  const Entry* member =
      owner.is(TypeKind::class_) ? class_attribute(owner.class_def, expr.word()) : nullptr;
  if (member == nullptr) return nullptr;
  // `DATA = datasets.CIFAR10` in the class: that of the library.
  const bool is_library = !member->full_name.empty() && member->type->is(TypeKind::unknown) &&
                          known(member->full_name).call.gives != Gives::unknown;
  store_.set_origin(expr, is_library ? member->full_name : full_name, member->binding);
  return member->type;
}

// What super() stands for: an object of the given files' base class that has the method.
const Type* Inference::base_object(const Call& super) {
  const FunctionDef* method = function_;
  while (method != nullptr && method->class_def == nullptr) method = method->outer;
  const ClassDef* def = method == nullptr ? nullptr : method->class_def;
  const Expr* use = super.expr->parent;
  if (def == nullptr || use == nullptr || use->kind != ExprKind::attribute) return &unknown_type();
  // What `*args` hands on is not followed, and would hide what other callers pass.
  const Call* made = use->parent == nullptr ? nullptr : use->parent->call();
  const auto hands_on = [](const Argument& one) {
    return one.unpacked && one.value->word() == "*";
  };
  if (made == nullptr || std::ranges::any_of(made->arguments, hands_on)) return &unknown_type();
  for (const Expr* base : def->bases) {
    const auto own = store_.classes_by_name.find(base->full_name());
    if (own == store_.classes_by_name.end() || own->second == def) continue;
    if (find_method(own->second, use->word()) == nullptr) continue;
    return own_object(*own->second);
  }
  return &unknown_type();
}

namespace {

// `**self.options` of a dict that is written out.
bool spreads_literal(const Argument& argument) {
  const Expr& value = *argument.value;
  if (value.word() != "**" || value.children().empty()) return false;
  const Statement* binding = value.children()[0]->binding();
  return binding != nullptr && binding->kind == StatementKind::assignment &&
         binding->value != nullptr && binding->value->kind == ExprKind::dict;
}

}  // namespace

// `super().__init__(dataset, …)` in a class derived from a library's DataLoader makes one.
std::string_view Inference::base_loader(const Call& call) {
  const bool is_base = call.method == "__init__" && call.receiver->call() != nullptr &&
                       call.receiver->call()->name == "super";
  const ClassDef* def = function_ == nullptr ? nullptr : function_->class_def;
  if (!is_base || def == nullptr) return {};
  // One that hands on what it is given has nothing to change.
  if (std::ranges::any_of(call.arguments, [](const Argument& argument) {
        return argument.unpacked && !spreads_literal(argument);
      })) {
    return {};
  }
  for (const Expr* base : def->bases) {
    const Known& parent = known(base->full_name());
    if (parent.call.gives == Gives::instance && parent.call.kind == TypeKind::loader) {
      return parent.name;
    }
  }
  return {};
}

// `Step.apply` of an autograd function runs its forward.
const FunctionDef* Inference::static_method(const ClassDef* def, std::string_view name) {
  const bool is_applied = name == "apply" && def != nullptr && def->is_autograd_function;
  return find_method(def, is_applied ? "forward" : name);
}

// Of a condition that no option changes.
std::optional<bool> Inference::fixed_truth(const Expr& condition) {
  const script::KnownValue asked = script::known_value(facts_, condition, nullptr);
  if (asked.is_configurable()) return std::nullopt;
  if (const auto truth = asked.truth()) return truth;
  const bool is_option = store_.options.contains(condition.word());
  return condition.kind == ExprKind::attribute && !is_option ? stored_truth(condition.word())
                                                             : std::nullopt;
}

// What all files give attributes of the name, of whatever object: `config.use_gpu = False` in each
// program, None before.
std::optional<bool> Inference::stored_truth(std::string_view attribute) {
  const auto [place, is_new] = stored_truths_.try_emplace(attribute);
  if (!is_new) return place->second;
  std::optional<bool> truth;
  bool is_same = true;
  for (const auto& file : facts_.files) {
    for (const Statement* each : file->statements) {
      const bool stores = each->kind == StatementKind::assignment &&
                          each->target->kind == ExprKind::attribute &&
                          each->target->word() == attribute && each->value != nullptr;
      if (!stores || each->value->kind == ExprKind::none) continue;
      const bool is_plain = each->value->kind == ExprKind::boolean;
      const bool value = each->value->word() == "True";
      is_same = is_same && is_plain && (!truth || *truth == value);
      truth = value;
    }
  }
  if (!is_same) truth.reset();
  return stored_truths_[attribute] = truth;
}

// `Large if large else Small` of two classes is the one that a default run takes.
const Type* Inference::chosen_type(const Expr& conditional) {
  const Type* yes = conditional.children()[0]->type;
  const Type* no = conditional.children()[2]->type;
  if (yes->is(TypeKind::class_) && no->is(TypeKind::class_) && yes != no) {
    const Expr& condition = *conditional.children()[1];
    Value asked = facts_.value(&condition);
    // Where callers hand on keywords that are not seen, its default is what it is.
    if (asked.unknown() && function_ != nullptr && condition.kind == ExprKind::name) {
      const auto& parameters = function_->parameters;
      const auto found = std::ranges::find(parameters, condition.word(), &Parameter::name);
      if (found != parameters.end()) asked = facts_.value(found->default_value);
    }
    if (asked.is_true()) return yes;
    if (asked.is_false() || asked.kind == ValueKind::none) return no;
  }
  if (yes->residence != no->residence) {
    const auto asked = fixed_truth(*conditional.children()[1]);
    if (asked) return *asked ? yes : no;
  }
  return either(yes, no);
}

// The CPU, or a device that is not known, is not known.
const Type* Inference::either(const Type* a, const Type* b) {
  const auto is_open = [](const Type* type) {
    return type->is(TypeKind::unknown) || (type->is(TypeKind::device) && type->guessed);
  };
  const auto is_cpu = [](const Type* type) {
    return type->is(TypeKind::device) && type->residence == Residence::host;
  };
  const bool is_device = (is_cpu(a) && is_open(b)) || (is_open(a) && is_cpu(b));
  return is_device ? simple(TypeKind::device) : join(a, b);
}

}  // namespace rooftile::source
