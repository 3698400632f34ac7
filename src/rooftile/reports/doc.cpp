// Markdown on a terminal: just what rule documentation uses.
#include <fmt/format.h>

#include <optional>

#include "rooftile/base/text.h"
#include "rooftile/reports/reports.h"

namespace rooftile {
namespace {

constexpr int kCodeIndent = 4;

std::size_t leading_spaces(std::string_view line) {
  const std::size_t count = line.find_first_not_of(' ');
  return count == std::string_view::npos ? line.size() : count;
}

// Length of "- ", "* " or "12. " at the start, or 0. Of numbers only "1." may interrupt text, whose
// lines may begin with any other (CommonMark 0.31, section 5.2).
std::size_t bullet_length(std::string_view line, bool in_text) {
  if (line.starts_with("- ") || line.starts_with("* ")) return 2;
  const std::size_t digits = line.find_first_not_of("0123456789");
  if (digits == 0 || digits == std::string_view::npos) return 0;
  if (!line.substr(digits).starts_with(". ")) return 0;
  return in_text && line.substr(0, digits) != "1" ? 0 : digits + 2;
}

std::string without_emphasis(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with("**")) {
      ++i;
    } else {
      result += text[i];
    }
  }
  return result;
}

// Collects the lines of a paragraph or list item and writes it when something else begins.
class DocWriter {
 public:
  explicit DocWriter(const TextStyle& style) : style_(style) {}

  void add_line(std::string_view line) {
    if (trim(line).starts_with("```")) return toggle_code();
    if (in_code_ || trim(line).starts_with("|")) return add_verbatim(line);
    if (trim(line).empty()) return add_blank();
    if (line.starts_with("#")) return add_heading(line);
    add_prose(line);
  }

  std::string finish() {
    flush();
    while (text_.ends_with("\n\n")) text_.pop_back();
    return std::move(text_);
  }

 private:
  void toggle_code() {
    flush();
    in_code_ = !in_code_;
  }

  void add_verbatim(std::string_view line) {
    flush();
    text_ += fmt::format("{:{}}{}\n", "", kCodeIndent, line);
  }

  void add_blank() {
    flush();
    if (!text_.empty() && !text_.ends_with("\n\n")) text_ += '\n';
  }

  void add_heading(std::string_view line) {
    add_blank();
    const std::string name(trim(line.substr(line.find_first_not_of('#'))));
    text_ += style_.colour ? fmt::format("\033[1m{}\033[0m\n", name) : name + '\n';
  }

  void add_prose(std::string_view line) {
    const std::size_t spaces = leading_spaces(line);
    const bool in_text = !paragraph_.empty() && !bullet_.ends_with(". ");
    const std::size_t bullet = bullet_length(line.substr(spaces), in_text);
    if (bullet > 0) {
      flush();
      bullet_ = std::string(line.substr(spaces, bullet));
      indent_ = static_cast<int>(spaces + bullet);
    }
    if (!paragraph_.empty()) paragraph_ += ' ';
    paragraph_ += trim(line.substr(spaces + bullet));
  }

  void flush() {
    if (!paragraph_.empty()) {
      std::string block = wrapped(without_emphasis(paragraph_), style_.width, indent_ + 2);
      if (!bullet_.empty()) {
        block.replace(static_cast<std::size_t>(indent_ + 2) - bullet_.size(), bullet_.size(),
                      bullet_);
      }
      text_ += block;
    }
    paragraph_.clear();
    bullet_.clear();
    indent_ = 0;
  }

  TextStyle style_;
  bool in_code_ = false;
  int indent_ = 0;
  std::string text_, paragraph_, bullet_;
};

}  // namespace

std::string render_doc(std::string_view markdown, const TextStyle& style) {
  DocWriter writer(style);
  for (const std::string_view line : split(markdown, '\n')) writer.add_line(line);
  return writer.finish();
}

}  // namespace rooftile
