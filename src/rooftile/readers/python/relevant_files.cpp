// Which of the files of a folder a program could be made of.
#include <algorithm>
#include <cctype>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "rooftile/base/text.h"
#include "rooftile/readers/python/source_files.h"
#include "rooftile/readers/python/test_files.h"

namespace rooftile::source {
namespace {

// Words after import and from at the start of lines: enough to see whether a file is related.
void collect_imported_words(std::string_view text, std::unordered_set<std::string_view>& words) {
  for (std::size_t next = 0; next < text.size();) {
    while (next < text.size() && (text[next] == ' ' || text[next] == '\t')) ++next;
    const std::size_t line_end = std::min(text.find('\n', next), text.size());
    const std::string_view line = text.substr(next, line_end - next);
    next = line_end + 1;
    if (!line.starts_with("import ") && !line.starts_with("from ")) continue;
    std::size_t begin = 0;
    for (std::size_t i = 0; i <= line.size(); ++i) {
      const bool letter =
          i < line.size() &&
          (std::isalnum(static_cast<unsigned char>(line[i])) != 0 || line[i] == '_');
      if (letter) continue;
      if (i > begin) words.insert(line.substr(begin, i - begin));
      begin = i + 1;
    }
  }
}

std::string_view module_leaf(std::string_view module) {
  return module.substr(module.rfind('.') + 1);
}

// `from .defaults import _C as cfg` in the __init__.py of a package that was added: what it names
// are files of the program too.
void add_named_by_packages(std::vector<Candidate>& candidates,
                           const std::vector<const Candidate*>& added) {
  std::unordered_set<std::string_view> named;
  for (const Candidate* one : added) {
    if (one->path.ends_with("__init__.py")) collect_imported_words(one->bytes, named);
  }
  for (Candidate& candidate : candidates) {
    if (candidate.relevant || candidate.bytes.empty() || is_notebook(candidate.path)) continue;
    candidate.relevant = named.contains(module_leaf(candidate.module));
  }
}

// test_net.py may be a script that evaluates a network.
bool is_of_test_suite(const Candidate& candidate) {
  if (candidate.named || !is_test_by_name(candidate.path, candidate.module)) return false;
  return is_below_tests(candidate.module) ||
         contains_any(candidate.bytes, {"def test_", "pytest", "unittest"});
}

}  // namespace

void add_related(std::vector<Candidate>& candidates) {
  std::unordered_set<std::string_view> imported;
  std::unordered_set<std::string_view> modules;
  for (const Candidate& candidate : candidates) {
    if (!candidate.relevant) continue;
    collect_imported_words(candidate.bytes, imported);
    modules.insert(module_leaf(candidate.module));
  }
  std::vector<const Candidate*> added;
  for (Candidate& candidate : candidates) {
    if (candidate.relevant || candidate.bytes.empty() || is_notebook(candidate.path)) continue;
    bool related = imported.contains(module_leaf(candidate.module));
    if (!related) {
      std::unordered_set<std::string_view> words;
      collect_imported_words(candidate.bytes, words);
      related =
          std::ranges::any_of(words, [&](std::string_view word) { return modules.contains(word); });
    }
    candidate.relevant = related;
    if (related) added.push_back(&candidate);
  }
  add_named_by_packages(candidates, added);
}

void leave_out_tests(std::vector<Candidate>& candidates) {
  std::vector<const Candidate*> read;
  std::vector<Candidate*> tests;
  for (Candidate& candidate : candidates) {
    if (!candidate.relevant) continue;
    if (is_of_test_suite(candidate)) {
      tests.push_back(&candidate);
    } else {
      read.push_back(&candidate);
    }
  }
  if (tests.empty()) return;
  std::unordered_set<std::string_view> imported;
  while (!read.empty()) {
    for (const Candidate* one : read) collect_imported_words(one->bytes, imported);
    read.clear();
    std::erase_if(tests, [&](Candidate* test) {
      const bool is_imported = imported.contains(module_leaf(test->module));
      if (is_imported) read.push_back(test);
      return is_imported;
    });
  }
  for (Candidate* test : tests) test->relevant = false;
}

}  // namespace rooftile::source
