// What names say: those of libraries (script/library), and what variables are called by convention.
#pragma once

#include <string_view>

#include "rooftile/script/library/library.h"

namespace rooftile::source {

using script::canonical_name;
using script::exports;
using script::Gives;
using script::is_builtin;
using script::is_dtype;
using script::library_call;
using script::LibraryCall;

// `import torch` is the library, also where the given files have a package my.torch or a
// utils/random.py.
bool is_library_root(std::string_view name);

// What a variable is by convention: model, train_loader, optimizer, criterion.
TypeKind kind_by_convention(std::string_view variable);
// "torch.Tensor.item" for item on a tensor; empty when there is no such base class.
std::string_view base_class(TypeKind kind);

}  // namespace rooftile::source
