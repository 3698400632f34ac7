// Which files are tests.
#include "rooftile/readers/python/test_files.h"

#include <algorithm>
#include <string_view>

#include "rooftile/base/text.h"
#include "rooftile/readers/python/derive.h"

namespace rooftile::source {
namespace {

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

std::string_view name_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool is_test_file(const File& file) {
  return is_test_by_name(file.path, file.module) ||
         (name_of(file.path).ends_with("_test.py") && holds_tests(file));
}

}  // namespace

bool is_below_tests(std::string_view module) {
  for (std::size_t dot = module.find('.'); dot != std::string_view::npos; dot = module.find('.')) {
    if (is_one_of(module.substr(0, dot), {"tests", "test", "testing"})) return true;
    module.remove_prefix(dot + 1);
  }
  return false;
}

bool is_test_by_name(std::string_view path, std::string_view module) {
  const std::string_view name = name_of(path);
  return name.starts_with("test_") || name == "conftest.py" || is_below_tests(module);
}

void find_test_files(SourceFacts& facts) {
  for (const auto& file : facts.files) file->is_test = is_test_file(*file);
}

}  // namespace rooftile::source
