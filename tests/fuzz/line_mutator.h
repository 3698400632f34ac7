// Changes texts of lines and words: workloads, recordings, CSV, settings, statements of SQL.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/json_mutator.h"

namespace fuzzing {

class LineMutator {
 public:
  LineMutator(std::string_view text, std::uint32_t seed, char end = '\n') : choice_(seed) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t next = std::min(text.find(end, at), text.size() - 1) + 1;
      lines_.emplace_back(text.substr(at, next - at));
      at = next;
    }
  }

  std::string mutate() {
    if (!lines_.empty()) change();
    std::string text;
    for (const std::string& line : lines_) text += line;
    return text;
  }

 private:
  using Lines = std::vector<std::string>;

  void change() {
    const auto at = static_cast<Lines::difference_type>(choice_.below(lines_.size()));
    const auto line = lines_.begin() + at;
    switch (choice_.below(8)) {
      case 0:
        lines_.erase(line);
        return;
      case 1: {
        const std::string copy = *line;
        lines_.insert(line, copy);
        return;
      }
      case 2:
        std::swap(*line, choice_.of(lines_));
        return;
      case 3:
        change_word(*line);
        return;
      case 4:
        remove_word(*line);
        return;
      default:
        change_number(*line);
    }
  }

  static bool is_in(char c, std::string_view set) { return set.find(c) != std::string_view::npos; }

  static std::vector<TextPart> parts_of(std::string_view line, bool (*is_inside)(char)) {
    std::vector<TextPart> parts;
    for (std::size_t at = 0; at < line.size();) {
      const std::size_t begin = at;
      while (at < line.size() && is_inside(line[at]) == is_inside(line[begin])) ++at;
      if (is_inside(line[begin])) parts.push_back({begin, at});
    }
    return parts;
  }

  static bool is_of_word(char c) { return !is_in(c, " \n\r\t;"); }
  static bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

  // By one of another line: of the same key, else at the same place.
  void change_word(std::string& line) {
    const std::vector<TextPart> words = parts_of(line, is_of_word);
    const std::string other = choice_.of(lines_);
    const std::vector<TextPart> others = parts_of(other, is_of_word);
    if (words.empty() || others.empty()) return;
    const std::size_t at = choice_.below(words.size());
    const std::string old = line.substr(words[at].begin, words[at].end - words[at].begin);
    TextPart with = others[std::min(at, others.size() - 1)];
    const std::string key = old.substr(0, old.find('=') + 1);
    for (const TextPart& word : others) {
      if (!key.empty() && other.compare(word.begin, key.size(), key) == 0) with = word;
    }
    line.replace(words[at].begin, old.size(), other, with.begin, with.end - with.begin);
  }

  void remove_word(std::string& line) {
    const std::vector<TextPart> words = parts_of(line, is_of_word);
    if (words.empty()) return;
    const TextPart& word = words[choice_.below(words.size())];
    line.erase(word.begin, word.end - word.begin);
  }

  void change_number(std::string& line) {
    const std::vector<TextPart> numbers = parts_of(line, is_digit);
    if (numbers.empty()) return;
    const TextPart& number = numbers[choice_.below(numbers.size())];
    const std::size_t size = number.end - number.begin;
    line.replace(number.begin, size, other_number_text(line.substr(number.begin, size), choice_));
  }

  Lines lines_;
  Choice choice_;
};

}  // namespace fuzzing
