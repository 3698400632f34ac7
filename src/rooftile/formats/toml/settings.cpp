#include "rooftile/formats/toml/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "rooftile/base/file.h"
#include "rooftile/base/path.h"
#include "rooftile/base/text.h"
#include "rooftile/formats/toml/toml_library.h"

namespace rooftile::toml_file {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxBytes = std::size_t{1} << 20U;
constexpr std::string_view kLevels[] = {"error", "warning", "advice", "info"};

// The library's tables of white space have undefined behaviour for most letters beyond ASCII, so it
// gets bytes from 0x80 on spelled in ASCII: Ux8C3xU.
constexpr std::string_view kBefore = "Ux8", kAfter = "xU";

std::string in_ascii(std::string_view text) {
  std::string ascii;
  ascii.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      ascii += c;
    } else {
      fmt::format_to(std::back_inserter(ascii), "{}{:02X}{}", kBefore, byte, kAfter);
    }
  }
  return ascii;
}

std::string from_ascii(std::string_view ascii) {
  constexpr std::size_t kDigits = 2;
  std::string text;
  for (std::size_t i = 0; i < ascii.size(); ++i) {
    const std::string_view rest = ascii.substr(i);
    const std::string_view hex = rest.substr(std::min(kBefore.size(), rest.size()), kDigits);
    unsigned byte = 0;
    const bool is_byte =
        rest.starts_with(kBefore) &&
        rest.substr(std::min(kBefore.size() + kDigits, rest.size())).starts_with(kAfter) &&
        std::from_chars(hex.data(), hex.data() + hex.size(), byte, 16).ec == std::errc();
    text += is_byte ? static_cast<char>(byte) : ascii[i];
    if (is_byte) i += kBefore.size() + kDigits + kAfter.size() - 1;
  }
  return text;
}

int line_of(const toml::node& node) { return static_cast<int>(node.source().begin.line); }

std::string_view type_name(const toml::node& node) {
  if (node.is_table()) return "a table";
  if (node.is_array()) return "a list";
  if (node.is_string()) return "a text";
  if (node.is_boolean()) return "true or false";
  if (node.is_number()) return "a number";
  return "a date or time";
}

class SettingsReader {
 public:
  explicit SettingsReader(const std::string& path) {
    settings_.file = path;
    settings_.folder = fs::path(path).parent_path().string();
  }

  Result<Settings> read(const toml::table& table) {
    for (const auto& [key, value] : table) {
      const Result<void> done = read_key(from_ascii(key.str()), value);
      if (!done) return tl::unexpected(done.error());
    }
    return std::move(settings_);
  }

 private:
  Result<void> read_key(const std::string& key, const toml::node& value) {
    if (key == "select") return read_list(key, value, settings_.select);
    if (key == "ignore") return read_list(key, value, settings_.ignore);
    if (key == "exclude") return read_list(key, value, settings_.exclude);
    if (key == "gpu") return read_text(key, value, settings_.gpu);
    if (key == "baseline") return read_text(key, value, settings_.baseline);
    if (key == "fail-on") return read_level(key, value);
    if (key == "per-path-ignores") return read_path_ignores(key, value);
    const std::vector<std::string> close = nearest(
        key, {"select", "ignore", "exclude", "gpu", "baseline", "fail-on", "per-path-ignores"});
    return error(value, fmt::format("unknown key {}{}", rooftile::quoted(key),
                                    close.empty() ? "" : "; did you mean " + close.front() + "?"));
  }

  tl::unexpected<Error> error(const toml::node& node, const std::string& message) const {
    return fail(message, fmt::format("{}:{}", settings_.file, line_of(node)));
  }

  tl::unexpected<Error> wrong_type(const toml::node& node, const std::string& key,
                                   std::string_view expected) const {
    return error(node, fmt::format("{}: expected {}, found {}", key, expected, type_name(node)));
  }

  Result<void> read_text(const std::string& key, const toml::node& value,
                         std::optional<Entry>& entry) {
    const auto* text = value.as_string();
    if (text == nullptr) return wrong_type(value, key, "a text");
    entry = Entry{from_ascii(text->get()), line_of(value)};
    return {};
  }

  Result<void> read_level(const std::string& key, const toml::node& value) {
    const Result<void> done = read_text(key, value, settings_.fail_on);
    if (!done) return done;
    for (const std::string_view level : kLevels) {
      if (settings_.fail_on->text == level) return {};
    }
    return error(value, fmt::format("{}: expected error, warning, advice or info, found {}", key,
                                    rooftile::quoted(settings_.fail_on->text)));
  }

