#include "rooftile/readers/python/evaluation_words.h"

#include <algorithm>

namespace rooftile::source {
namespace {

bool is_evaluation_word(std::string_view word) {
  while (!word.empty() && word.back() >= '0' && word.back() <= '9') word.remove_suffix(1);  // test2
  return word.starts_with("evaluat") || word.starts_with("validat") || word == "eval" ||
         word == "val" || word == "valid" || word == "test" || word == "dev" || word == "devset" ||
         word == "heldout" || word.starts_with("predict") || word.starts_with("infer");
}

}  // namespace

bool is_evaluation_name(std::string_view name) {
  std::size_t begin = 0;
  while (begin < name.size()) {
    const std::size_t end = std::min(name.find('_', begin), name.size());
    if (is_evaluation_word(name.substr(begin, end - begin))) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace rooftile::source
