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
inline std::size_t write_mutant(const ScriptParts& script, const ScriptParts& donor,
                                std::uint8_t* out, std::size_t max_size, unsigned int seed) {
  const std::string text = ScriptMutator(script, donor, seed).mutate();
  if (text.size() > max_size || text == script.text) return 0;
  std::memcpy(out, text.data(), text.size());
  return text.size();
}

}  // namespace fuzzing

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned int seed) {
  if (seed % 3 != 0) {  // bytes and words of the dictionary else
    if (const auto parts = fuzzing::parts_of(fuzzing::view(data, size))) {
      const std::size_t made = fuzzing::write_mutant(*parts, *parts, data, max_size, seed);
      if (made > 0) return made;
    }
  }
  return LLVMFuzzerMutate(data, size, max_size);
}

extern "C" std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* first, std::size_t first_size,
                                                 const std::uint8_t* second,
                                                 std::size_t second_size, std::uint8_t* out,
                                                 std::size_t max_size, unsigned int seed) {
  const auto script = fuzzing::parts_of(fuzzing::view(first, first_size));
  const auto donor = fuzzing::parts_of(fuzzing::view(second, second_size));
  return script && donor ? fuzzing::write_mutant(*script, *donor, out, max_size, seed) : 0;
}
