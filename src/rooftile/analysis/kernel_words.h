// Taking a kernel's name apart: the function, its template arguments, and words such as 128x64.
// For the parsers of kernel names only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/text.h"
#include "rooftile/workload/kernel_facts.h"

namespace rooftile::kernel_name_detail {

// void at::native::reduce_kernel<512, 1>(…): the function without its return type, and what stands
// between its outermost angle brackets. Of a mangled or unusual name both are the whole name.
struct KernelName {
  std::string_view whole, function, arguments;
};

KernelName take_apart(std::string_view name);

// Runs of letters and digits; everything else separates.
std::vector<std::string_view> words_of(std::string_view text);

bool starts_with(std::string_view text, std::string_view prefix);

// Words that tell a task, separated by blanks, in lower case.
struct TaskWords {
  KernelClass task;
  std::string_view words;
};

// The task of the first group with a word that the text has, in any case, at the beginning of a
// word: "gather" is in index_gather and IndexGather, not in allgather.
std::optional<KernelClass> find_task(std::string_view text, std::span<const TaskWords> groups);

// The leading decimal number, taken off the text; empty where there is none or it is above 10⁶.
std::optional<std::int64_t> take_number(std::string_view& text);

// 128x64 or 128x64x32, and nothing after it.
std::optional<std::vector<std::int64_t>> parse_sizes(std::string_view word);

// f16, fp16, bf16, tf32, e4m3, s8, int8 …; also C++ types: __half, bfloat16_t, float.
std::optional<Dtype> parse_dtype_word(std::string_view word);

// 80 for sm80, sm80a, ampere; 0 for anything else.
int parse_architecture(std::string_view word);

// The types among the words of the text, in order; float_e4m3_t is one of 8 bits.
std::vector<Dtype> types_in(std::string_view text);

// The only floating-point type of the text; empty where there are none or several.
std::optional<Dtype> only_float_type(std::string_view text);

}  // namespace rooftile::kernel_name_detail
