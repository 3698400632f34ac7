// Checked access to the values of a config.json.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/result.h"

namespace rooftile::hf {

// Parses JSON as Python writes it (Infinity and NaN become null); deep nesting is refused.
Result<nlohmann::json> parse_json(std::string_view text);

// Spellings of one value in different families, the first one named in errors.
using Keys = std::initializer_list<std::string_view>;

// One JSON object. Wrong or missing values do not stop the caller: the first error is kept, the
// value returned is 1, and whoever asked for the model looks at error() in the end. The JSON must
// outlive this. Null counts as absent, as in Transformers.
class Config {
 public:
  explicit Config(const nlohmann::json& object);

  bool has(std::string_view key) const;
  // The nested object; empty where absent. Shares the error.
  std::optional<Config> child(std::string_view key) const;

  // A size from 1 to kMaxConfigSize.
  std::int64_t size(Keys keys) const;
  std::int64_t size_or(Keys keys, std::int64_t fallback) const;
  // As size_or, but 0 is allowed.
  std::int64_t count_or(Keys keys, std::int64_t fallback) const;
  bool flag(std::string_view key, bool fallback) const;
  std::string text(std::string_view key, std::string_view fallback = {}) const;
  bool is_text(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  // A list of sizes or of strings; empty where absent. A single size is a list of one.
  std::vector<std::int64_t> sizes(std::string_view key) const;
  std::vector<std::string> texts(std::string_view key) const;
  // A list of numbers; empty where absent.
  std::vector<double> numbers(std::string_view key) const;
  // The objects of a list.
  std::vector<Config> children(std::string_view key) const;
  // Entries of an object or list, 0 where absent.
  std::int64_t length(std::string_view key) const;
  std::vector<std::string> keys() const;

  // whole / part; an error when it does not divide.
  std::int64_t divide(std::string_view whole_key, std::int64_t whole, std::string_view part_key,
                      std::int64_t part) const;

  void set_error(std::string message) const;
  const std::optional<Error>& error() const { return *error_; }

 private:
  Config(const nlohmann::json& object, std::string path,
         std::shared_ptr<std::optional<Error>> error);
  const nlohmann::json* find(std::string_view key) const;
  std::int64_t integer(std::string_view key, std::int64_t least) const;
  std::string name(std::string_view key) const;

  const nlohmann::json* object_;
  std::string path_;
  std::shared_ptr<std::optional<Error>> error_;
};

}  // namespace rooftile::hf
