// Any bytes give an error or a workload whose text form reads back to the same text. Read as an
// archive, and as the program inside of one.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "rooftile/readers/pt2/pt2_archives.h"
#include "rooftile/readers/pt2/pt2_reader.h"
#include "rooftile/workload/workload_text.h"
#include "tests/fuzz/json_hooks.h"

namespace {

void reads_back(std::string_view archive, const rooftile::ReadOptions& options) {
  const auto workload = rooftile::read_pt2_bytes(archive, "fuzz.pt2", options);
  if (!workload) return;
  const std::string text = rooftile::to_text(*workload);
  const auto again = rooftile::parse_workload(text, "fuzz.pt2");
  if (again && rooftile::to_text(*again) == text) return;
  std::fprintf(stderr, "%s\nreads back as\n%s\n", text.c_str(),
               again ? rooftile::to_text(*again).c_str() : again.error().message.c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  reads_back(bytes, {});
  rooftile::ReadOptions options;
  options.batch = 3;
  options.mode = rooftile::Mode::training;
  reads_back(rooftile::pt2_test::zip({{"models/model.json", bytes}}), options);
  return 0;
}
