#include "rooftile/analysis/source/words.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"

namespace rooftile::source {
namespace {

// Letters and digits of ASCII, by their bytes.
constexpr std::array<bool, 256> kWordChars = [] {
  std::array<bool, 256> chars{};
  for (int c = '0'; c <= '9'; ++c) chars[static_cast<std::size_t>(c)] = true;
  for (int c = 'A'; c <= 'Z'; ++c) chars[static_cast<std::size_t>(c)] = true;
  for (int c = 'a'; c <= 'z'; ++c) chars[static_cast<std::size_t>(c)] = true;
  return chars;
}();

bool is_word_char(char c) { return kWordChars[static_cast<unsigned char>(c)]; }

bool is_in_comment(std::string_view text, std::size_t at) {
  const std::size_t line = text.rfind('\n', at);
  const std::size_t first = line == std::string_view::npos ? 0 : line + 1;
  return text.substr(first, at - first).find('#') != std::string_view::npos;
}

// Slots of a set of trigrams, a power of two.
constexpr std::size_t kSlot = 64;  // bits of a word

// Calls test(slot) for each three bytes in a row, while it returns true.
template <class Test>
bool all_trigrams(std::string_view text, std::size_t slots, const Test& test) {
  if (text.size() < 3) return true;
  const int unused = 32 - std::countr_zero(slots);
  const auto byte = [](char c) { return std::uint32_t{static_cast<unsigned char>(c)}; };
  std::uint32_t three = byte(text[0]) << 8U | byte(text[1]);
  for (const char c : text.substr(2)) {
    three = (three << 8U | byte(c)) & 0xFFFFFFU;
    const std::uint32_t hash = three * 0x9E3779B1U;  // Knuth, multiplicative
    if (!test(hash >> unused)) return false;
  }
  return true;
}

// False: certainly not. Most of what rules ask for is in few files.
bool may_have(const File& file, std::string_view part) {
  if (file.trigrams.empty()) {
    constexpr std::size_t kFewest = 1024, kMost = std::size_t{1} << 24U;
    const std::size_t slots = std::clamp(std::bit_ceil(file.text.size() * 2), kFewest, kMost);
    file.trigrams.resize(slots / kSlot);
    std::uint64_t* const words = file.trigrams.data();
    all_trigrams(file.text, slots, [words](std::size_t slot) {
      words[slot / kSlot] |= std::uint64_t{1} << (slot % kSlot);
      return true;
    });
  }
  return all_trigrams(part, file.trigrams.size() * kSlot, [&](std::size_t slot) {
    return (file.trigrams[slot / kSlot] >> (slot % kSlot) & 1U) != 0;
  });
}

}  // namespace

std::size_t find_in_text(std::string_view text, std::string_view word, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  const void* found = memmem(text.data() + from, text.size() - from, word.data(), word.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

bool has_text(const File& file, std::string_view part) {
  return may_have(file, part) && find_in_text(file.text, part) != std::string_view::npos;
}

bool has_any_text(const File& file, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return has_text(file, part); });
}

bool draws_number(const Call& call) {
  return starts_with_any(call.name, {"random.", "numpy.random."});
}

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> beginnings) {
  return std::ranges::any_of(
      beginnings, [&](std::string_view beginning) { return text.starts_with(beginning); });
}

bool ends_with_any(std::string_view text, std::initializer_list<std::string_view> ends) {
  return std::ranges::any_of(ends, [&](std::string_view end) { return text.ends_with(end); });
}

bool starts_with_capital(std::string_view text) {
  return !text.empty() && text.front() >= 'A' && text.front() <= 'Z';
}

bool has_word(std::string_view text, std::string_view word) {
  for (std::size_t at = find_in_text(text, word); at != std::string_view::npos;
       at = find_in_text(text, word, at + 1)) {
    const std::size_t end = at + word.size();
    const bool starts = at == 0 || !is_word_char(word.front()) || !is_word_char(text[at - 1]);
    const bool ends = end == text.size() || !is_word_char(word.back()) || !is_word_char(text[end]);
    if (starts && ends && !is_in_comment(text, at)) return true;
  }
  return false;
}

bool mentions(const File& file, Words words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    if (!may_have(file, word)) return false;
    const auto known = file.mentioned.find(word);
    if (known != file.mentioned.end()) return known->second;
    return file.mentioned.emplace(word, has_word(file.text, word)).first->second;
  });
}

bool mentions(const Program& program, Words words) {
  return std::any_of(program.files.begin(), program.files.end(),
                     [&](const File* file) { return mentions(*file, words); });
}

std::string code_of(const File& file) {
  std::string code = file.text;
  for (const Statement* statement : file.statements) {
    const bool is_documentation =
        statement->kind == StatementKind::expression && statement->value->kind == ExprKind::text;
    if (!is_documentation) continue;
    std::fill(code.begin() + statement->range.begin, code.begin() + statement->range.end, ' ');
  }
  return code;
}

bool is_named_evaluation(const FunctionDef& function) {
  const std::string name = lower(function.name);
  if (contains(name, "train")) return false;
  const bool is_named = starts_with_any(name, {"eval", "valid", "test_"}) ||
                        is_one_of(name, {"test", "val"}) || contains_any(name, {"_eval", "_valid"});
  return is_named && std::ranges::none_of(function.calls, [](const Call* call) {
           return is_one_of(call->method, {"backward", "train", "manual_backward"});
         });
}

}  // namespace rooftile::source
