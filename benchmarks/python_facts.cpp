// Facts of Python sources against tree-sitter's bare parse of the same files, and the scan that
// leaves files out, in one run. Usage: rooftile_python_facts FOLDER...
#include <fmt/core.h>
#include <tree_sitter/api.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "rooftile/base/file.h"
#include "rooftile/formats/python/folder.h"
#include "rooftile/formats/python/source_text.h"
#include "rooftile/formats/python/syntax_tree.h"
#include "rooftile/readers/python/read_python.h"

extern "C" const TSLanguage* tree_sitter_python(void);

namespace {

constexpr int kRuns = 5;

// Of all threads together, so that neighbours on the machine and cores do not count.
double cpu_seconds(const std::function<void()>& action) {
  const std::clock_t start = std::clock();
  action();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

double median_of_runs(const std::function<void()>& action) {
  std::vector<double> seconds;
  for (int i = 0; i < kRuns; ++i) seconds.push_back(cpu_seconds(action));
  std::nth_element(seconds.begin(), seconds.begin() + kRuns / 2, seconds.end());
  return seconds[kRuns / 2];
}

// Before anything else: parse_python() gives tree-sitter another allocator for good.
void parse_bare(const std::vector<std::pair<std::string, std::string>>& files) {
  TSParser* parser = ts_parser_new();
  ts_parser_set_language(parser, tree_sitter_python());
  for (const auto& [path, text] : files) {
    TSTree* tree = ts_parser_parse_string(parser, nullptr, text.data(),
                                          static_cast<std::uint32_t>(text.size()));
    ts_tree_delete(tree);
  }
  ts_parser_delete(parser);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::pair<std::string, std::string>> files;
  double lines = 0;
  for (int i = 1; i < argc; ++i) {
    const auto found = rooftile::python::python_files(argv[i]);
    if (!found) return 2;
    for (const std::string& path : found->files) {
      auto bytes = rooftile::read_file(path, rooftile::python::kMaxSourceBytes);
      if (!bytes || path.ends_with(".ipynb")) continue;
      auto text = rooftile::python::clean_text(std::move(*bytes));
      if (!text) continue;
      lines += static_cast<double>(std::count(text->begin(), text->end(), '\n'));
      files.emplace_back(path, std::move(*text));
    }
  }
  const double bare = median_of_runs([&] { parse_bare(files); });
  const double tree = median_of_runs([&] {
    for (const auto& [path, text] : files) (void)rooftile::python::parse_python(text);
  });
  // Each file alone, as a program of one file.
  const double single = median_of_runs([&] {
    for (const auto& [path, text] : files) (void)rooftile::read_python_text(path, text);
  });
  const double together = median_of_runs([&] { (void)rooftile::read_python_texts(files); });
  std::size_t relevant = 0;
  const double scan = median_of_runs([&] {
    for (const auto& [path, text] : files) relevant += rooftile::python::mentions_training(text);
  });
  fmt::print("{} files, {:.0f} lines\n", files.size(), lines);
  fmt::print("bare parse      {:8.3f} s  {:.0f} lines/s\n", bare, lines / bare);
  fmt::print("flat tree       {:8.3f} s  {:.2f}x the bare parse\n", tree, tree / bare);
  fmt::print("facts, by file  {:8.3f} s  {:.2f}x (bar: 1.35x)\n", single, single / bare);
  fmt::print("facts, together {:8.3f} s  {:.2f}x (bar: 1.35x)\n", together, together / bare);
  fmt::print("scan            {:8.3f} s  {:.1f} M lines/s (bar: 2), {} files matter\n", scan,
             lines / scan / 1e6, relevant / kRuns);
  return 0;
}
