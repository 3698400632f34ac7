#include "rooftile/formats/python/full_parse_table.h"

#include <tree_sitter_core/parser.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

extern "C" const TSLanguage* tree_sitter_python(void);

namespace rooftile::python {
namespace {

// A packed row: the number of its groups; each group is a value, the number of symbols that have
// it, and these symbols. Symbols that are not named have 0.
void unpack(const std::uint16_t* packed, std::uint16_t* row) {
  for (std::uint16_t groups = *packed++; groups > 0; --groups) {
    const std::uint16_t value = *packed++;
    for (std::uint16_t symbols = *packed++; symbols > 0; --symbols) row[*packed++] = value;
  }
}

struct FullLanguage {
  TSLanguage language = *tree_sitter_python();
  std::vector<std::uint16_t> table;

  FullLanguage() : table(std::size_t{language.state_count} * language.symbol_count) {
    const std::size_t width = language.symbol_count;
    const std::size_t spelt_out = language.large_state_count;
    std::copy_n(language.parse_table, spelt_out * width, table.begin());
    for (std::size_t state = spelt_out; state < language.state_count; ++state) {
      unpack(language.small_parse_table + language.small_parse_table_map[state - spelt_out],
             table.data() + state * width);
    }
    language.parse_table = table.data();
    language.large_state_count = language.state_count;
  }
};

}  // namespace

const TSLanguage* python_language() {
  static const FullLanguage full;
  return &full.language;
}

}  // namespace rooftile::python
