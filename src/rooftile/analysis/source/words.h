// Words in pieces of source text.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Whether the text, comments left out, has the word; '_' and '-' separate words, as in mentions().
bool has_word(std::string_view text, std::string_view word);
// As text.find(word, from), several times as fast in the text of a whole file.
std::size_t find_in_text(std::string_view text, std::string_view word, std::size_t from = 0);

// Whether the file has the text anywhere; a text of three bytes and more that it does not have
// is usually known at once.
bool has_text(const File& file, std::string_view part);
bool has_any_text(const File& file, std::initializer_list<std::string_view> parts);

// random.random(), np.random.choice(n)
bool draws_number(const Call& call);

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> beginnings);
bool ends_with_any(std::string_view text, std::initializer_list<std::string_view> ends);
// With a letter from A to Z, as the names of classes do.
bool starts_with_capital(std::string_view text);

// The text of the file with blanks for documentation, texts that stand alone.
std::string code_of(const File& file);

// `def evaluate(…)`, `def run_validation(…)`: by its name; one that also trains is none.
bool is_named_evaluation(const FunctionDef& function);

}  // namespace rooftile::source
