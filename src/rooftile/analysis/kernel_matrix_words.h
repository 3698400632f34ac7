// Words that the names of products and convolutions share. For the parsers of kernel names only.
#pragma once

#include <array>

#include "rooftile/analysis/kernel_words.h"

namespace rooftile::kernel_name_detail {

struct TaskWord {
  std::string_view text;
  KernelClass task;
  KernelDirection direction = KernelDirection::unknown;
};

inline constexpr std::array<TaskWord, 9> kTaskWords{{
    {"gemm", KernelClass::gemm},
    {"cudnn", KernelClass::convolution},
    {"conv", KernelClass::convolution},
    {"fprop", KernelClass::convolution, KernelDirection::forward},
    {"dgrad", KernelClass::convolution, KernelDirection::dgrad},
    {"deconv", KernelClass::convolution, KernelDirection::dgrad},
    {"wgrad", KernelClass::convolution, KernelDirection::wgrad},
    {"gemmBatched", KernelClass::gemm},
    {"spgemm", KernelClass::sparse},
}};

bool ends_with(std::string_view text, std::string_view suffix);
bool is_split_k_word(std::string_view word);

// align4, ldg8, aligna2: the smallest one stands for the operands.
void read_alignment(std::string_view word, KernelFacts& facts);
// nhwc for convolutions, nn, tn … for products; the class must be known.
void read_layout(std::string_view word, KernelFacts& facts);
void set_tile(const std::vector<std::int64_t>& sizes, KernelFacts& facts);

}  // namespace rooftile::kernel_name_detail
