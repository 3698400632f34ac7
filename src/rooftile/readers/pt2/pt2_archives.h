// Archives of torch.export made by hand, for tests.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rooftile::pt2_test {

using Json = nlohmann::json;
using Entries = std::vector<std::pair<std::string, std::string>>;

struct ZipStyle {
  int method = 0;
  bool wide = false;          // sizes and places in zip64 fields
  std::uint64_t shift = 0;    // added to each place
  std::uint64_t entries = 0;  // added to the count
};

// Bytes of an archive.
class ZipBytes {
 public:
  ZipBytes& text(std::string_view text) {
    bytes_ += text;
    return *this;
  }
  ZipBytes& number(std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i) {
      bytes_ += static_cast<char>(value & 0xFF);
      value >>= 8U;
    }
    return *this;
  }
  std::uint64_t size() const { return bytes_.size(); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

constexpr std::uint64_t kWide32 = 0xFFFFFFFF, kWide16 = 0xFFFF;

inline void add_entry(const std::string& name, const std::string& content, const ZipStyle& style,
                      ZipBytes& file, ZipBytes& directory) {
  const std::uint64_t at = file.size() + style.shift, size = content.size();
  const auto method = static_cast<std::uint64_t>(style.method);
  const auto narrow = [&](std::uint64_t value) { return style.wide ? kWide32 : value; };
  file.text("PK\x03\x04").number(20, 2).number(0, 2).number(method, 2).number(0, 8);
  file.number(size, 4).number(size, 4).number(name.size(), 2).number(0, 2).text(name).text(content);
  directory.text("PK\x01\x02").number(20, 2).number(20, 2).number(0, 2).number(method, 2);
  directory.number(0, 8).number(narrow(size), 4).number(narrow(size), 4).number(name.size(), 2);
  directory.number(style.wide ? 28 : 0, 2).number(0, 10).number(narrow(at), 4).text(name);
  if (style.wide)
    directory.number(1, 2).number(24, 2).number(size, 8).number(size, 8).number(at, 8);
}

// Stored entries, and a table of contents behind them.
inline std::string zip(const Entries& entries, const ZipStyle& style = {}) {
  ZipBytes file, directory;
  for (const auto& [name, content] : entries) add_entry(name, content, style, file, directory);
  const std::uint64_t at = file.size(), count = entries.size() + style.entries;
  file.text(directory.bytes());
  const std::uint64_t end = file.size();
  if (style.wide) {
    file.text("PK\x06\x06").number(44, 8).number(0, 12).number(count, 8).number(count, 8);
    file.number(directory.size(), 8).number(at, 8);
    file.text("PK\x06\x07").number(0, 4).number(end, 8).number(1, 4);
  }
  file.text("PK\x05\x06").number(0, 4);
  for (int i = 0; i < 2; ++i) file.number(style.wide ? kWide16 : count, 2);
  file.number(style.wide ? kWide32 : directory.size(), 4).number(style.wide ? kWide32 : at, 4);
  return file.number(0, 2).bytes();
}

// A size: 4, or {"2*s0", 8} with what it was at the export.
inline Json size(std::int64_t number) { return {{"as_int", number}}; }
inline Json size(const std::string& expression, std::int64_t hint) {
  return {{"as_expr", {{"expr_str", expression}, {"hint", {{"as_int", hint}}}}}};
}
inline Json sizes(const std::vector<std::int64_t>& numbers) {
  Json list = Json::array();
  for (const std::int64_t number : numbers) list.push_back(size(number));
  return list;
}

inline Json tensor(const std::string& name) { return {{"as_tensor", {{"name", name}}}}; }
inline Json ints(const std::vector<std::int64_t>& numbers) { return {{"as_ints", numbers}}; }

class ProgramMaker {
 public:
  ProgramMaker& input(const std::string& name, const Json& dims, int dtype = 7) {
    specs_.push_back({{"user_input", {{"arg", tensor(name)}}}});
    return value(name, dims, dtype);
  }
  ProgramMaker& parameter(const std::string& name, const std::vector<std::int64_t>& dims,
                          const std::string& target = "") {
    specs_.push_back(
        {{"parameter",
          {{"arg", {{"name", name}}}, {"parameter_name", target.empty() ? name : target}}}});
    return value(name, sizes(dims), 7);
  }
  // Strides of a contiguous tensor, where its sizes are numbers.
  ProgramMaker& value(const std::string& name, const Json& dims, int dtype = 7,
                      const std::vector<std::int64_t>& strides = {}) {
    Json own = Json::array();
    std::uint64_t stride = 1;
    for (std::size_t i = dims.size(); i-- > 0;) {
      own.insert(own.begin(), size(static_cast<std::int64_t>(stride)));
      stride *= dims[i].value("as_int", std::uint64_t{1});
    }
    tensors_[name] = {{"dtype", dtype},
                      {"sizes", dims},
                      {"strides", strides.empty() ? own : sizes(strides)},
                      {"layout", 7}};
    return *this;
  }
  // Inputs are named: {{"input", tensor("x")}, {"stride", ints({2, 2})}}.
  ProgramMaker& call(const std::string& target,
                     const std::vector<std::pair<std::string, Json>>& inputs,
                     const std::string& output, const Json& metadata = Json::object()) {
    Json list = Json::array();
    for (const auto& [name, argument] : inputs) list.push_back({{"name", name}, {"arg", argument}});
    Json outputs = Json::array();
    if (!output.empty()) outputs.push_back(tensor(output));
    nodes_.push_back(
        {{"target", target}, {"inputs", list}, {"outputs", outputs}, {"metadata", metadata}});
    return *this;
  }
  ProgramMaker& range(const std::string& symbol, std::int64_t least, std::int64_t most) {
    ranges_[symbol] = {{"min_val", least}, {"max_val", most}};
    return *this;
  }

  Json graph() const {
    return {{"inputs", Json::array()},
            {"outputs", Json::array()},
            {"nodes", nodes_},
            {"tensor_values", tensors_},
            {"sym_int_values", Json::object()}};
  }
  Json json(const Json& version = {{"major", 8}, {"minor", 20}}) const {
    return {{"schema_version", version},
            {"torch_version", "2.13.0"},
            {"range_constraints", ranges_},
            {"graph_module", {{"graph", graph()}, {"signature", {{"input_specs", specs_}}}}}};
  }

 private:
  Json nodes_ = Json::array(), specs_ = Json::array(), tensors_ = Json::object(),
       ranges_ = Json::object();
};

// As torch 2.6 and torch 2.8 lay it out.
inline std::string flat_archive(const Json& program) {
  return zip({{"serialized_exported_program.json", program.dump()},
              {"serialized_state_dict.pt", "PK"},
              {"version", "8.2"}});
}
inline std::string archive(const Json& program, const Entries& more = {}) {
  Entries entries{{"model/data/weights/weight_0", "1234"},
                  {"model/models/model.json", program.dump()},
                  {"model/archive_format", "pt2"}};
  entries.insert(entries.end(), more.begin(), more.end());
  return zip(entries);
}

}  // namespace rooftile::pt2_test
