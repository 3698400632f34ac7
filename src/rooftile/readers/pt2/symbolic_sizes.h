// The sizes of an exported program: fixed, or symbols with values that the user or the export
// gives.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rooftile/formats/pt2/expression.h"
#include "rooftile/formats/pt2/program.h"
#include "rooftile/readers/reader.h"

namespace rooftile::pt2_reader_detail {

class SymbolicSizes {
 public:
  SymbolicSizes(const pt2_format::Program& program, const ReadOptions& options);

  // Empty where it is not known, below 0 or too large.
  std::optional<std::int64_t> value(const pt2_format::Size& size) const;

  // Of the first input that is a tensor: its first size, and its second where it counts positions.
  std::optional<std::int64_t> batch() const { return batch_; }
  std::optional<std::int64_t> sequence() const { return sequence_; }

  std::vector<std::string> notes() const;
  const std::vector<std::string>& unused_options() const { return unused_; }

 private:
  using Size = pt2_format::Size;

  void take_hints(const pt2_format::Graph& graph);
  void take_first_input(const pt2_format::Program& program, const ReadOptions& options);
  void take_names(const ReadOptions& options);
  // Sets the symbol that the size is; false where it is something else.
  bool set(const Size& size, std::int64_t wanted);
  std::optional<std::int64_t> compute(const Size& size) const;
  void add_note(std::vector<std::string>& notes, bool given) const;

  std::map<std::string, pt2_format::SymbolRange> ranges_;
  pt2_format::Symbols symbols_;
  std::set<std::string, std::less<>> names_, given_;
  std::map<std::string, std::string> places_;  // symbol -> "size 0 of x"
  std::vector<std::string> unused_;
  std::optional<std::int64_t> batch_, sequence_;
  mutable std::unordered_map<std::string, std::optional<std::int64_t>> known_;
};

}  // namespace rooftile::pt2_reader_detail
