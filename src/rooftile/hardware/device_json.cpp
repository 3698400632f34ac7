#include "rooftile/hardware/device_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "rooftile/base/text.h"
#include "rooftile/hardware/device_file.h"

namespace rooftile {
namespace {

constexpr int kMaxDepth = 16;  // a device file needs 4
constexpr std::array<std::string_view, 2> kSourcedKeys = {"value", "source"};

std::string show(const DeviceJson& value) {
  return rooftile::quoted(value.dump(-1, ' ', false, DeviceJson::error_handler_t::replace), 40);
}

std::string limits_text(const Limits& limits) {
  return fmt::format("a {}number from {:g} to {:g}", limits.whole ? "whole " : "", limits.low,
                     limits.high);
}

// Nesting of brackets outside strings; bounds the work of every later pass over the tree.
bool nested_too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && (c == '{' || c == '[') && ++depth > kMaxDepth) {
      return true;
    } else if (!in_string && (c == '}' || c == ']')) {
      --depth;
    }
  }
  return false;
}

int line_of(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  return 1 + static_cast<int>(std::count(before.begin(), before.end(), '\n'));
}

}  // namespace

Result<DeviceJson> parse_device_json(std::string_view text, std::string_view where) {
  const std::string place(where);
  if (text.size() > kMaxDeviceFileBytes) {
    return fail(fmt::format("larger than {} bytes, not a device file", kMaxDeviceFileBytes), place);
  }
  if (nested_too_deep(text)) {
    return fail(fmt::format("nested deeper than {} levels, not a device file", kMaxDepth), place);
  }
  DeviceJson root;
  try {
    root = DeviceJson::parse(text);
  } catch (const DeviceJson::parse_error& error) {
    return fail(fmt::format("not valid JSON near line {}", line_of(text, error.byte)), place);
  } catch (const DeviceJson::exception&) {
    return fail("not valid JSON: a number is out of range", place);
  }
  if (!root.is_object()) return fail("expected a JSON object, found " + show(root), place);
  return root;
}

ObjectReader::ObjectReader(const DeviceJson& object, std::string path, std::string_view where)
    : object_(&object), path_(std::move(path)), where_(where) {}

tl::unexpected<Error> ObjectReader::error(std::string_view key, std::string_view message) const {
  return fail(fmt::format("{}: {}", rooftile::quoted(path_ + std::string(key)), message), where_);
}

bool ObjectReader::has(std::string_view key) const { return object_->contains(key); }

Result<const DeviceJson*> ObjectReader::find(std::string_view key) const {
  const auto entry = object_->find(std::string(key));
  if (entry == object_->end()) return error(key, "missing");
  return &*entry;
}

Result<double> ObjectReader::number(std::string_view key, Limits limits) const {
  const Result<const DeviceJson*> found = find(key);
  if (!found) return tl::unexpected(found.error());
  const DeviceJson* value = *found;
  if (value->is_object()) {
    const ObjectReader sourced(*value, path_ + std::string(key) + ".", where_);
    if (auto known = sourced.only(kSourcedKeys); !known) {
      return tl::unexpected(known.error());
    }
    if (sourced.has("source")) {
      if (const auto source = sourced.text("source"); !source) {
        return tl::unexpected(source.error());
      }
    }
    if (!sourced.has("value")) return error(key, "expected a \"value\" beside the \"source\"");
    value = &(*value)["value"];
  }
  if (!value->is_number()) return error(key, "expected a number, found " + show(*value));
  const double number = value->get<double>();
  const bool fits = number >= limits.low && number <= limits.high &&
                    (!limits.whole || number == std::floor(number));
  if (!fits) {
    return error(key, fmt::format("expected {}, found {} (the unit is in the key)",
                                  limits_text(limits), show(*value)));
  }
  return number;
}

Result<std::string> ObjectReader::text(std::string_view key) const {
  const Result<const DeviceJson*> found = find(key);
  if (!found) return tl::unexpected(found.error());
  if (!(*found)->is_string()) return error(key, "expected a text, found " + show(**found));
  std::string value = (*found)->get<std::string>();
  if (trim(value).empty()) return error(key, "expected a text, found an empty one");
  return value;
}

Result<std::vector<std::string>> ObjectReader::texts(std::string_view key) const {
  const Result<const DeviceJson*> found = find(key);
  if (!found) return tl::unexpected(found.error());
  if (!(*found)->is_array()) return error(key, "expected a list of texts, found " + show(**found));
  std::vector<std::string> values;
  for (const DeviceJson& entry : **found) {
    if (!entry.is_string()) return error(key, "expected a list of texts, found " + show(entry));
    values.push_back(entry.get<std::string>());
  }
  return values;
}

Result<ObjectReader> ObjectReader::object(std::string_view key) const {
  const Result<const DeviceJson*> found = find(key);
  if (!found) return tl::unexpected(found.error());
  if (!(*found)->is_object()) return error(key, "expected an object, found " + show(**found));
  return ObjectReader(**found, path_ + std::string(key) + ".", where_);
}

std::vector<std::string> ObjectReader::keys() const {
  std::vector<std::string> names;
  for (const auto& entry : object_->items()) names.push_back(entry.key());
  return names;
}

Result<void> ObjectReader::only(std::span<const std::string_view> known) const {
  for (const auto& entry : object_->items()) {
    const std::string& key = entry.key();
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::vector<std::string> names(known.begin(), known.end());
    const std::vector<std::string> near = nearest(key, names);
    return error(key, near.empty() ? "unknown key, expected one of " + join(names, ", ")
                                   : "unknown key, did you mean " + near.front() + "?");
  }
  return {};
}

}  // namespace rooftile
