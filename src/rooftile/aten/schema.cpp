#include "rooftile/aten/schema.h"

#include <algorithm>
#include <array>

#include "rooftile/base/text.h"

namespace rooftile {
namespace {

struct Schema {
  std::string_view target, arguments;
};

#define SCHEMA(target, arguments) Schema{target, arguments},
constexpr auto kSchemas = std::to_array<Schema>({
#include "rooftile/aten/schemas.inc"
});
#undef SCHEMA

static_assert(std::is_sorted(kSchemas.begin(), kSchemas.end(),
                             [](const Schema& a, const Schema& b) { return a.target < b.target; }));

const Schema* find_schema(std::string_view target) {
  const auto found = std::lower_bound(
      kSchemas.begin(), kSchemas.end(), target,
      [](const Schema& schema, std::string_view name) { return schema.target < name; });
  return found != kSchemas.end() && found->target == target ? &*found : nullptr;
}

AtenValue default_value(std::string_view text) {
  if (text.empty() || text == "None") return {};
  return {{}, {}, text.front() == '[' ? "ScalarList" : "Scalar", std::string(text)};
}

const AtenValue* find_value(const NamedValues& given, std::string_view name, std::size_t position) {
  for (const auto& [own, value] : given) {
    if (own == name) return &value;
  }
  return position < given.size() && given[position].first.empty() ? &given[position].second
                                                                  : nullptr;
}

}  // namespace

std::vector<AtenValue> in_order(std::string_view target, const NamedValues& given) {
  std::vector<AtenValue> ordered;
  const Schema* schema = find_schema(target);
  if (schema == nullptr) {
    for (const auto& [name, value] : given) ordered.push_back(value);
    return ordered;
  }
  for (const std::string_view argument : split(schema->arguments, ' ')) {
    const std::size_t equals = std::min(argument.find('='), argument.size());
    const AtenValue* value = find_value(given, argument.substr(0, equals), ordered.size());
    const std::string_view otherwise =
        equals < argument.size() ? argument.substr(equals + 1) : std::string_view();
    ordered.push_back(value != nullptr ? *value : default_value(otherwise));
  }
  return ordered;
}

OpArguments as_recorded(const std::vector<AtenValue>& values) {
  OpArguments arguments;
  for (const AtenValue& value : values) {
    arguments.dims.push_back(value.dims);
    arguments.strides.push_back(value.strides);
    arguments.types.push_back(value.type);
    arguments.values.push_back(value.value);
  }
  return arguments;
}

}  // namespace rooftile
