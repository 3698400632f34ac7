#include "rooftile/workload/trace_summary_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "rooftile/base/text.h"
#include "rooftile/workload/op_fields.h"
#include "rooftile/workload/trace_names.h"
#include "rooftile/workload/trace_summary_fields.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSchema = "rooftile-trace-summary/1";
constexpr std::size_t kMostBytes = std::size_t{64} << 20U;
// Bound the memory that a small text can ask for: a value takes up to 100 bytes.
constexpr std::size_t kMostValues = 4'000'000;
constexpr int kMostLevels = 16;

// ---- writing

class SummaryWriter {
 public:
  explicit SummaryWriter(Json& json) : json_(json) { json_ = Json::object(); }
  template <class T>
  void operator()(const char* key, T& value) {
    json_[key] = to_json(value);
  }
  template <class T>
  void optional(const char* key, T& value) {
    (*this)(key, value);
  }

  template <class T>
  requires std::is_arithmetic_v<T>
  static Json to_json(T value) { return value; }
  static Json to_json(std::string& value) { return value; }
  template <class Kind>
  static Json to_json(Quantity<Kind> value) {
    return value.value();
  }
  template <class Enum>
  requires std::is_enum_v<Enum>
  static Json to_json(Enum value) { return name_of(value); }
  static Json to_json(Phase value) { return kPhaseNames[static_cast<std::size_t>(value)]; }
  static Json to_json(Dtype value) { return to_string(value); }
  // Only what reads back is worth writing.
  static Json to_json(Op& op) {
    const std::string text = to_text(op);
    const Result<Workload> again = parse_workload(text);
    return again && again->ops.size() == 1 && again->ops.front() == op ? Json(text) : Json(nullptr);
  }
  template <class T>
  static Json to_json(std::optional<T>& value) {
    return value ? to_json(*value) : Json(nullptr);
  }
  template <class T>
  static Json to_json(std::vector<T>& values) {
    return list(values);
  }
  template <class T, std::size_t size>
  static Json to_json(std::array<T, size>& values) {
    return list(values);
  }
  static Json to_json(std::map<IdleCause, Seconds>& values) {
    Json json = Json::object();
    for (const auto& [cause, time] : values) json[std::string(name_of(cause))] = time.value();
    return json;
  }
  static Json to_json(std::map<std::string, std::int64_t>& values) {
    Json json = Json::object();
    for (const auto& [name, count] : values) json[name] = count;
    return json;
  }
  template <class Struct>
  requires std::is_class_v<Struct>
  static Json to_json(Struct& value) {
    Json json;
    SummaryWriter writer(json);
    visit_summary(writer, value);
    return json;
  }

 private:
  template <class List>
  static Json list(List& values) {
    Json json = Json::array();
    for (auto& value : values) json.push_back(to_json(value));
    return json;
  }

  Json& json_;
};

// ---- reading

// The first mistake, with the place: "ops[3].kernels[0].time_s".
struct Mistake {
  std::string message, where;
  bool found = false;
};

class SummaryReader {
 public:
  SummaryReader(const Json& json, std::string where, Mistake& mistake)
      : json_(json), where_(std::move(where)), mistake_(mistake) {
    if (!json_.is_object()) report("expected an object", where_);
  }

  template <class T>
  void operator()(const char* key, T& value) {
    ++seen_;
    if (mistake_.found) return;
    const auto at = json_.find(key);
    if (at == json_.end()) return report("is missing", place(key));
    read(*at, value, place(key));
  }
  // What earlier versions did not write stays as it is.
  template <class T>
  void optional(const char* key, T& value) {
    if (json_.contains(key)) (*this)(key, value);
  }

  // After all fields: nothing else may be there.
  void finish(std::size_t others = 0) {
    if (!mistake_.found && json_.size() != seen_ + others) {
      report(fmt::format("found {} keys, expected {}", json_.size(), seen_ + others), where_);
    }
  }

