// Shared libraries that are loaded at run time, so that nothing of CUDA is needed to build.
#pragma once

#include <string>
#include <vector>

#include "rooftile/base/result.h"

namespace rooftile::gpu::cuda {

// Looks into the wrappers of libraries, to compare them with NVIDIA's headers.
template <class Checked>
struct AbiCheck;

// Loads functions by name and remembers the first that is missing. The library stays loaded until
// the program ends, because CUDA's libraries do not unload cleanly.
class Library {
 public:
  // Tries the names in turn, then each in the folders of ROOFTILE_CUDA_PATH (separated by ':'),
  // CUDA_HOME/lib64 and /usr/local/cuda/lib64. `what` names it in the error.
  static Result<Library> open(const std::vector<std::string>& names, const std::string& what);

  template <class Function>
  void load(const char* symbol, Function*& function) {
    function = reinterpret_cast<Function*>(find(symbol));
    if (function == nullptr && missing_.empty()) missing_ = symbol;
  }
  // Stays null where the library is too old to have it.
  template <class Function>
  void load_if_there(const char* symbol, Function*& function) {
    function = reinterpret_cast<Function*>(find(symbol));
  }
  // An error that names the first missing function.
  Result<void> finish() const;

 private:
  Library(void* library, std::string name) : library_(library), name_(std::move(name)) {}
  void* find(const char* symbol) const;

  void* library_;
  std::string name_, missing_;
};

}  // namespace rooftile::gpu::cuda
