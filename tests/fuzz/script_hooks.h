// libFuzzer's hooks for targets that take scripts. To be included once in a program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "tests/fuzz/script_mutator.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace fuzzing {

inline std::string_view view(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// 0 where nothing came out, or too much.
inline std::size_t write_mutant(std::string_view script, std::string_view donor, std::uint8_t* out,
                                std::size_t max_size, unsigned int seed) {
  const auto parts = parts_of(script), others = parts_of(donor);
  if (!parts || !others) return 0;
  const std::string text = ScriptMutator(*parts, *others, seed).mutate();
  if (text.size() > max_size || text == script) return 0;
  std::memcpy(out, text.data(), text.size());
  return text.size();
}

}  // namespace fuzzing

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned int seed) {
  if (seed % 3 != 0) {  // bytes and words of the dictionary else
    const std::string script(fuzzing::view(data, size));
    if (const std::size_t made = fuzzing::write_mutant(script, script, data, max_size, seed)) {
      return made;
    }
  }
  return LLVMFuzzerMutate(data, size, max_size);
}

extern "C" std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* first, std::size_t first_size,
                                                 const std::uint8_t* second,
                                                 std::size_t second_size, std::uint8_t* out,
                                                 std::size_t max_size, unsigned int seed) {
  return fuzzing::write_mutant(fuzzing::view(first, first_size), fuzzing::view(second, second_size),
                               out, max_size, seed);
}
