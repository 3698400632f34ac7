#include "gpu/cuda/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

#include "rooftile/base/text.h"

namespace rooftile::gpu::cuda {
namespace {

std::vector<std::string> extra_folders() {
  std::vector<std::string> folders;
  if (const char* listed = std::getenv("ROOFTILE_CUDA_PATH")) {
    for (const std::string_view folder : split(listed, ':')) folders.emplace_back(folder);
  }
  if (const char* home = std::getenv("CUDA_HOME")) folders.push_back(std::string(home) + "/lib64");
  folders.emplace_back("/usr/local/cuda/lib64");
  return folders;
}

void* open_anywhere(const std::string& name) {
  if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL)) return library;
  for (const std::string& folder : extra_folders()) {
    if (folder.empty()) continue;
    const std::string path = fmt::format("{}/{}", folder, name);
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL)) return library;
  }
  return nullptr;
}

}  // namespace

Result<Library> Library::open(const std::vector<std::string>& names, const std::string& what) {
  for (const std::string& name : names) {
    if (void* library = open_anywhere(name)) return Library(library, name);
  }
  return fail(fmt::format("no {} found ({})", what, names.front()));
}

void* Library::find(const char* symbol) const { return dlsym(library_, symbol); }

Result<void> Library::finish() const {
  if (missing_.empty()) return {};
  return fail(fmt::format("{} has no function {}: it is too old", name_, missing_));
}

}  // namespace rooftile::gpu::cuda
