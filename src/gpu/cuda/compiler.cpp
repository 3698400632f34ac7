#include "gpu/cuda/compiler.h"

#include <fmt/format.h>

namespace rooftile::gpu::cuda {

Result<Compiler> Compiler::open() {
  Result<Library> library = Library::open({"libnvrtc.so.12", "libnvrtc.so.13", "libnvrtc.so.11.2"},
                                          "CUDA run-time compiler");
  if (!library) return tl::unexpected(library.error());
  Compiler compiler(std::move(*library));
  if (const auto loaded = compiler.load(); !loaded) return tl::unexpected(loaded.error());
  return compiler;
}

Result<void> Compiler::load() {
  library_.load("nvrtcVersion", version_);
  library_.load("nvrtcCreateProgram", create_);
  library_.load("nvrtcCompileProgram", compile_);
  library_.load("nvrtcDestroyProgram", destroy_);
  library_.load("nvrtcGetProgramLogSize", log_size_);
  library_.load("nvrtcGetProgramLog", log_);
  library_.load("nvrtcGetCUBINSize", cubin_size_);
  library_.load("nvrtcGetCUBIN", cubin_);
  return library_.finish();
}

std::string Compiler::version() const {
  int major = 0, minor = 0;
  version_(&major, &minor);
  return fmt::format("{}.{}", major, minor);
}

std::string Compiler::log(Program program) const {
  std::size_t size = 0;
  if (log_size_(program, &size) != 0 || size < 2) return "no message";
  std::string text(size, '\0');
  log_(program, text.data());
  text.pop_back();  // the terminating zero
  return text;
}

Result<std::string> Compiler::build(Program program, int compute_capability,
                                    const std::vector<std::string>& defines) const {
  std::vector<std::string> options{fmt::format("--gpu-architecture=sm_{}", compute_capability),
                                   "--std=c++17"};
  for (const std::string& define : defines) options.push_back("-D" + define);
  std::vector<const char*> pointers;
  for (const std::string& option : options) pointers.push_back(option.c_str());
  if (compile_(program, static_cast<int>(pointers.size()), pointers.data()) != 0) {
    return fail("the CUDA run-time compiler refused a kernel: " + log(program));
  }
  std::size_t size = 0;
  if (cubin_size_(program, &size) != 0 || size == 0) return fail("no machine code came back");
  std::string cubin(size, '\0');
  if (cubin_(program, cubin.data()) != 0) return fail("no machine code came back");
  return cubin;
}

Result<std::string> Compiler::compile(const std::string& source, int compute_capability,
                                      const std::vector<std::string>& defines) const {
  Program program = nullptr;
  if (create_(&program, source.c_str(), "rooftile.cu", 0, nullptr, nullptr) != 0) {
    return fail("the CUDA run-time compiler takes no program");
  }
  Result<std::string> cubin = build(program, compute_capability, defines);
  destroy_(&program);
  return cubin;
}

}  // namespace rooftile::gpu::cuda
