// Edits of a script that keep its formatting and comments, made from the ranges in source facts.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/result.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Replaces bytes of File::text; an empty range inserts. Equal to an edit of the file on disk except
// for notebooks, where the lines of a cell have to be found again in its JSON.
struct SourceEdit {
  const File* file = nullptr;
  ByteRange range;
  std::string replacement;

  bool operator==(const SourceEdit&) const = default;
};

// `name=value` behind the last argument, on a line of its own where each argument has one. Empty
// when the name is given already or could be given by a `**x`.
std::optional<SourceEdit> add_argument(const Call& call, std::string_view name,
                                       std::string_view value);
// Another value for an argument that is written in the call; empty for a followed one, and where a
// comment behind it explains the old value.
std::optional<SourceEdit> replace_argument(const Call& call, const Argument& argument,
                                           std::string_view value);
// Removes an argument with its comma; empty for a followed one.
std::optional<SourceEdit> remove_argument(const Call& call, const Argument& argument);
SourceEdit replace(const File& file, ByteRange range, std::string_view text);
// A line with the indentation of the statement. Before a decorated definition: before its
// decorators. Empty when the statement shares its line with others.
std::optional<SourceEdit> insert_line_before(const Statement& statement, std::string_view line);
std::optional<SourceEdit> insert_line_after(const Statement& statement, std::string_view line);
// Removes the whole lines; `pass` takes the place of the only statement of a block. Empty when the
// statement shares its line with others.
std::optional<SourceEdit> remove_statement(const Statement& statement);

// The text with the edits of one file applied. Overlapping edits are an error.
Result<std::string> apply_edits(const File& file, std::vector<SourceEdit> edits);

}  // namespace rooftile::source
