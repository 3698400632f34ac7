// libFuzzer's hook for targets that take JSON. To be included once in a program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "tests/fuzz/json_mutator.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned int seed) {
  if (seed % 3 != 0) {  // bytes and words of the dictionary else
    const std::string text(reinterpret_cast<const char*>(data), size);
    const std::string made = fuzzing::JsonMutator(text, seed).mutate();
    if (made.size() <= max_size && made != text) {
      std::memcpy(data, made.data(), made.size());
      return made.size();
    }
  }
  return LLVMFuzzerMutate(data, size, max_size);
}
