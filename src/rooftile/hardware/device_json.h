// Checked access to the JSON of a device file. Only for this folder's sources: it drags in the JSON
// library.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/result.h"

namespace rooftile {

// In file order, so that sources are listed as written.
using DeviceJson = nlohmann::ordered_json;

// What a number may be: both ends included.
struct Limits {
  double low, high;
  bool whole = false;
};

// The text as JSON whose root is an object; an error for too large, too deep or malformed text.
Result<DeviceJson> parse_device_json(std::string_view text, std::string_view where);

// Values of one JSON object, with errors that name the file and the key's full path.
class ObjectReader {
 public:
  ObjectReader(const DeviceJson& object, std::string path, std::string_view where);

  bool has(std::string_view key) const;
  // A plain number, or {"value": number, "source": text}.
  Result<double> number(std::string_view key, Limits limits) const;
  Result<std::string> text(std::string_view key) const;
  Result<std::vector<std::string>> texts(std::string_view key) const;
  Result<ObjectReader> object(std::string_view key) const;
  std::vector<std::string> keys() const;
  // The object as JSON text.
  std::string dump() const { return object_->dump(); }
  // An error that names the first key outside `known`, and the nearest known one.
  Result<void> only(std::span<const std::string_view> known) const;
  tl::unexpected<Error> error(std::string_view key, std::string_view message) const;

 private:
  Result<const DeviceJson*> find(std::string_view key) const;

  const DeviceJson* object_;
  std::string path_;  // "" or "mig_profiles.1g.5gb."
  std::string where_;
};

}  // namespace rooftile
