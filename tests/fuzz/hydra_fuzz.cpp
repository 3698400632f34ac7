// Any bytes as the configuration of a program that Hydra starts give facts, and scalars within
// their text.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "rooftile/formats/yaml/scalars.h"
#include "rooftile/readers/python/read_python.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto scalars = rooftile::yaml::read_scalars(text);
  if (!scalars && scalars.error().message.empty()) std::abort();
  const auto lines = static_cast<std::uint32_t>(std::ranges::count(text, '\n')) +
                     static_cast<std::uint32_t>(std::ranges::count(text, '\r')) +
                     static_cast<std::uint32_t>(size);  // line breaks of Unicode, at most
  for (std::size_t i = 0; scalars && i < scalars->size(); ++i) {
    if ((*scalars)[i].line > lines) std::abort();
  }
  const std::string path = "/no-such-folder/train.py";  // no run reads files
  rooftile::PythonOptions options;
  options.contents[path] =
      "import hydra\nimport torch\n"
      "@hydra.main(config_path='conf', config_name='config')\n"
      "def main(cfg):\n    use(cfg.a, cfg.train.workers)\n";
  options.contents["/no-such-folder/conf/config.yaml"] = text;
  const auto facts = rooftile::read_python({&path, 1}, options);
  if (!facts) std::abort();
  for (const rooftile::source::Call* call : facts->method_calls("use")) {
    for (const rooftile::source::Argument& argument : call->arguments) facts->value(argument.value);
  }
  return 0;
}
