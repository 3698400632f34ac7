#include "tests/support/variants.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "tests/support/golden.h"

namespace rooftile {
namespace {

constexpr std::size_t kMostShown = 2;  // lines of either kind
constexpr std::size_t kWidth = 100;

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// In one line of printable characters.
std::string short_text(std::string_view text, std::size_t width) {
  std::string line;
  for (const char c : text) {
    const bool is_blank = c == '\n' || c == ' ';
    if (is_blank && !line.empty() && line.back() == ' ') continue;
    const bool is_plain = c >= ' ' && c != '\x7f';
    line += is_blank ? ' ' : is_plain ? c : '?';
    if (line.size() == width) return line + "...";
  }
  return line;
}

// Lines of one that the other lacks.
void show(char mark, const std::vector<std::string>& of, const std::vector<std::string>& other,
          std::string& text) {
  const std::set<std::string_view> known(other.begin(), other.end());
  std::size_t shown = 0;
  for (const std::string& line : of) {
    if (known.contains(line) || shown == kMostShown) continue;
    text += fmt::format("  {} {}\n", mark, short_text(line, kWidth));
    ++shown;
  }
}

}  // namespace

std::uint32_t hash_of(std::string_view text) {
  std::uint32_t hash = 2166136261U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

std::string change_text(std::string_view before, std::string_view after) {
  const std::size_t both = std::min(before.size(), after.size());
  std::size_t begin = 0, end = 0;  // from the front, and from the back
  while (begin < both && before[begin] == after[begin]) ++begin;
  while (begin > 0 && is_word(before[begin - 1])) --begin;
  while (end < both - begin && before[before.size() - 1 - end] == after[after.size() - 1 - end]) {
    ++end;
  }
  while (end > 0 && is_word(before[before.size() - end])) --end;
  const auto line =
      std::count(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(begin), '\n') + 1;
  return fmt::format("{}: '{}' -> '{}'", line,
                     short_text(before.substr(begin, before.size() - end - begin), 40),
                     short_text(after.substr(begin, after.size() - end - begin), 40));
}

void Variants::title(const std::string& heading) { seed(heading, {}); }

void Variants::seed(const std::string& heading, const std::vector<std::string>& lines) {
  seed_ = lines;
  text_ += "## " + heading + "\n";
}

void Variants::add(const std::string& change, const std::vector<std::string>& lines) {
  if (lines == seed_) {
    text_ += fmt::format("{} = the same\n", change);
    return;
  }
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  text_ += fmt::format("{} = {:08x}\n", change, hash_of(all));
  show('+', lines, seed_, text_);
  show('-', seed_, lines, text_);
}

std::map<std::string, std::string> Variants::by_change(const std::string& text) {
  std::map<std::string, std::string> variants;
  std::string heading;
  std::string* variant = nullptr;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("## ")) {
      heading = line;
    } else if (!line.starts_with("  ")) {
      const std::size_t end = line.rfind(" = ");
      variant = &variants[heading + "\n" + line.substr(0, end)];
      *variant += line.substr(std::min(end, line.size())) + "\n";
    } else if (variant != nullptr) {
      *variant += line + "\n";
    }
  }
  return variants;
}

void Variants::expect() const {
  const char* const update = std::getenv("UPDATE_GOLDENS");
  const std::string before = file_text(golden_);
  if (before == text_ || (update != nullptr && *update == '1')) {
    expect_golden(golden_, text_);
    return;
  }
  const std::map<std::string, std::string> was = by_change(before), is = by_change(text_);
  for (const auto& [change, record] : is) {
    const auto known = was.find(change);
    if (known == was.end()) {
      ADD_FAILURE() << golden_ << ": a new variant\n" << change << record;
    } else if (known->second != record) {
      ADD_FAILURE() << golden_ << ": a variant is judged otherwise\n"
                    << change << "\n was" << known->second << " is" << record;
    }
  }
  EXPECT_TRUE(before == text_) << golden_ << " differs: if it should, run with UPDATE_GOLDENS=1";
}

}  // namespace rooftile
