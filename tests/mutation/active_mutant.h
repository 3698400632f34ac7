// Which of the mutants in this build is in force. tools/mutate puts this file into the library that
// it builds, and writes ROOFTILE_MUTANT(number) around what a mutant changes.
#pragma once

#pragma clang diagnostic ignored "-Wc++11-narrowing"

namespace rooftile_mutants {

inline constexpr int kMost = 1 << 16;

extern int active;              // 0: none. From ROOFTILE_ACTIVE_MUTANT, when the program starts
extern unsigned char* reached;  // by number: whether its place was reached. kMost bytes

[[gnu::always_inline]] inline bool is_active(int number) {
  reached[number] = 1;
  return active == number;
}

}  // namespace rooftile_mutants

#define ROOFTILE_MUTANT(number) rooftile_mutants::is_active(number)
