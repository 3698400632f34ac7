// What is known by name about PyTorch and the libraries around it: data/libraries/*.toml, compiled
// into the library. docs/formats/library.md explains the files. What no file names is unknown.
#pragma once

#include <string>
#include <string_view>

#include "rooftile/base/result.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile::script {

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
  source::TypeKind kind = source::TypeKind::unknown;

  bool operator==(const LibraryCall&) const = default;
};

// The public spelling of a name that is reachable by several: torch.nn.modules.conv.Conv2d is
// torch.nn.Conv2d. Returns its argument when there is no other.
std::string canonical_name(std::string_view full_name);

// `full_name` in its public spelling.
LibraryCall library_call(std::string_view full_name);
// The full name of a builtin function of Python that matters to us ("print").
bool is_builtin(std::string_view name);
bool is_dtype(std::string_view full_name);
// "torch.nn" for Linear after `from torch.nn import *`: whether the package exports the name.
bool exports(std::string_view package, std::string_view name);
// A test that a machine with a GPU answers with True.
bool is_true_with_gpu(std::string_view full_name);
// A decorator after which a function gives what it gave before.
bool keeps_results(std::string_view full_name, std::string_view word);

// The first PyTorch that has all that the text names; 0.0 where nothing tells.
source::TorchVersion torch_needed_by(std::string_view text);

// Whether a name fits: `*` stands for anything without a dot, `**` for anything, [A-Z] and [a-z]
// for a letter.
bool fits(std::string_view pattern, std::string_view name);
// Whether a file can be read as one of data/libraries, with values of `gives` that exist.
Result<void> check_library(std::string_view text, const std::string& path);

}  // namespace rooftile::script
