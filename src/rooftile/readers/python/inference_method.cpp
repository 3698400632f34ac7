// Methods on receivers of known type.
#include <algorithm>

#include "rooftile/base/text.h"
#include "rooftile/readers/python/inference.h"

namespace rooftile::source {
namespace {

constexpr std::string_view kNumberMethods[] = {
    "allclose",       "data_ptr", "dim",        "element_size", "equal", "get_device",
    "is_contiguous",  "item",     "ndimension", "nelement",     "numel", "size",
    "storage_offset", "stride"};

bool is_number_method(std::string_view name) {
  return std::ranges::find(kNumberMethods, name) != std::end(kNumberMethods);
}

// Only texts have these: a sentence that was taken for a batch.
bool answers_about_text(std::string_view method) {
  return is_one_of(method, {"isspace", "isdigit", "isalpha", "isalnum", "isnumeric", "isupper",
                            "islower", "startswith", "endswith"});
}

constexpr std::string_view kModuleMethods[] = {"__call__",
                                               "add_module",
                                               "apply",
                                               "bfloat16",
                                               "buffers",
                                               "children",
                                               "compile",
                                               "cpu",
                                               "cuda",
                                               "double",
                                               "eval",
                                               "float",
                                               "forward",
                                               "get_parameter",
                                               "get_submodule",
                                               "half",
                                               "load_state_dict",
                                               "modules",
                                               "named_buffers",
                                               "named_children",
                                               "named_modules",
                                               "named_parameters",
                                               "no_sync",
                                               "parameters",
                                               "register_backward_hook",
                                               "register_buffer",
                                               "register_forward_hook",
                                               "register_forward_pre_hook",
                                               "register_full_backward_hook",
                                               "register_module",
                                               "register_parameter",
                                               "requires_grad_",
                                               "share_memory",
                                               "state_dict",
                                               "to",
                                               "to_empty",
                                               "train",
                                               "type",
                                               "xpu",
                                               "zero_grad"};

bool is_module_method(std::string_view name) {
  return std::ranges::find(kModuleMethods, name) != std::end(kModuleMethods);
}

// What no other object has: `x.unsqueeze(0)`, `x.norm(dim=-1)`; NumPy says axis.
bool is_tensors_alone(const Call& call) {
  const Argument* dim = call.argument("dim");
  const bool has_dimension = dim != nullptr && dim->value->kind != ExprKind::text;
  return has_dimension ||
         is_one_of(call.method,
                   {"unsqueeze",    "contiguous", "detach",      "masked_fill", "masked_select",
                    "index_select", "expand_as",  "view_as",     "log_softmax", "permute",
                    "expand",       "type_as",    "new_zeros",   "new_ones",    "new_full",
                    "masked_fill_", "scatter_",   "index_fill_", "ge",          "gt",
                    "le",           "lt"});
}

// `(labels == 1).float()`: neither a truth value of Python nor an array has it.
bool casts_comparison(const Call& call) {
  const Expr* compared = call.receiver;
  return compared->kind == ExprKind::comparison && call.arguments.empty() &&
         !compared->word().starts_with("is") && !compared->word().ends_with("in") &&
         is_one_of(call.method, {"float", "long", "int", "byte", "half", "double", "bool"});
}

bool makes_half(const Call& call, std::string_view dtype, std::string_view method) {
  if (call.method == method) return true;
  return call.method == "to" && std::ranges::any_of(call.arguments, [&](const Argument& each) {
           return each.value->full_name() == dtype;
         });
}

}  // namespace

// What a method tells, whatever it is a method of.
void Inference::note_method(Call& call) {
  const std::string_view method = call.method;
  if (method == "add_argument" || method == "add_option") record_option(call);
  if (method == "set_defaults") record_defaults(call);
  if (method == "backward") note_backward(call);
  if (method == "register_buffer") note_buffer(call);
  note_module(call);
}

// `optimizer = Adam(net.parameters())` of a `net` that an unknown function made, and that may have
// been moved: only a module has weights to list.
void Inference::note_module(Call& call) {
  const Type& type = *call.receiver->type;
  const bool may_be = type.is(TypeKind::unknown) || type.is(TypeKind::tensor);
  const bool lists = is_one_of(call.method, {"parameters", "named_parameters", "named_modules"});
  const bool switches = type.is(TypeKind::tensor) && is_one_of(call.method, {"eval", "train"});
  const Entry* entry = may_be && (lists || switches) ? bound_entry(call.receiver) : nullptr;
  if (entry == nullptr || entry->type != &type) return;
  Type module;
  module.kind = TypeKind::module;
  module.residence = type.residence;
  writable(*entry).type = store_.intern(module);
  writable(*call.receiver).type = entry->type;
}

const Type* Inference::method_call(Call& call, const Type& receiver) {
  const std::string_view method = call.method;
  if (const FunctionDef* own = find_method(receiver.class_def, method)) {
    // `self.net(x)` of `@property def net(self)` calls what that returns.
    const FunctionDef* getter = find_property(*receiver.class_def, method);
    return getter != nullptr ? value_call(call, *getter->returns)
                             : own_function_call(call, *own, true);
  }
  const bool loads = method == "from_pretrained" && receiver.is(TypeKind::class_) &&
                     receiver.class_def != nullptr && receiver.class_def->is_module;
  if (loads) {
    Type made = instance_of(*receiver.class_def);
    made.made_by = &call;
    return store_.intern(made);
  }
  const std::string_view base = base_class(receiver.kind);
  // A layer of a module is called like a method.
  const bool layer = receiver.is(TypeKind::module) && !is_module_method(method);
  if (!base.empty() && !layer) {
    const std::string full = std::string(base) + "." + std::string(method);
    call.name = intern(full);
  }
  if (method == "__init__") call.name = base_loader(call);
  note_method(call);
  if (call.receiver->type->is(TypeKind::module) && !receiver.is(TypeKind::module)) {
    return module_method(call, *call.receiver->type);
  }
  switch (receiver.kind) {
    case TypeKind::tensor:
      return tensor_method(call, receiver);
    case TypeKind::module:
    case TypeKind::loss:
      return module_method(call, receiver);
    case TypeKind::accelerator:
      return accelerator_method(call);
    case TypeKind::scaler:
      if (method == "scale" && !call.arguments.empty()) return call.arguments[0].value->type;
      return &unknown_type();
    case TypeKind::array:
      return method == "item" ? simple(TypeKind::number) : simple(TypeKind::array);
    case TypeKind::container:
      return container_method(call, receiver);
    case TypeKind::device:  // "cuda:{}".format(rank)
      return method == "format" ? store_.intern(receiver) : &unknown_type();
    case TypeKind::text:
      return simple(TypeKind::text);
    case TypeKind::loader:
      if (method == "next" || method == "__next__") return next_item(receiver);
      return method == "__iter__" ? store_.intern(receiver) : &unknown_type();
    default:
      break;
  }
  return unknown_method(call, receiver);
}

namespace {
// `for x, y in loader: x = x.cuda()`: what a loop takes out of something unknown, and moves.
bool is_item_of_loop(const Expr& receiver) {
  const Expr* root = &receiver;
  while (root->kind == ExprKind::subscript) root = root->children()[0];
  return root->kind == ExprKind::name && root->binding() != nullptr &&
         root->binding()->kind == StatementKind::for_;
}
}  // namespace

// Of an object that is not known.
const Type* Inference::unknown_method(const Call& call, const Type& receiver) {
  const bool is_batch =
      call.method == "cuda" && receiver.is(TypeKind::unknown) && is_item_of_loop(*call.receiver);
  if (is_batch) return tensor(Residence::gpu);
  if (call.method == "cuda" || call.method == "to") return moved(receiver, call);
  // `(ids != pad) & (ids != end)` counts as a number of Python, which has no such method.
  const bool may_be_mask = receiver.is(TypeKind::unknown) || receiver.is(TypeKind::number);
  if (may_be_mask && is_tensors_alone(call)) return tensor(Residence::unknown);
  if (receiver.is(TypeKind::number) && casts_comparison(call)) return tensor(Residence::unknown);
  const bool may_be = receiver.is(TypeKind::unknown) || receiver.is(TypeKind::host_object);
  if (!may_be || !call.arguments.empty()) return &unknown_type();
  // torch.load(path).eval(): nothing but a module has it.
  if (call.method == "eval") return simple(TypeKind::module);
  const bool copies = call.method == "cpu" && receiver.is(TypeKind::unknown);
  return copies ? tensor(Residence::host) : &unknown_type();
}

const Type* Inference::moved(const Type& what, const Call& call) {
  if (call.method == "cuda") return with_residence(what, Residence::gpu);
  if (call.method == "cpu") return with_residence(what, Residence::host);
  const Argument* device = call.argument("device", 0);
  if (device == nullptr) return store_.intern(what);
  const Type& type = *device->value->type;
  if (type.is(TypeKind::dtype)) return store_.intern(what);
  const Residence place = device_residence(device->value);
  // x.to(something): a tensor or a module, if it is a device.
  if (what.is(TypeKind::unknown) && place != Residence::unknown) return tensor(place);
  return place == Residence::unknown ? with_residence(what, Residence::unknown)
                                     : with_residence(what, place);
}

const Type* Inference::tensor_method(Call& call, const Type& receiver) {
  const std::string_view method = call.method;
  if (is_number_method(method)) return simple(TypeKind::number);
  if (answers_about_text(method)) return simple(TypeKind::number);
  if (method == "numpy") return simple(TypeKind::array);
  if (method == "type" && call.arguments.empty()) return simple(TypeKind::text);
  if (method == "tolist") return container_of(simple(TypeKind::number));
  if (method == "cpu") return tensor(Residence::host);  // as far as reads go, without a graph
  if (method == "cuda" || method == "to") return moved(receiver, call);
  if (method == "detach") return tensor(receiver.residence);
  if (method == "type_as" && !call.arguments.empty()) {
    const Type& like = *call.arguments.front().value->type;
    const bool is_placed = like.is(TypeKind::tensor) && like.residence != Residence::unknown;
    if (is_placed) return with_residence(receiver, like.residence);
    const bool is_on_host = receiver.residence == Residence::host;
    return is_on_host ? with_residence(receiver, Residence::unknown) : store_.intern(receiver);
  }
  if (method == "backward") return &unknown_type();
  if (method == "items" || method == "keys") return container_of(&receiver);  // a batch's dict
  return store_.intern(receiver);
}

const Type* Inference::module_method(Call& call, const Type& receiver) {
  const std::string_view method = call.method;
  Type made = receiver;
  if (method == "parameters" || method == "named_parameters") {
    Type parameters;
    parameters.kind = TypeKind::gradients;
    parameters.residence = receiver.residence;
    parameters.element = tensor(receiver.residence, true);
    return store_.intern(parameters);
  }
  if (method == "__call__" || method == "forward") return forward_result(call, receiver);
  if (method == "cuda" || method == "cpu" || method == "to") made = *moved(receiver, call);
  if (makes_half(call, "torch.float16", "half")) made.half = true;
  if (makes_half(call, "torch.bfloat16", "bfloat16")) made.bfloat16 = true;
  if (method == "requires_grad_" && !call.arguments.empty() &&
      call.arguments[0].value->word() == "False") {
    made.frozen = true;
  }
  const Argument* format = call.argument("memory_format");
  if (format != nullptr && format->value->full_name().starts_with("torch.channels_last")) {
    made.channels_last = true;
  }
  const bool is_self = method == "cuda" || method == "cpu" || method == "to" || method == "half" ||
                       method == "float" || method == "bfloat16" || method == "train" ||
                       method == "eval" || method == "requires_grad_" || method == "apply" ||
                       method == "double";
  if (!is_self) return &unknown_type();
  // model.cuda() without an assignment changes the model itself.
  const Entry* entry = bound_entry(call.receiver);
  const bool is_attribute = entry != nullptr && call.receiver->kind == ExprKind::attribute;
  if (entry != nullptr && (is_attribute || entry->type == call.receiver->type)) {
    writable(*entry).type = store_.intern(made);
  }
  return store_.intern(made);
}

// `model = get_model(name).to(device)`: what an unknown call made is a tensor, or by the name that
// it gets a module.
const Type* Inference::moved_module(const Type* type, const Expr* value, std::string_view name) {
  const Call* call = value == nullptr ? nullptr : value->call();
  if (call == nullptr || kind_by_convention(name) != TypeKind::module) return type;
  // `model = model(classes)`: the name stood for the class until now.
  const Expr& callee = *value->children().front();
  if (callee.kind == ExprKind::name && callee.word() == name && callee.type->guessed) {
    return &unknown_type();
  }
  // `model = torch.load(path)`, then model.eval(): no dictionary of weights.
  const Call* loads = call->receiver != nullptr && call->receiver->call() != nullptr
                          ? call->receiver->call()
                          : call;
  if (loads->name == "torch.load" && (loads == call || call->method == "cuda")) {
    const auto switched =
        switched_names_.find(function_ != nullptr ? static_cast<const void*>(function_)
                                                  : static_cast<const void*>(file_));
    const bool is_module = switched != switched_names_.end() && switched->second.contains(name);
    const Residence place = loads == call ? Residence::unknown : Residence::gpu;
    return is_module ? with_residence(*guess(&unknown_type(), name), place) : type;
  }
  const bool is_moved = call->receiver != nullptr && call->receiver->type->is(TypeKind::unknown) &&
                        (call->method == "to" || call->method == "cuda" || call->method == "cpu");
  if (!is_moved) return type;
  return with_residence(*guess(&unknown_type(), name), type->residence);
}

// `x = torch.empty(n, m).float()`: items that are set are copied to where it is.
bool Inference::is_made_in_place(const Entry& entry) {
  const Expr* value = entry.binding == nullptr ? nullptr : entry.binding->value;
  const Call* made = value == nullptr ? nullptr : value->call();
  while (made != nullptr && made->receiver != nullptr && made->receiver->call() != nullptr) {
    made = made->receiver->call();
  }
  return made != nullptr && known(made->name).call.gives == Gives::new_tensor;
}

// What a list holds, from what is appended to it.
void Inference::note_append(const Call& call, const Type& list) {
  const Entry* entry = bound_entry(call.receiver);
  if (entry == nullptr || entry->type != &list || call.arguments.size() != 1) return;
  if (list.items != nullptr) return;
  const Type* item = call.arguments[0].value->type;
  const bool is_mixed = list.element != nullptr && list.element->kind != item->kind;
  // Layers in a list are mostly handed to a ModuleList, and move with it.
  if (item->is(TypeKind::module) && item->residence == Residence::host) {
    item = with_residence(*item, Residence::unknown);
  }
  if (list.element != nullptr) item = is_mixed ? nullptr : join(list.element, item);
  writable(*entry).type = container_of(item);
}

// What a variable or an attribute of an own class is bound to; null for other expressions.
const Entry* Inference::bound_entry(const Expr* object) {
  if (object->kind == ExprKind::name) return lookup(object->word());
  const bool is_attribute =
      object->kind == ExprKind::attribute && object->children()[0]->type->class_def != nullptr;
  return is_attribute ? class_attribute(object->children()[0]->type->class_def, object->word())
                      : nullptr;
}

// A trainer that makes an Accelerator prepares its models with it, and itself stays on the host.
bool Inference::makes_accelerator(const ClassDef& def) const {
  const auto attributes = attributes_.find(&def);
  return attributes != attributes_.end() &&
         std::ranges::any_of(attributes->second, [](const auto& attribute) {
           const Type* type = attribute.second.type;
           return type->is(TypeKind::accelerator) && type->made_by != nullptr;
         });
}

// self.register_buffer("mean", torch.zeros(3)): a tensor that moves with the module.
void Inference::note_buffer(const Call& call) {
  const ClassDef* def = call.receiver->type->class_def;
  if (def == nullptr || call.arguments.size() < 2) return;
  const Expr& name = *call.arguments[0].value;
  const bool is_tensor = call.arguments[1].value->type->is(TypeKind::tensor);
  if (name.kind != ExprKind::text || !is_tensor) return;
  const Residence place = makes_accelerator(*def) ? Residence::host : Residence::unknown;
  attributes_[def].try_emplace(name.word(), Entry{{}, tensor(place), nullptr});
}

const Type* Inference::accelerator_method(Call& call) {
  if ((call.method == "prepare" || call.method == "setup" || call.method == "setup_dataloaders") &&
      call.arguments.size() == 1) {
    return with_residence(*call.arguments[0].value->type, Residence::gpu);
  }
  if (call.method == "backward") note_backward(call);
  return &unknown_type();
}

// `loss, scores = model.compute(batch)` with loss.backward() further down: reads before it count.
const Type* Inference::of_backward(const Type* type, std::string_view name) {
  if (!type->is(TypeKind::unknown)) return type;
  const void* place = function_;
  const auto names = backward_names_.find(place == nullptr ? file_ : place);
  if (names == backward_names_.end() || !names->second.contains(name)) return type;
  const bool may_be_tensor = kind_by_convention(name) == TypeKind::unknown;
  return may_be_tensor ? tensor(Residence::unknown, true) : type;
}

// What has backward() is a tensor with gradients, whatever made it.
void Inference::note_backward(const Call& call) {
  const Expr* loss = call.receiver;
  if (loss->kind != ExprKind::name) return;
  Type type = *loss->type;
  if (!type.is(TypeKind::unknown) && !type.is(TypeKind::tensor)) return;
  type.kind = TypeKind::tensor;
  type.requires_grad = true;
  const Type* known = store_.intern(type);
  if (const Entry* entry = lookup(loss->word())) writable(*entry).type = known;
  writable(*loss).type = known;
}

}  // namespace rooftile::source
