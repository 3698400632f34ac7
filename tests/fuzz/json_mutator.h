// Changes JSON as JSON (members, elements, numbers, words), so that what comes out still parses.
#pragma once

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/choice.h"

namespace fuzzing {

struct TextPart {
  std::size_t begin = 0, end = 0;
};

// A number near the old one, or one that is often special.
inline std::string other_number_text(const std::string& old, Choice& choice) {
  const bool is_whole =
      !old.empty() && old.size() < 18 &&
      old.find_first_not_of("0123456789", old[0] == '-' ? 1 : 0) == std::string::npos && old != "-";
  if (!is_whole) return choice.below(2) == 0 ? "0.5" : "2.5";
  const long long number = std::stoll(old);
  const long long others[] = {number + 1, number - 1, number * 2, number / 2, number * 8, 0, 1};
  return std::to_string(choice.of(others));
}

// Where the parts of a JSON text are.
struct JsonParts {
  struct Item : TextPart {  // a member with its key, or an element
    std::size_t container = 0;
  };
  std::vector<Item> items;
  std::vector<TextPart> values, keys, strings, numbers, words;
};

class JsonScanner {
 public:
  explicit JsonScanner(std::string_view text) : text_(text) {}

  // None where the text is no JSON.
  std::optional<JsonParts> scan() {
    if (!value(0)) return std::nullopt;
    skip_blanks();
    return at_ == text_.size() ? std::optional(std::move(parts_)) : std::nullopt;
  }

 private:
  static constexpr int kMostDepth = 60;

  bool is_next(char c) const { return at_ < text_.size() && text_[at_] == c; }
  void skip_blanks() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }

  bool value(int depth) {
    skip_blanks();
    const std::size_t begin = at_;
    bool is_good = false;
    if (is_next('{') || is_next('[')) {
      is_good = depth < kMostDepth && container(depth);
    } else if (is_next('"')) {
      is_good = string();
      parts_.strings.push_back({begin, at_});
    } else {
      at_ = std::min(text_.find_first_of(",]} \t\r\n", at_), text_.size());
      is_good = at_ > begin;
      const bool is_word = is_good && std::isalpha(static_cast<unsigned char>(text_[begin])) != 0;
      (is_word ? parts_.words : parts_.numbers).push_back({begin, at_});
    }
    parts_.values.push_back({begin, at_});
    return is_good;
  }

  bool string() {
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\') ++at_;
    }
    at_ = std::min(at_ + 1, text_.size());
    return true;
  }

  bool container(int depth) {
    const bool is_object = text_[at_] == '{';
    const char end = is_object ? '}' : ']';
    const std::size_t number = containers_++;
    ++at_;
    for (skip_blanks(); !is_next(end); skip_blanks()) {
      const std::size_t begin = at_;
      if (is_object && !key()) return false;
      if (!value(depth + 1)) return false;
      parts_.items.push_back({{begin, at_}, number});
      skip_blanks();
      if (is_next(end)) break;
      if (!is_next(',')) return false;
      ++at_;
    }
    ++at_;
    return true;
  }

  bool key() {
    const std::size_t begin = at_;
    if (!is_next('"') || !string()) return false;
    parts_.keys.push_back({begin, at_});
    skip_blanks();
    if (!is_next(':')) return false;
    ++at_;
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0, containers_ = 0;
  JsonParts parts_;
};

class JsonMutator {
 public:
  JsonMutator(std::string text, std::uint32_t seed) : text_(std::move(text)), choice_(seed) {
    if (auto parts = JsonScanner(text_).scan()) parts_ = *std::move(parts);
  }

  // The same text where it is no JSON.
  std::string mutate() {
    if (parts_.items.empty()) return text_;
    switch (choice_.below(8)) {
      case 0:
        return without(choice_.of(parts_.items));
      case 1:
        return repeated(choice_.of(parts_.items));
      case 2:
        return swapped(choice_.of(parts_.items));
      case 3:
        return exchanged(parts_.strings);
      case 4:
        return exchanged(choice_.below(2) == 0 ? parts_.keys : parts_.values);
      case 5:
        if (!parts_.words.empty()) return with_other_word(choice_.of(parts_.words));
        [[fallthrough]];
      default:
        return with_other_number();
    }
  }

 private:
  using Item = JsonParts::Item;

  std::string of(const TextPart& part) const {
    return text_.substr(part.begin, part.end - part.begin);
  }
  std::string replaced(const TextPart& part, const std::string& with) const {
    return text_.substr(0, part.begin) + with + text_.substr(part.end);
  }

  std::string without(const Item& item) const {
    const std::size_t after = text_.find_first_not_of(" \t\r\n", item.end);
    if (after != std::string::npos && text_[after] == ',') {
      return replaced({item.begin, after + 1}, "");
    }
    const std::size_t before = text_.find_last_not_of(" \t\r\n", item.begin - 1);
    const bool is_last = before != std::string::npos && text_[before] == ',';
    return replaced({is_last ? before : item.begin, item.end}, "");
  }

  std::string repeated(const Item& item) const {
    return replaced({item.end, item.end}, ", " + of(item));
  }

  std::string swapped(const Item& item) const {
    for (const Item& next : parts_.items) {
      if (next.container != item.container || next.begin < item.end) continue;
      return text_.substr(0, item.begin) + of(next) +
             text_.substr(item.end, next.begin - item.end) + of(item) + text_.substr(next.end);
    }
    return text_;
  }

  std::string exchanged(const std::vector<TextPart>& parts) {
    if (parts.empty()) return text_;
    const TextPart& part = choice_.of(parts);
    return replaced(part, of(choice_.of(parts)));
  }

  std::string with_other_word(const TextPart& part) {
    const std::string old = of(part);
    if (choice_.below(4) == 0) return replaced(part, "null");
    return replaced(part, old == "true" ? "false" : "true");
  }

  std::string with_other_number() {
    if (parts_.numbers.empty()) return text_;
    const TextPart& part = choice_.of(parts_.numbers);
    return replaced(part, other_number_text(of(part), choice_));
  }

  std::string text_;
  Choice choice_;
  JsonParts parts_;
};

}  // namespace fuzzing
