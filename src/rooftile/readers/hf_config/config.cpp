#include "rooftile/readers/hf_config/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "rooftile/base/text.h"

namespace rooftile::hf {
namespace {

// No published model has a width, vocabulary or layer count near this; products of two sizes and a
// layer count stay within 64 bits.
constexpr std::int64_t kMaxConfigSize = 1 << 25;
constexpr int kMaxDepth = 64;
constexpr std::size_t kMaxListLength = 4096;

std::string shown(const nlohmann::json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  if (value.is_number()) return value.dump();
  return rooftile::quoted(value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace), 40);
}

// Replaces a bare word at `at` by "null" of the same meaning to us; returns the characters used.
std::size_t skip_python_constant(std::string_view text, std::size_t at, std::string& out) {
  for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
    if (text.substr(at, word.size()) == word) {
      out += "null";
      return word.size();
    }
  }
  return 0;
}

struct Scanner {
  bool in_string = false, escaped = false;
  int depth = 0;

  void see(char c) {
    if (in_string) {
      if (escaped) {
        escaped = false;
      } else if (c == '\\') {
        escaped = true;
      } else if (c == '"') {
        in_string = false;
      }
      return;
    }
    if (c == '"') in_string = true;
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
  }
};

Result<std::string> as_strict_json(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  Scanner scanner;
  for (std::size_t at = 0; at < text.size();) {
    if (!scanner.in_string) {
      const std::size_t used = skip_python_constant(text, at, out);
      at += used;
      if (used > 0) continue;
    }
    scanner.see(text[at]);
    if (scanner.depth > kMaxDepth) {
      return fail(fmt::format("JSON nested deeper than {} levels", kMaxDepth));
    }
    out += text[at++];
  }
  return out;
}

}  // namespace

Result<nlohmann::json> parse_json(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  auto strict = as_strict_json(text);
  if (!strict) return tl::unexpected(strict.error());
  try {
    return nlohmann::json::parse(*strict);
  } catch (const nlohmann::json::exception& problem) {
    const std::string_view what = problem.what();
    const std::size_t start = what.find("] ");
    return fail(
        "not valid JSON: " +
        rooftile::quoted(start == std::string_view::npos ? what : what.substr(start + 2), 160));
  }
}

Config::Config(const nlohmann::json& object)
    : Config(object, "", std::make_shared<std::optional<Error>>()) {}

Config::Config(const nlohmann::json& object, std::string path,
               std::shared_ptr<std::optional<Error>> error)
    : object_(&object), path_(std::move(path)), error_(std::move(error)) {}

std::string Config::name(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

void Config::set_error(std::string message) const {
  if (!*error_) *error_ = Error{std::move(message), {}};
}

const nlohmann::json* Config::find(std::string_view key) const {
  const auto entry = object_->find(std::string(key));
  return entry == object_->end() || entry->is_null() ? nullptr : &*entry;
}

bool Config::has(std::string_view key) const { return find(key) != nullptr; }

std::optional<Config> Config::child(std::string_view key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr || !value->is_object()) return std::nullopt;
  return Config(*value, name(key), error_);
}

std::int64_t Config::integer(std::string_view key, std::int64_t least) const {
  const nlohmann::json& value = *find(key);
  if (value.is_number_integer()) {
    const bool huge = value.is_number_unsigned() &&
                      value.get<std::uint64_t>() > static_cast<std::uint64_t>(kMaxConfigSize);
    const std::int64_t found = huge ? -1 : value.get<std::int64_t>();
    if (found >= least && found <= kMaxConfigSize) return found;
  }
  set_error(fmt::format("{}: found {}, expected an integer from {} to {}", name(key), shown(value),
                        least, kMaxConfigSize));
  return 1;
}

std::int64_t Config::size(Keys keys) const {
  for (const std::string_view key : keys) {
    if (has(key)) return integer(key, 1);
  }
  set_error(fmt::format("\"{}\" is missing", name(*keys.begin())));
  return 1;
}

