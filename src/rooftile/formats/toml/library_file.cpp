#include "rooftile/formats/toml/library_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "rooftile/formats/toml/toml_library.h"

namespace rooftile::toml_file {
namespace {

class LibraryReader {
 public:
  explicit LibraryReader(const std::string& path) : path_(path) {}

  Result<LibraryFile> read(const toml::table& table) {
    for (const auto& [key, node] : table) read_key(key.str(), node);
    if (file_.library.empty()) note(table, "no key library, expected the name of the library");
    if (file_.source.empty()) note(table, "no key source, expected where its documentation is");
    if (!problem_.empty()) return fail(problem_, where_);
    return std::move(file_);
  }

 private:
  void note(const toml::node& node, std::string problem) {
    if (!problem_.empty()) return;
    problem_ = std::move(problem);
    where_ = fmt::format("{}:{}", path_, node.source().begin.line);
  }

  std::string text(const toml::node& node, std::string_view key) {
    const auto value = node.value_exact<std::string>();
    if (!value) note(node, fmt::format("{} is no text", key));
    return value.value_or("");
  }

  std::vector<std::string> texts(const toml::node& node, std::string_view key) {
    std::vector<std::string> all;
    const toml::array* array = node.as_array();
    if (array == nullptr) note(node, fmt::format("{} is no list of texts", key));
    for (std::size_t i = 0; array != nullptr && i < array->size(); ++i) {
      all.push_back(text(*array->get(i), key));
    }
    return all;
  }

  template <class Add>
  void each_entry(const toml::node& node, std::string_view key, const Add& add) {
    const toml::table* table = node.as_table();
    if (table == nullptr) return note(node, fmt::format("{} is no table", key));
    for (const auto& [name, value] : *table) add(std::string(name.str()), value);
  }

  std::vector<std::string>* list_of(std::string_view key) {
    if (key == "dtypes") return &file_.dtypes;
    if (key == "builtins") return &file_.builtins;
    if (key == "true_with_gpu") return &file_.true_with_gpu;
    return key == "keeps_results" ? &file_.keeps_results : nullptr;
  }

  void read_key(std::string_view key, const toml::node& node) {
    if (key == "library") {
      file_.library = text(node, key);
    } else if (key == "source") {
      file_.source = text(node, key);
    } else if (std::vector<std::string>* words = list_of(key)) {
      *words = texts(node, key);
    } else if (key == "spellings" || key == "homes" || key == "since") {
      auto& pairs = key == "homes" ? file_.homes : key == "since" ? file_.since : file_.spellings;
      each_entry(node, key, [&](std::string name, const toml::node& value) {
        pairs.emplace_back(std::move(name), text(value, key));
      });
    } else if (key == "exports") {
      each_entry(node, key, [&](std::string name, const toml::node& value) {
        file_.exports.emplace_back(std::move(name), texts(value, key));
      });
    } else if (key == "calls") {
      const toml::array* array = node.as_array();
      if (array == nullptr) return note(node, "calls is no list of tables");
      for (const toml::node& one : *array) read_calls(one);
    } else {
      note(node,
           fmt::format("found the key {}, expected library, source, dtypes, builtins, "
                       "true_with_gpu, keeps_results, spellings, homes, since, exports or calls",
                       key));
    }
  }

  void read_calls(const toml::node& node) {
    LibraryCalls calls;
    calls.line = static_cast<int>(node.source().begin.line);
    std::string module;
    each_entry(node, "calls", [&](const std::string& key, const toml::node& value) {
      if (key == "gives") {
        calls.gives = text(value, key);
      } else if (key == "names") {
        calls.names = texts(value, key);
      } else if (key == "module") {
        module = text(value, key) + ".";
      } else {
        note(value, fmt::format("found the key {}, expected gives, module or names", key));
      }
    });
    for (std::string& name : calls.names) name.insert(0, module);
    file_.calls.push_back(std::move(calls));
  }

  const std::string& path_;
  LibraryFile file_;
  std::string problem_, where_;
};

}  // namespace

Result<LibraryFile> parse_library(std::string_view text, const std::string& path) {
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (!std::ranges::all_of(text, is_ascii)) {
    return fail("found letters beyond ASCII, expected none", path);
  }
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    return fail(std::string(parsed.error().description()),
                fmt::format("{}:{}", path, parsed.error().source().begin.line));
  }
  return LibraryReader(path).read(parsed.table());
}

}  // namespace rooftile::toml_file