  Result<void> read_list(const std::string& key, const toml::node& value,
                         std::vector<Entry>& entries) {
    const toml::array* list = value.as_array();
    if (list == nullptr) return wrong_type(value, key, "a list of texts");
    for (const toml::node& item : *list) {
      const auto* text = item.as_string();
      if (text == nullptr) return wrong_type(item, key, "a list of texts, and in it a text");
      entries.push_back({from_ascii(text->get()), line_of(item)});
    }
    return {};
  }

  Result<void> read_path_ignores(const std::string& key, const toml::node& value) {
    const toml::table* table = value.as_table();
    if (table == nullptr) return wrong_type(value, key, "a table of paths with lists of rules");
    for (const auto& [path, rules] : *table) {
      PathIgnore ignore{from_ascii(path.str()), {}};
      const Result<void> done = read_list(key, rules, ignore.rules);
      if (!done) return done;
      settings_.path_ignores.push_back(std::move(ignore));
    }
    return {};
  }

  Settings settings_;
};

// The library goes down one level for each part of a dotted key.
Result<void> require_harmless(std::string_view text, const std::string& path) {
  constexpr int kMostDots = 1000;  // of one key; far more than anybody writes
  int line = 1, dots = 0;
  for (const char c : text) {
    if (c == '\n') ++line;
    if (c == '\n' || c == '=' || c == ',') dots = 0;
    // No TOML, and more than the library is prepared for.
    const bool is_control = static_cast<unsigned char>(c) < ' ' || c == '\x7f';
    if (is_control && c != '\t' && c != '\n' && c != '\r') {
      return fail("found a control character", fmt::format("{}:{}", path, line));
    }
    if (c == '.' && ++dots > kMostDots) {
      return fail(fmt::format("found a key of more than {} parts", kMostDots),
                  fmt::format("{}:{}", path, line));
    }
  }
  return {};
}

// A pyproject.toml without our table has no settings.
Result<std::optional<Settings>> read_settings_text(std::string_view text, const std::string& path) {
  const Result<void> harmless = require_harmless(text, path);
  if (!harmless) return tl::unexpected(harmless.error());
  const toml::parse_result parsed = toml::parse(in_ascii(text), path);
  if (!parsed) {
    return fail(from_ascii(parsed.error().description()),
                fmt::format("{}:{}", path, parsed.error().source().begin.line));
  }
  const toml::table* table = &parsed.table();
  if (fs::path(path).filename() == "pyproject.toml") {
    const toml::table* tools = (*table)["tool"].as_table();
    const toml::node* ours = tools == nullptr ? nullptr : tools->get("rooftile");
    if (ours == nullptr) return std::nullopt;
    table = ours->as_table();
    if (table == nullptr) {
      return fail("tool.rooftile: expected a table", fmt::format("{}:{}", path, line_of(*ours)));
    }
  }
  Result<Settings> settings = SettingsReader(path).read(*table);
  if (!settings) return tl::unexpected(settings.error());
  return std::optional(std::move(*settings));
}

Result<std::optional<Settings>> settings_in(const fs::path& folder) {
  for (const char* name : {"rooftile.toml", "pyproject.toml"}) {
    const std::string path = normal_path((folder / name).string());
    std::error_code error;
    if (!fs::is_regular_file(path, error)) continue;
    const Result<std::string> text = read_file(path, kMaxBytes);
    if (!text) return tl::unexpected(text.error());
    // Most are about other tools only; they are not even parsed.
    if (text->find("rooftile") == std::string::npos && name[0] == 'p') continue;
    Result<std::optional<Settings>> settings = read_settings_text(*text, path);
    if (!settings || *settings) return settings;
  }
  return std::nullopt;
}

}  // namespace

std::string Settings::where(const Entry& entry) const {
  return fmt::format("{}:{}", file, entry.line);
}

Result<Settings> parse_settings(std::string_view text, const std::string& path) {
  Result<std::optional<Settings>> settings = read_settings_text(text, path);
  if (!settings) return tl::unexpected(settings.error());
  return settings->value_or(Settings{});
}

Result<Settings> find_settings(const std::string& input) {
  std::error_code error;
  fs::path folder = fs::current_path(error);
  if (fs::is_directory(input, error)) {
    folder = fs::canonical(input, error);
  } else if (fs::exists(input, error)) {
    folder = fs::canonical(input, error).parent_path();
  }
  while (!folder.empty()) {
    Result<std::optional<Settings>> settings = settings_in(folder);
    if (!settings) return tl::unexpected(settings.error());
    if (*settings) return std::move(**settings);
    if (folder == folder.parent_path()) break;
    folder = folder.parent_path();
  }
  return Settings{};
}

}  // namespace rooftile::toml_file
