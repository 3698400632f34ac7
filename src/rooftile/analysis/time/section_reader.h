// Strict reading of one section of a calibration file: every key once, none unknown.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rooftile/analysis/time/calibration.h"

namespace rooftile {

// Collects the first error; later calls then do nothing.
class SectionReader {
 public:
  SectionReader(const nlohmann::json& json, std::string where)
      : json_(json), where_(std::move(where)) {
    if (!json.is_object()) report("found no object, expected one");
  }

  // A finite number in [low, high].
  void number(const char* key, double& value, double low = 0, double high = 1e18);
  // The ranges are wide: they catch a wrong unit. A share of a rate that is never above it; one
  // that may be above, or a ratio; at least once; how many; a part that may be none; what comes on
  // top.
  void share(const char* key, double& value) { number(key, value, 0.01, 1); }
  void factor(const char* key, double& value) { number(key, value, 0.01, 10); }
  void multiple(const char* key, double& value) { number(key, value, 1, 1000); }
  void count(const char* key, double& value) { number(key, value, 1, 1e9); }
  void part(const char* key, double& value) { number(key, value, 0, 1); }
  void extra(const char* key, double& value) { number(key, value, 0, 1000); }
  // Higher ones leave the range of a double.
  void exponent(const char* key, double& value) { number(key, value, 1, 20); }
  // A size of a tile.
  void size(const char* key, int& value, int low = 1);
  template <class Kind>
  void quantity(const char* key, Quantity<Kind>& value) {
    double plain = value.value();
    number(key, plain);
    value = Quantity<Kind>(plain);
  }
  void flag(const char* key, bool& value);
  void text(const char* key, std::string& value);
  // A list of texts that may be absent.
  void optional_texts(const char* key, std::vector<std::string>& values);
  // [low, high] with low <= 1 <= high.
  void interval(const char* key, Interval& value);
  void intervals(const char* key, Intervals& value);
  // The value under a key for the caller to read; null after an error.
  const nlohmann::json* member(const char* key);
  // The same for a key that may be absent.
  const nlohmann::json* optional_member(const char* key);

  void report(const std::string& message);
  bool failed() const { return error_.has_value(); }
  const std::string& where() const { return where_; }
  // The first error, or that of a key nobody asked for.
  std::optional<Error> finish();

 private:
  const nlohmann::json& json_;
  std::string where_;
  std::set<std::string> asked_;
  std::optional<Error> error_;
};

void read_constants(SectionReader& reader, GemmConstants& constants);
void read_constants(SectionReader& reader, CudaCoreConstants& constants);
void read_constants(SectionReader& reader, AlignmentConstants& constants);
void read_constants(SectionReader& reader, StreamConstants& constants);
void read_constants(SectionReader& reader, ConvolutionConstants& constants);
void read_constants(SectionReader& reader, AttentionConstants& constants);
void read_constants(SectionReader& reader, RecurrentConstants& constants);
void read_constants(SectionReader& reader, CollectiveConstants& constants);

}  // namespace rooftile
