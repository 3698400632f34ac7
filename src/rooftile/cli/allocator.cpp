// The program's memory comes from mimalloc: a check allocates millions of small parts of graphs,
// and glibc spends a quarter of the time on them. Linking it replaces malloc; its own operator new
// ends the program where memory is short, so these throw.
#include <mimalloc.h>

#include <new>

void* operator new(std::size_t size) {
  if (void* memory = mi_malloc(size)) return memory;
  throw std::bad_alloc();
}
void* operator new[](std::size_t size) { return operator new(size); }

void operator delete(void* memory) noexcept { mi_free(memory); }
void operator delete[](void* memory) noexcept { mi_free(memory); }
void operator delete(void* memory, std::size_t) noexcept { mi_free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { mi_free(memory); }
