#include "rooftile/base/active_mutant.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

namespace rooftile_mutants {

int active = 0;
static unsigned char own_marks[kMost];
unsigned char* reached = own_marks;

// Before any other initialiser. The marks lie in a file where one is named, so that processes that
// a test starts leave theirs as well.
__attribute__((constructor(101))) static void start() {
  if (const char* number = std::getenv("ROOFTILE_ACTIVE_MUTANT")) active = std::atoi(number);
  const char* path = std::getenv("ROOFTILE_REACHED_MUTANTS");
  if (path == nullptr) return;
  const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, kMost) != 0) std::abort();
  void* marks = mmap(nullptr, kMost, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (marks == MAP_FAILED) std::abort();
  reached = static_cast<unsigned char*>(marks);
  close(file);
}

}  // namespace rooftile_mutants
