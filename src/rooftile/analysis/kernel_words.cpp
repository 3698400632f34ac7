#include "rooftile/analysis/kernel_words.h"

#include <algorithm>
#include <array>
#include <utility>

namespace rooftile::kernel_name_detail {
namespace {

constexpr std::int64_t kLargestNumber = 1000000;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word_char(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_letter(char c) { return is_word_char(c) && !is_digit(c); }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }

bool begins_word(std::string_view text, std::size_t at) {
  if (at == 0 || !is_letter(text[at - 1])) return true;
  return is_upper(text[at]) && !is_upper(text[at - 1]);
}

bool has_word(std::string_view text, std::string_view lowered, std::string_view word) {
  for (std::size_t at = lowered.find(word); at != std::string_view::npos;
       at = lowered.find(word, at + 1)) {
    if (begins_word(text, at)) return true;
  }
  return false;
}

// Brackets that belong to a name.
std::size_t unnamed_scope_at(std::string_view text) {
  for (const std::string_view scope : {"(anonymous namespace)", "<unnamed>", "(anonymous class)"}) {
    if (starts_with(text, scope)) return scope.size();
  }
  return 0;
}

struct Extent {
  std::size_t begin = 0;
  std::size_t template_begin = std::string_view::npos, template_end = std::string_view::npos;
};

// One step at the outermost level; true at the parameter list, where the name ends.
bool step_outside(std::string_view name, std::size_t i, int& depth, Extent& extent) {
  switch (name[i]) {
    case ' ':
      extent = {.begin = i + 1};
      return false;
    case '<':
      extent.template_begin = i;
      ++depth;
      return false;
    case '(':
      return true;
    default:
      return false;
  }
}

}  // namespace

KernelName take_apart(std::string_view name) {
  if (starts_with(name, "_Z")) return {name, name, name};
  Extent extent;
  int depth = 0;
  std::size_t i = 0;
  for (; i < name.size(); ++i) {
    if (const std::size_t length = unnamed_scope_at(name.substr(i)); length > 0) {
      i += length - 1;
    } else if (depth == 0) {
      if (step_outside(name, i, depth, extent)) break;
    } else if (name[i] == '<' || name[i] == '(') {
      ++depth;
    } else if ((name[i] == '>' || name[i] == ')') && --depth == 0) {
      extent.template_end = i;
    }
  }
  if (extent.begin >= i) return {name, name, name};
  const std::size_t begin = extent.begin;
  if (extent.template_begin == std::string_view::npos) {
    return {name, name.substr(begin, i - begin), {}};
  }
  const std::size_t open = extent.template_begin + 1;
  return {name, name.substr(begin, extent.template_begin - begin),
          name.substr(open, std::min(extent.template_end, i) - open)};
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t i = 0; i < text.size();) {
    if (!is_word_char(text[i])) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < text.size() && is_word_char(text[end])) ++end;
    words.push_back(text.substr(i, end - i));
    i = end;
  }
  return words;
}

bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

std::optional<KernelClass> find_task(std::string_view text, std::span<const TaskWords> groups) {
  const std::string lowered = lower(text);
  for (const auto& [task, words] : groups) {
    for (const std::string_view word : split(words, ' ')) {
      if (has_word(text, lowered, word)) return task;
    }
  }
  return std::nullopt;
}

std::optional<std::int64_t> take_number(std::string_view& text) {
  std::int64_t value = 0;
  std::size_t length = 0;
  for (; length < text.size() && is_digit(text[length]); ++length) {
    value = value * 10 + (text[length] - '0');
    if (value > kLargestNumber) return std::nullopt;
  }
  if (length == 0) return std::nullopt;
  text.remove_prefix(length);
  return value;
}

