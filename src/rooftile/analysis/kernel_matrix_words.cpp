#include "rooftile/analysis/kernel_matrix_words.h"

#include <algorithm>

#include "rooftile/base/text.h"

namespace rooftile::kernel_name_detail {
namespace {

bool is_layout_word(std::string_view word) {
  return (word.size() == 2 || word.size() == 3) &&
         word.find_first_not_of("nt") == std::string_view::npos;
}

// align4, ldg8, aligna2: the number after the prefix.
int number_after(std::string_view word, std::string_view prefix) {
  if (!starts_with(word, prefix)) return 0;
  word.remove_prefix(prefix.size());
  return static_cast<int>(take_number(word).value_or(0));
}

}  // namespace

bool ends_with(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

void read_alignment(std::string_view word, KernelFacts& facts) {
  for (const std::string_view prefix : {"align", "ldg", "aligna", "alignb"}) {
    const int alignment = number_after(word, prefix);
    if (alignment <= 0) continue;
    facts.alignment = facts.alignment == 0 ? alignment : std::min(facts.alignment, alignment);
  }
}

void read_layout(std::string_view word, KernelFacts& facts) {
  const bool convolution = facts.kernel_class == KernelClass::convolution;
  if (starts_with(word, "nhwc") && convolution) facts.layout = "nhwc";
  if (starts_with(word, "nchw") && convolution && facts.layout.empty()) facts.layout = "nchw";
  if (is_layout_word(word) && !convolution && facts.layout.empty())
    facts.layout = word.substr(0, 2);
}

void set_tile(const std::vector<std::int64_t>& sizes, KernelFacts& facts) {
  facts.tile_m = sizes[0];
  facts.tile_n = sizes[1];
  if (sizes.size() > 2) facts.tile_k = sizes[2];
}

bool is_split_k_word(std::string_view word) { return starts_with(lower(word), "splitk"); }

}  // namespace rooftile::kernel_name_detail