 private:
  std::string place(std::string_view key) const {
    return where_.empty() ? std::string(key) : fmt::format("{}.{}", where_, key);
  }
  void report(std::string message, const std::string& where) {
    if (!mistake_.found) mistake_ = {std::move(message), where, true};
  }
  void mismatch(const Json& json, std::string_view expected, const std::string& where) {
    report(fmt::format("found {}, expected {}",
                       rooftile::quoted(json.is_structured() ? json.type_name() : dumped(json)),
                       expected),
           where);
  }
  static std::string dumped(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  template <class T>
  requires std::is_integral_v<T>
  void read(const Json& json, T& value, const std::string& where) {
    if constexpr (std::is_same_v<T, bool>) {
      if (!json.is_boolean()) return mismatch(json, "true or false", where);
      value = json.get<bool>();
    } else if (json.is_number_unsigned() && std::in_range<T>(json.get<std::uint64_t>())) {
      value = static_cast<T>(json.get<std::uint64_t>());
    } else if (json.is_number_integer() && !json.is_number_unsigned() &&
               std::in_range<T>(json.get<std::int64_t>())) {
      value = static_cast<T>(json.get<std::int64_t>());
    } else {
      mismatch(json, "a whole number", where);
    }
  }
  void read(const Json& json, double& value, const std::string& where) {
    if (!json.is_number()) return mismatch(json, "a number", where);
    value = json.get<double>();
    if (!std::isfinite(value)) mismatch(json, "a finite number", where);
  }
  template <class Kind>
  void read(const Json& json, Quantity<Kind>& value, const std::string& where) {
    double number = 0;
    read(json, number, where);
    value = Quantity<Kind>(number);
  }
  void read(const Json& json, std::string& value, const std::string& where) {
    if (!json.is_string()) return mismatch(json, "a text", where);
    value = json.get_ref<const std::string&>();
  }
  template <class Enum>
  requires std::is_enum_v<Enum>
  void read(const Json& json, Enum& value, const std::string& where) {
    std::string name;
    read(json, name, where);
    const std::optional<Enum> found = parse_summary_name<Enum>(name);
    if (!found) return mismatch(json, "one of the names this key knows", where);
    value = *found;
  }
  void read(const Json& json, Op& value, const std::string& where) {
    std::string text;
    read(json, text, where);
    if (mistake_.found) return;
    Result<Workload> workload = parse_workload(text);
    if (!workload) return report(workload.error().message, where);
    if (workload->ops.size() != 1) return mismatch(json, "one operation in text form", where);
    value = std::move(workload->ops.front());
  }
  template <class T>
  void read(const Json& json, std::optional<T>& value, const std::string& where) {
    if (json.is_null()) return;
    read(json, value.emplace(), where);
  }
  template <class T>
  void read(const Json& json, std::vector<T>& values, const std::string& where) {
    if (!json.is_array()) return mismatch(json, "a list", where);
    values.reserve(json.size());
    for (std::size_t i = 0; i < json.size() && !mistake_.found; ++i) {
      read(json[i], values.emplace_back(), fmt::format("{}[{}]", where, i));
    }
  }
  template <class T, std::size_t size>
  void read(const Json& json, std::array<T, size>& values, const std::string& where) {
    if (!json.is_array() || json.size() != size) {
      return mismatch(json, fmt::format("a list of {}", size), where);
    }
    for (std::size_t i = 0; i < size; ++i) read(json[i], values[i], where);
  }
  void read(const Json& json, std::map<IdleCause, Seconds>& values, const std::string& where) {
    if (!json.is_object()) return mismatch(json, "an object", where);
    for (const auto& [name, time] : json.items()) {
      const auto cause = parse_name<IdleCause>(name);
      if (!cause) return report("is no cause of idle time", fmt::format("{}.{}", where, name));
      read(time, values[*cause], where);
    }
  }
  void read(const Json& json, std::map<std::string, std::int64_t>& values,
            const std::string& where) {
    if (!json.is_object()) return mismatch(json, "an object", where);
    for (const auto& [name, count] : json.items()) read(count, values[name], where);
  }
  template <class Struct>
  requires std::is_class_v<Struct>
  void read(const Json& json, Struct& value, const std::string& where) {
    SummaryReader reader(json, where, mistake_);
    visit_summary(reader, value);
    reader.finish();
  }

  template <class Enum>
  static std::optional<Enum> parse_summary_name(std::string_view name) {
    if constexpr (std::is_same_v<Enum, Phase>) {
      for (std::size_t i = 0; i < kPhaseNames.size(); ++i) {
        if (kPhaseNames[i] == name) return static_cast<Phase>(i);
      }
      return std::nullopt;
    } else if constexpr (std::is_same_v<Enum, Dtype>) {
      return parse_dtype(name);
    } else {
      return parse_name<Enum>(name);
    }
  }

  const Json& json_;
  std::string where_;
  Mistake& mistake_;
  std::size_t seen_ = 0;
};

// Calls action(place, character) for what is not inside a text.
template <class Action>
void for_structure(std::string_view json, const Action& action) {
  bool in_text = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_text && c == '\\') {
      ++i;
      continue;
    }
    if (!in_text) action(i, c);
    if (c == '"') in_text = !in_text;
  }
}