std::optional<std::vector<std::int64_t>> parse_sizes(std::string_view word) {
  std::vector<std::int64_t> sizes;
  while (true) {
    const auto size = take_number(word);
    if (!size || *size == 0 || sizes.size() == 3) return std::nullopt;
    sizes.push_back(*size);
    if (word.empty()) break;
    if (word.front() != 'x') return std::nullopt;
    word.remove_prefix(1);
  }
  return sizes.size() >= 2 ? std::optional(sizes) : std::nullopt;
}

std::optional<Dtype> parse_dtype_word(std::string_view word) {
  using Entry = std::pair<std::string_view, Dtype>;
  static constexpr std::array<Entry, 39> kWords{{
      {"f16", Dtype::fp16},      {"fp16", Dtype::fp16},     {"half", Dtype::fp16},
      {"Half", Dtype::fp16},     {"half2", Dtype::fp16},    {"bf16", Dtype::bf16},
      {"BFloat16", Dtype::bf16}, {"bfloat16", Dtype::bf16}, {"Bfloat16", Dtype::bf16},
      {"tf32", Dtype::tf32},     {"tfloat32", Dtype::tf32}, {"f32", Dtype::fp32},
      {"fp32", Dtype::fp32},     {"Fp32", Dtype::fp32},     {"float", Dtype::fp32},
      {"float32", Dtype::fp32},  {"f64", Dtype::fp64},      {"fp64", Dtype::fp64},
      {"double", Dtype::fp64},   {"f8", Dtype::fp8},        {"fp8", Dtype::fp8},
      {"e4m3", Dtype::fp8},      {"e5m2", Dtype::fp8},      {"E4m3", Dtype::fp8},
      {"E5m2", Dtype::fp8},      {"e4m3fn", Dtype::fp8},    {"f8e4m3", Dtype::fp8},
      {"f8e5m2", Dtype::fp8},    {"f4", Dtype::fp4},        {"e2m1", Dtype::fp4},
      {"E2m1", Dtype::fp4},      {"s8", Dtype::int8},       {"u8", Dtype::int8},
      {"i8", Dtype::int8},       {"int8", Dtype::int8},     {"int8x4", Dtype::int8},
      {"s4", Dtype::int4},       {"i4", Dtype::int4},       {"s32", Dtype::int32},
  }};
  const auto* found = std::find_if(kWords.begin(), kWords.end(),
                                   [&](const Entry& entry) { return entry.first == word; });
  return found == kWords.end() ? std::nullopt : std::optional(found->second);
}

int parse_architecture(std::string_view word) {
  using Entry = std::pair<std::string_view, int>;
  static constexpr std::array<Entry, 7> kFamilies{{{"maxwell", 50},
                                                   {"pascal", 60},
                                                   {"volta", 70},
                                                   {"turing", 75},
                                                   {"ampere", 80},
                                                   {"hopper", 90},
                                                   {"blackwell", 100}}};
  for (const auto& [family, capability] : kFamilies) {
    if (word == family) return capability;
  }
  if (!starts_with(word, "sm") && !starts_with(word, "Sm")) return 0;
  word.remove_prefix(2);
  const auto number = take_number(word);
  const bool suffix = word.empty() || word == "a" || word == "f";
  return number && suffix && *number >= 30 && *number < 200 ? static_cast<int>(*number) : 0;
}

std::vector<Dtype> types_in(std::string_view text) {
  std::vector<Dtype> types;
  std::string_view previous;
  for (const std::string_view word : words_of(text)) {
    const auto dtype = parse_dtype_word(word);
    const bool narrow = dtype && (*dtype == Dtype::fp8 || *dtype == Dtype::fp4);
    if (narrow && previous == "float") types.pop_back();
    if (dtype) types.push_back(*dtype);
    previous = word;
  }
  return types;
}

std::optional<Dtype> only_float_type(std::string_view text) {
  std::optional<Dtype> only;
  for (const Dtype dtype : types_in(text)) {
    if (dtype > Dtype::fp4) continue;
    if (only && *only != dtype) return std::nullopt;
    only = dtype;
  }
  return only;
}

}  // namespace rooftile::kernel_name_detail
