// What is known by name about PyTorch and the libraries around it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// The public spelling of a name that is reachable by several: torch.nn.modules.conv.Conv2d is
// torch.nn.Conv2d. Returns its argument when there is no other.
std::string canonical_name(std::string_view full_name);

// What a call of a library's function or class gives.
enum class Gives : std::uint8_t {
  unknown,
  instance,      // of `kind`
  new_tensor,    // on the host unless device= says otherwise
  gpu_tensor,    //
  from_tensors,  // a tensor where its tensor arguments are
  wrapped,       // its first argument, a module, wrapped
  argument,      // its first argument itself
  number,
  text,
  container,
  array,
  host_object,
};

struct LibraryCall {
  Gives gives = Gives::unknown;
  TypeKind kind = TypeKind::unknown;
};

// `import torch` is the library, also where the given files have a package my.torch or a
// utils/random.py.
bool is_library_root(std::string_view name);

// `full_name` in its public spelling.
LibraryCall library_call(std::string_view full_name);
// The full name of a builtin function of Python that matters to us ("print"), or empty.
bool is_builtin(std::string_view name);
bool is_dtype(std::string_view full_name);
// "torch.nn" for Linear after `from torch.nn import *`: whether the package exports the name.
bool exports(std::string_view package, std::string_view name);
// What a variable is by convention: model, train_loader, optimizer, criterion.
TypeKind kind_by_convention(std::string_view variable);
// "torch.Tensor.item" for item on a tensor; empty when there is no such base class.
std::string_view base_class(TypeKind kind);

}  // namespace rooftile::source
