// Any bytes as a project's settings, as the patterns of a .gitignore, and as a baseline: a result
// or an error with a text, in bounded time.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "rooftile/formats/python/folder.h"
#include "rooftile/formats/toml/settings.h"
#include "rooftile/pipeline/baseline.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const char* name : {"rooftile.toml", "pyproject.toml"}) {
    const auto settings = rooftile::toml_file::parse_settings(text, name);
    if (!settings && settings.error().message.empty()) std::abort();
  }
  const auto baseline = rooftile::parse_baseline(text);
  if (!baseline && baseline.error().message.empty()) std::abort();
  const rooftile::python::IgnoreRules rules(text);
  for (const char* path :
       {"train.py", "package/models/net.py", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"}) {
    rules.judge(path, false);
    rules.judge(path, true);
  }
  return 0;
}
