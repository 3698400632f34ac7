// The lattice of what is known of a value.
//
//   never made  ⊑  one of at most kMaxConstants constants, each with its certainty  ⊑  anything
//
// Joins only go up: constants are added, certainties weaken (literal, constant, configurable). So a
// value rises at most 3 * kMaxConstants + 1 times.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "rooftile/workload/source_facts.h"

namespace rooftile::script {

using source::Certainty;
using source::Value;
using source::ValueKind;

inline constexpr std::size_t kMaxConstants = 4;

class KnownValue {
 public:
  static KnownValue anything();
  static KnownValue of(const Value& constant);

  bool is_anything() const { return is_anything_; }
  bool is_never_made() const { return !is_anything_ && constants_.empty(); }
  const std::vector<Value>& constants() const { return constants_; }
  // The constant that it surely is; null where there are several, or none.
  const Value* only() const { return constants_.size() == 1 ? &constants_.front() : nullptr; }
  // By Python's truth; nothing where it may be both.
  std::optional<bool> truth() const;
  bool is_configurable() const;  // some constant is

  // Both return whether it rose.
  bool join(const KnownValue& other);
  bool weaken(Certainty at_least);
  // Keeps the constants for which `test` holds. Returns whether a configurable one went: then a run
  // may change what is left.
  template <class Test>
  bool keep_if(const Test& test) {
    bool is_changeable = false;
    std::erase_if(constants_, [&](const Value& each) {
      const bool goes = !test(each);
      is_changeable = is_changeable || (goes && each.certainty == Certainty::configurable);
      return goes;
    });
    return is_changeable;
  }

 private:
  bool is_anything_ = false;
  std::vector<Value> constants_;  // in the order in which they came
};

// Constants with no place of their own; `found` says where they stand.
Value constant_of(ValueKind kind, const source::Expr* found);
Value integer_constant(std::int64_t number, const source::Expr* found);
Value whole_constant(double number, const source::Expr* found);  // without its fraction
Value real_constant(double number, const source::Expr* found);
Value boolean_constant(bool truth, const source::Expr* found);
Value text_constant(std::string_view text, const source::Expr* found);
// Of a literal as it is written; unknown for numbers out of range.
Value literal_constant(const source::Expr& expr);
Value number_constant(std::string_view written, const source::Expr* found);

bool is_numeric(const Value& value);
// By Python's `==`; two lists are equal where they are the same one.
bool is_equal(const Value& a, const Value& b);
// Unknown where the operation has no value, or one that is not followed. Comparisons of identity
// are those of equality.
Value unary_constant(std::string_view sign, const Value& a, const source::Expr* found);
Value binary_constant(std::string_view sign, const Value& a, const Value& b,
                      const source::Expr* found);

}  // namespace rooftile::script
