// Types of inference.h: made once each, and joined.
#include <algorithm>
#include <span>
#include <utility>

#include "rooftile/readers/python/inference.h"
#include "rooftile/readers/python/known_names.h"

namespace rooftile::source {

const Type* Inference::simple(TypeKind kind, Residence residence) {
  const Type*& known =
      simple_types_[static_cast<std::size_t>(kind)][static_cast<std::size_t>(residence)];
  if (known != nullptr) return known;
  Type type;
  type.kind = kind;
  type.residence = residence;
  known = store_.intern(type);
  return known;
}

const Type* Inference::tensor(Residence residence, bool requires_grad) {
  if (!requires_grad) return simple(TypeKind::tensor, residence);
  Type type;
  type.kind = TypeKind::tensor;
  type.residence = residence;
  type.requires_grad = true;
  return store_.intern(type);
}

const Type* Inference::container_of(const Type* element) {
  Type type;
  type.kind = TypeKind::container;
  // Containers of containers of … would never end in a loop.
  if (element != nullptr && !element->is(TypeKind::container) && !element->is(TypeKind::unknown)) {
    type.element = element;
    type.residence = element->residence;
  }
  return store_.intern(type);
}

const Type* Inference::with_residence(const Type& type, Residence residence) {
  Type moved = type;
  moved.residence = residence;
  return store_.intern(moved);
}

namespace {

// A device is a GPU with the CPU as the fallback; the CPU or what is not known is not known.
Residence joined_residence(const Type& a, const Type& b) {
  if (a.is(TypeKind::device) && a.residence != b.residence) {
    return a.on_gpu() || b.on_gpu() ? Residence::gpu : Residence::unknown;
  }
  if (a.residence == Residence::unknown) return b.residence;
  return b.residence == Residence::unknown || a.residence == b.residence ? a.residence
                                                                         : Residence::unknown;
}

// By an annotation alone: whichever module it is.
bool is_any_module(const Type& type) {
  return type.is(TypeKind::module) && type.class_def == nullptr && type.name == kAnyModule;
}

}  // namespace

// The classes of both; null where one's are not known, or where there are too many.
const std::vector<const ClassDef*>* Inference::choices(const Type& a, const Type& b) {
  constexpr std::size_t kMaxChoices = 32;
  std::vector<const ClassDef*> both;
  for (const Type* one : {&a, &b}) {
    if (one->classes().empty()) return nullptr;
    for (const ClassDef* def : one->classes()) {
      if (std::ranges::find(both, def) == both.end()) both.push_back(def);
    }
  }
  return both.size() > kMaxChoices ? nullptr : &*store_.class_choices.insert(both).first;
}

// Of two types of one kind.
Type Inference::joined(const Type& a, const Type& b) {
  Type both = a;
  both.residence = joined_residence(a, b);
  both.requires_grad = a.requires_grad || b.requires_grad;
  both.data_parallel = a.data_parallel || b.data_parallel;
  both.ddp = a.ddp || b.ddp;
  both.fsdp = a.fsdp || b.fsdp;
  both.compiled = a.compiled || b.compiled;
  if (is_any_module(a)) {
    both.name = b.name;
    both.class_def = b.class_def;
    both.choices = b.choices;
  } else if (!is_any_module(b)) {
    if (a.name != b.name) both.name = {};
    if (a.class_def != b.class_def) both.class_def = nullptr;
    both.choices = both.class_def == nullptr ? choices(a, b) : nullptr;
  }
  if (a.made_by == nullptr) both.made_by = b.made_by;
  if (a.element != b.element) both.element = nullptr;
  if (a.items != b.items) both.items = nullptr;
  return both;
}

const Type* Inference::join(const Type* a, const Type* b) {
  if (a == b || b == nullptr) return a;
  if (a == nullptr) return b;
  if (b->is(TypeKind::unknown)) return a;
  if (a->is(TypeKind::unknown)) return b;
  if (a->guessed && !b->guessed) return b;
  if (b->guessed && !a->guessed) return a;
  if (a->kind != b->kind) {
    const bool tensors = (a->is(TypeKind::tensor) && b->is(TypeKind::number)) ||
                         (a->is(TypeKind::number) && b->is(TypeKind::tensor));
    return tensors ? (a->is(TypeKind::tensor) ? a : b) : &unknown_type();
  }
  return store_.intern(joined(*a, *b));
}

// Of an operation on two tensors: with one on a GPU, the result is there.
const Type* Inference::combine(const Type* a, const Type* b) {
  const bool on_gpu = a->on_gpu() || b->on_gpu();
  const Type* both = join(a, b);
  return on_gpu && both->is(TypeKind::tensor) ? with_residence(*both, Residence::gpu) : both;
}

const Type* Inference::guess(const Type* type, std::string_view name) {
  if (!type->is(TypeKind::unknown)) return type;
  Type guessed;
  guessed.kind = kind_by_convention(name);
  guessed.guessed = true;
  return guessed.kind == TypeKind::unknown ? type : store_.intern(guessed);
}

const Type* Inference::join_children(Expr& expr, std::size_t from) {
  const Type* joined = nullptr;
  for (std::size_t i = 0; i < expr.children().size(); ++i) {
    const Type* each = infer(expr.children()[i]);
    if (i >= from) joined = joined == nullptr ? each : join(joined, each);
  }
  return joined == nullptr ? &unknown_type() : joined;
}

const Type* Inference::own_object(const ClassDef& def) {
  Type self;
  self.kind = def.is_module    ? TypeKind::module
              : def.is_dataset ? TypeKind::dataset
                               : TypeKind::host_object;
  self.class_def = &def;
  self.name = def.full_name;
  return store_.intern(self);
}

const Type* Inference::function_type(const FunctionDef& def) {
  Type type;
  type.kind = TypeKind::function;
  type.function = &def;
  type.name = def.full_name;
  return store_.intern(type);
}

const Type* Inference::class_type(const ClassDef& def) {
  Type type;
  type.kind = TypeKind::class_;
  type.class_def = &def;
  type.name = def.full_name;
  return store_.intern(type);
}

Type Inference::instance_of(const ClassDef& def) {
  Type made;
  made.kind = def.is_module                            ? TypeKind::module
              : def.is_dataset                         ? TypeKind::dataset
              : def.is_hf_trainer                      ? TypeKind::trainer
              : def.name.ends_with("Loader")           ? TypeKind::loader
              : def.name.find("Loss") != def.name.npos ? TypeKind::loss
                                                       : TypeKind::host_object;
  if (def.is_module && def.name.find("Loss") != def.name.npos) made.kind = TypeKind::loss;
  for (const Expr* base : def.bases) {
    const LibraryCall parent = known(base->full_name()).call;
    if (!def.is_module && parent.gives == Gives::instance) made.kind = parent.kind;
  }
  if (def.is_lightning_module) made.residence = Residence::gpu;
  made.class_def = &def;
  made.name = def.full_name;
  return made;
}

}  // namespace rooftile::source