// Counts levels and values without building anything.
std::optional<std::string> excess_of(std::string_view text) {
  if (text.size() > kMostBytes) return "is larger than 64 MiB, the limit here";
  int level = 0, deepest = 0;
  std::size_t values = 0;
  for_structure(text, [&](std::size_t, char c) {
    if (c == '[' || c == '{') deepest = std::max(deepest, ++level);
    if (c == ']' || c == '}') --level;
    if (c == ',' || c == ':' || c == '[' || c == '{') ++values;
  });
  if (deepest > kMostLevels) return "is nested too deeply";
  if (values > kMostValues) return "holds more than 4 million values, the limit here";
  return std::nullopt;
}

// Objects that follow one another, each to its last bracket; what is no object is one text.
std::vector<std::string_view> split_documents(std::string_view text) {
  std::vector<std::string_view> documents;
  std::size_t begin = 0;
  int level = 0;
  for_structure(text, [&](std::size_t i, char c) {
    if (c == '{') ++level;
    if (c != '}' || --level != 0) return;
    documents.push_back(text.substr(begin, i + 1 - begin));
    begin = i + 1;
  });
  const std::string_view rest = text.substr(begin);
  if (documents.empty() || !trim(rest).empty()) documents.push_back(rest);
  return documents;
}

Result<Json> parse_json(std::string_view text, const std::string& path) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& problem) {
    return fail(fmt::format("is no JSON text: a mistake near byte {}", problem.byte), path);
  } catch (const Json::exception&) {
    return fail("is no JSON text", path);
  }
}

}  // namespace

std::string write_trace_summary(const TraceSummary& summary) {
  TraceSummary copy = summary;
  Json json = {{"schema", kSchema}};
  json.update(SummaryWriter::to_json(copy));
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<TraceSummary> parse_trace_summary(std::string_view text, const std::string& path) {
  if (const auto excess = excess_of(text)) return fail(*excess, path);
  const Result<Json> json = parse_json(text, path);
  if (!json) return tl::unexpected(json.error());
  const auto schema = json->is_object() ? json->find("schema") : json->end();
  if (schema == json->end() || !schema->is_string() ||
      schema->get_ref<const std::string&>() != kSchema) {
    return fail(
        fmt::format("is no trace summary of this version: expected \"schema\": \"{}\"", kSchema),
        path);
  }
  TraceSummary summary;
  Mistake mistake;
  SummaryReader reader(*json, "", mistake);
  visit_summary(reader, summary);
  reader.finish(1);
  if (mistake.found) {
    return fail(mistake.message,
                mistake.where.empty() ? path : fmt::format("{}: {}", path, mistake.where));
  }
  return summary;
}

Result<std::vector<TraceSummary>> parse_trace_summaries(std::string_view text,
                                                        const std::string& path) {
  const std::vector<std::string_view> documents = split_documents(text);
  std::vector<TraceSummary> summaries;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    Result<TraceSummary> summary = parse_trace_summary(
        documents[i], documents.size() == 1 ? path : fmt::format("{}, summary {}", path, i + 1));
    if (!summary) return tl::unexpected(summary.error());
    summaries.push_back(std::move(*summary));
  }
  return summaries;
}

bool is_trace_summary(std::string_view head) {
  return head.substr(0, 256).find("\"rooftile-trace-summary/") != std::string_view::npos;
}

}  // namespace rooftile
