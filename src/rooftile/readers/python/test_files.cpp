// Which files are tests.
#include <algorithm>
#include <string_view>

#include "rooftile/base/text.h"
#include "rooftile/readers/python/derive.h"

namespace rooftile::source {
namespace {

// The module's name says how the files were given; a path may lie in anybody's folder "test".
// A part of the module's name that stands for a folder: "tests" in tests.models.net.
bool is_below_tests(std::string_view module) {
  for (std::size_t dot = module.find('.'); dot != std::string_view::npos; dot = module.find('.')) {
    if (is_one_of(module.substr(0, dot), {"tests", "test", "testing"})) return true;
    module.remove_prefix(dot + 1);
  }
  return false;
}

// `test_net(net, loader)` in train(): pytest calls tests, the script does not.
bool is_called(const FunctionDef& function) {
  return std::ranges::any_of(function.callers, [](const Call* call) {
    return call->function != nullptr && !call->function->name.starts_with("test_");
  });
}

// char_cnn_test.py may be a script that trains and then tests: pytest finds a test by more than the
// ending of its file's name.
bool holds_tests(const File& file) {
  if (file.imports_from("pytest") || file.imports_from("unittest") ||
      file.imports_from("absl.testing") || file.imports_from("torch.testing")) {
    return true;
  }
  return std::ranges::any_of(file.functions, [](const FunctionDef* function) {
    return function->name.starts_with("test_") && function->outer == nullptr &&
           !is_called(*function);
  });
}

bool is_test_file(const File& file) {
  const std::string_view path = file.path;
  const std::size_t slash = path.rfind('/');
  const std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  return name.starts_with("test_") || name == "conftest.py" || is_below_tests(file.module) ||
         (name.ends_with("_test.py") && holds_tests(file));
}

}  // namespace

void find_test_files(SourceFacts& facts) {
  for (const auto& file : facts.files) file->is_test = is_test_file(*file);
}

}  // namespace rooftile::source
