// Functions and classes that no program runs or makes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Whether no script of the files imports it or is it: as of a library, other code may use all of
// it.
bool is_for_others(const SourceFacts& facts, const File& file);

// What the settings files of the projects name.
struct NamedInSettings {
  std::unordered_set<std::string_view> names;  // classes of the given files, by their last names
  // Values of settings files that documents or code name: a run with each is a documented one.
  std::unordered_set<std::string> texts;
  std::unordered_set<std::string> keys;  // the last ones, "precision", of all files
  // Of classes that YAML files make (`target: nets.UNet`, `params: {width: 64}`) the largest number
  // that an argument gets.
  std::unordered_map<std::string_view, std::map<std::string, std::int64_t, std::less<>>> sizes;
};

// Whether no program that has the file uses what is defined, training programs alone where there
// are some: neither its code nor a text names it, but for what is unused itself. Imports, __all__
// and comments are no use, nor is the main guard of a file that is only imported. False where a
// program has no entry: who uses it may be outside.
bool is_unused(const SourceFacts& facts, const FunctionDef& function);
bool is_unused(const SourceFacts& facts, const ClassDef& def);
// Whether a program that has the class may make it where no call is seen that does: its code names
// the class, a table among it, or takes classes by names that are not known.
bool may_be_made(const SourceFacts& facts, const ClassDef& def);
// Whether a program that has the method names it outside of itself, also as a member; where none
// has an entry, who uses it may be outside.
bool is_named_elsewhere(const SourceFacts& facts, const FunctionDef& method);
// A method whose class is only derived from: each class that is seen to derive from it has one of
// its own, none of these runs it, and none makes the class itself.
bool is_overridden(const SourceFacts& facts, const FunctionDef& method);
// Whether the statement stands in such a function or class.
bool stands_in_unused(const SourceFacts& facts, const Statement& statement);

// The innermost statement at a byte of the file; null between statements.
const Statement* statement_at(const File& file, std::uint32_t byte);
// The same at the first word of a line, of File::text.
const Statement* statement_in(const File& file, std::size_t line);

}  // namespace rooftile::source
