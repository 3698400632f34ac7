// NVRTC: CUDA C++ to machine code for one GPU, at run time.
#pragma once

#include <string>
#include <vector>

#include "gpu/cuda/library.h"

namespace rooftile::gpu::cuda {

class Compiler {
 public:
  static Result<Compiler> open();

  // The CUBIN of the source for one compute capability (80); an error holds the compiler's first
  // message.
  Result<std::string> compile(const std::string& source, int compute_capability,
                              const std::vector<std::string>& defines) const;
  std::string version() const;

 private:
  template <class Checked>
  friend struct AbiCheck;
  using Program = struct ProgramTag*;
  using Status = int;  // nvrtcResult; 0 is success

  explicit Compiler(Library library) : library_(std::move(library)) {}
  Result<void> load();
  std::string log(Program program) const;
  Result<std::string> build(Program program, int compute_capability,
                            const std::vector<std::string>& defines) const;

  Library library_;
  Status (*version_)(int*, int*) = nullptr;
  Status (*create_)(Program*, const char*, const char*, int, const char* const*,
                    const char* const*) = nullptr;
  Status (*compile_)(Program, int, const char* const*) = nullptr;
  Status (*destroy_)(Program*) = nullptr;
  Status (*log_size_)(Program, std::size_t*) = nullptr;
  Status (*log_)(Program, char*) = nullptr;
  Status (*cubin_size_)(Program, std::size_t*) = nullptr;
  Status (*cubin_)(Program, char*) = nullptr;
};

}  // namespace rooftile::gpu::cuda