std::int64_t Config::size_or(Keys keys, std::int64_t fallback) const {
  for (const std::string_view key : keys) {
    if (has(key)) return integer(key, 1);
  }
  return fallback;
}

std::int64_t Config::count_or(Keys keys, std::int64_t fallback) const {
  for (const std::string_view key : keys) {
    if (has(key)) return integer(key, 0);
  }
  return fallback;
}

bool Config::flag(std::string_view key, bool fallback) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  if (value->is_number_integer()) return value->get<std::int64_t>() != 0;
  set_error(fmt::format("{}: found {}, expected true or false", name(key), shown(*value)));
  return fallback;
}

std::string Config::text(std::string_view key, std::string_view fallback) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::string(fallback);
  if (value->is_string()) return value->get<std::string>();
  set_error(fmt::format("{}: found {}, expected a string", name(key), shown(*value)));
  return std::string(fallback);
}

bool Config::is_text(std::string_view key) const {
  const nlohmann::json* value = find(key);
  return value != nullptr && value->is_string();
}

std::optional<double> Config::number(std::string_view key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) return value->get<double>();
  set_error(fmt::format("{}: found {}, expected a number", name(key), shown(*value)));
  return std::nullopt;
}

std::vector<std::int64_t> Config::sizes(std::string_view key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return {};
  if (!value->is_array()) return {integer(key, 0)};
  std::vector<std::int64_t> found;
  for (const nlohmann::json& entry : *value) {
    const bool fits = entry.is_number_integer() && found.size() < kMaxListLength &&
                      (!entry.is_number_unsigned() || entry.get<std::uint64_t>() <= kMaxConfigSize);
    const std::int64_t size = fits ? entry.get<std::int64_t>() : -1;
    if (size < 0 || size > kMaxConfigSize) {
      set_error(fmt::format("{}: found {} in the list, expected integers from 0 to {}", name(key),
                            shown(entry), kMaxConfigSize));
      return {};
    }
    found.push_back(size);
  }
  return found;
}

std::vector<double> Config::numbers(std::string_view key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return {};
  std::vector<double> found;
  if (value->is_array()) {
    for (const nlohmann::json& entry : *value) {
      if (entry.is_number()) found.push_back(entry.get<double>());
    }
  }
  if (value->is_array() && found.size() == value->size()) return found;
  set_error(fmt::format("{}: found {}, expected a list of numbers", name(key), shown(*value)));
  return {};
}

std::vector<std::string> Config::texts(std::string_view key) const {
  const nlohmann::json* value = find(key);
  std::vector<std::string> found;
  if (value == nullptr || !value->is_array()) return found;
  for (const nlohmann::json& entry : *value) {
    if (entry.is_string()) found.push_back(entry.get<std::string>());
  }
  return found;
}

std::vector<Config> Config::children(std::string_view key) const {
  const nlohmann::json* value = find(key);
  std::vector<Config> found;
  if (value == nullptr || !value->is_structured()) return found;
  for (const nlohmann::json& entry : *value) {
    if (entry.is_object() && found.size() < kMaxListLength) {
      found.push_back(Config(entry, fmt::format("{}[{}]", name(key), found.size()), error_));
    }
  }
  return found;
}

std::int64_t Config::length(std::string_view key) const {
  const nlohmann::json* value = find(key);
  return value == nullptr || !value->is_structured() ? 0 : static_cast<std::int64_t>(value->size());
}

std::vector<std::string> Config::keys() const {
  std::vector<std::string> found;
  for (const auto& [key, value] : object_->items()) found.push_back(key);
  return found;
}

std::int64_t Config::divide(std::string_view whole_key, std::int64_t whole,
                            std::string_view part_key, std::int64_t part) const {
  if (part >= 1 && whole % part == 0) return whole / part;
  set_error(fmt::format("{}: found {}, expected a multiple of {} {}", name(whole_key), whole,
                        part_key, part));
  return 1;
}

}  // namespace rooftile::hf
