#include "rooftile/analysis/trace/stages.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string>

#include "rooftile/base/text.h"

namespace rooftile::trace {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

// Whether the whole number at the start of the text is above 0; empty where there is none.
std::optional<bool> leads_above_zero(std::string_view text) {
  if (text.empty() || !is_digit(text.front())) return std::nullopt;
  for (const char c : text) {
    if (!is_digit(c)) break;
    if (c != '0') return true;
  }
  return false;
}

// The number behind "context_", and that before " ctx reqs".
std::optional<bool> counts_behind(std::string_view label, std::string_view word) {
  const std::size_t at = label.find(word);
  if (at == std::string_view::npos) return std::nullopt;
  return leads_above_zero(label.substr(at + word.size()));
}
std::optional<bool> counts_before(std::string_view label, std::string_view word) {
  const std::size_t end = label.find(word);
  if (end == std::string_view::npos) return std::nullopt;
  std::size_t begin = end;
  while (begin > 0 && is_digit(label[begin - 1])) --begin;
  return leads_above_zero(label.substr(begin, end - begin));
}

ServingStage stage_of(bool prefills, bool decodes) {
  if (prefills) return decodes ? ServingStage::mixed : ServingStage::prefill;
  return decodes ? ServingStage::decode : ServingStage::none;
}

// The words of the label: "decode" and "step" of "decode_step 3".
std::vector<std::string_view> words_of(std::string_view label) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < label.size();) {
    std::size_t end = at;
    while (end < label.size() && is_letter(label[end])) ++end;
    if (end > at) words.push_back(label.substr(at, end - at));
    at = std::max(end, at + 1);
  }
  return words;
}

bool has_word(const std::vector<std::string_view>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

// Ranges that users name. Much else is decoded, so "decode" counts only among words of steps;
// prefill is a word of language models alone.
ServingStage stage_of_words(const std::vector<std::string_view>& words) {
  constexpr std::array<std::string_view, 15> kStepWords{
      "decode", "step",   "steps",    "forward", "phase", "stage", "iteration", "iter",
      "token",  "tokens", "generate", "loop",    "model", "batch", "llm"};
  const bool prefills = has_word(words, "prefill");
  const bool decodes = has_word(words, "decode") &&
                       (prefills || std::ranges::all_of(words, [&](std::string_view word) {
                          return std::ranges::find(kStepWords, word) != kStepWords.end();
                        }));
  return stage_of(prefills, decodes);
}

}  // namespace

ServingStage stage_of_label(std::string_view text) {
  const std::string label = lower(text);
  if (label.starts_with("execute_")) {
    const auto context = counts_behind(label, "context_");
    const auto generation = counts_behind(label, "generation_");
    if (context && generation) return stage_of(*context, *generation);
    const auto added = counts_behind(label, "new_"), cached = counts_behind(label, "cached_");
    if (added && cached) return stage_of(*added, *cached);
  }
  const auto context = counts_before(label, " ctx reqs");
  const auto generation = counts_before(label, " gen reqs");
  if (context && generation) return stage_of(*context, *generation);
  const std::vector<std::string_view> words = words_of(label);
  if (label.starts_with("step[")) {
    if (has_word(words, "mixed")) return ServingStage::mixed;
    return stage_of(has_word(words, "extend") || has_word(words, "prefill"),
                    has_word(words, "decode"));
  }
  return stage_of_words(words);
}

Stages::Stages(const Timeline& timeline, const Links& links)
    : timeline_(timeline), links_(links), by_name_(timeline.strings.size()) {
  const HostOps& ops = timeline.ops;
  std::vector<bool> known(timeline.strings.size());
  for (std::size_t op = 0; op < ops.time.size(); ++op) {
    const std::uint32_t name = ops.name[op];
    if (known[name] || ops.kind[op] != HostKind::annotation) continue;
    known[name] = true;
    by_name_[name] = stage_of_label(timeline.strings[name]);
    has_any_ = has_any_ || by_name_[name] != ServingStage::none;
  }
}

ServingStage Stages::of(std::uint32_t op) const {
  if (!has_any_) return ServingStage::none;
  for (; op != kNone; op = links_.op_parent[op]) {
    if (timeline_.ops.kind[op] != HostKind::annotation) continue;
    const ServingStage stage = by_name_[timeline_.ops.name[op]];
    if (stage != ServingStage::none) return stage;
  }
  return ServingStage::none;
}

}  // namespace rooftile::trace
