#include "rooftile/hardware/device_names.h"

#include <array>
#include <nlohmann/json.hpp>

#include "rooftile/base/text.h"

namespace rooftile {
namespace {

// Collects the texts under "name" and "aliases" and ends the parse at the first other key, so that
// a look-up costs a few hundred bytes a file.
class NameReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<std::string> names;

  bool key(string_t& text) override { return text == "name" || text == "aliases"; }
  bool string(string_t& text) override {
    names.push_back(text);
    return true;
  }
  bool start_object(std::size_t) override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool end_object() override { return false; }
  bool null() override { return false; }
  bool boolean(bool) override { return false; }
  bool number_integer(number_integer_t) override { return false; }
  bool number_unsigned(number_unsigned_t) override { return false; }
  bool number_float(number_float_t, const string_t&) override { return false; }
  bool binary(binary_t&) override { return false; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }
};

struct OtherMaker {
  std::string_view start, maker;
  bool number_follows = false;
};

// Starts of names as their makers print them; NVIDIA has none of these.
constexpr std::array<OtherMaker, 22> kOtherMakers{{
    {"amd", "AMD"},
    {"instinct", "AMD"},
    {"radeon", "AMD"},
    {"mi", "AMD", true},
    {"rx", "AMD", true},
    {"gfx", "AMD", true},
    {"intel", "Intel"},
    {"gaudi", "Intel"},
    {"habana", "Intel"},
    {"arc", "Intel"},
    {"datacentergpumax", "Intel"},
    {"google", "Google"},
    {"tpu", "Google"},
    {"trainium", "Amazon"},
    {"inferentia", "Amazon"},
    {"trn", "Amazon", true},
    {"inf", "Amazon", true},
    {"apple", "Apple"},
    {"ascend", "Huawei"},
    {"mlu", "Cambricon", true},
    {"graphcore", "Graphcore"},
    {"cerebras", "Cerebras"},
}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::optional<std::string_view> other_maker(std::string_view key) {
  for (const OtherMaker& other : kOtherMakers) {
    if (!key.starts_with(other.start)) continue;
    const std::string_view rest = key.substr(other.start.size());
    if (!other.number_follows || (!rest.empty() && is_digit(rest.front()))) return other.maker;
  }
  return std::nullopt;
}

std::string device_key(std::string_view name) {
  std::string key;
  for (const char c : lower(name)) {
    if (c != ' ' && c != '-' && c != '_') key += c;
  }
  for (const std::string_view brand : {"nvidia", "tesla", "geforce"}) {
    if (key.size() > brand.size() && key.starts_with(brand)) key.erase(0, brand.size());
  }
  return key;
}

std::vector<std::string> device_names(std::string_view json) {
  NameReader reader;
  nlohmann::json::sax_parse(json, &reader);
  return std::move(reader.names);
}

}  // namespace rooftile
