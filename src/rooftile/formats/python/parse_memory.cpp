#include "rooftile/formats/python/parse_memory.h"

#include <tree_sitter/api.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <vector>

namespace rooftile::python {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 20U;
constexpr std::size_t kKeptBlocks = 8;  // of a thread between two parses
constexpr std::size_t kStep = 16;
constexpr std::size_t kSmall = 1024;  // up to here sizes go up by steps, then by powers of two
constexpr std::size_t kSmallClasses = kSmall / kStep + 1;
constexpr std::size_t kClasses = kSmallClasses + std::numeric_limits<std::size_t>::digits;

// In front of every part.
struct Header {
  std::size_t size_class = 0;
};
struct Free {
  Free* next = nullptr;
};

std::size_t class_of(std::size_t bytes) {
  if (bytes <= kSmall) return (bytes + kStep - 1) / kStep;
  return kSmallClasses + static_cast<std::size_t>(std::bit_width(bytes - 1));
}

std::size_t bytes_of(std::size_t size_class) {
  if (size_class < kSmallClasses) return size_class * kStep;
  return std::size_t{1} << (size_class - kSmallClasses);
}

Header* header_of(void* part) { return static_cast<Header*>(part) - 1; }

struct GiveBack {
  void operator()(std::byte* block) const { std::free(block); }
};
using Block = std::unique_ptr<std::byte, GiveBack>;

Block new_block(std::size_t bytes) {
  Block block(static_cast<std::byte*>(std::malloc(bytes)));
  if (!block) std::abort();  // as tree-sitter itself does
  return block;
}

class Arena {
 public:
  void* allocate(std::size_t bytes) {
    const std::size_t size_class = std::max<std::size_t>(class_of(bytes), 1);
    if (Free* again = free_[size_class]) {
      free_[size_class] = again->next;
      return again;
    }
    auto* header = new (take(sizeof(Header) + bytes_of(size_class))) Header{size_class};
    return header + 1;
  }

  void release(void* part) {
    if (part == nullptr) return;
    Free*& first = free_[header_of(part)->size_class];
    first = new (part) Free{first};
  }

  void* resize(void* part, std::size_t bytes) {
    if (part == nullptr) return allocate(bytes);
    const std::size_t old = bytes_of(header_of(part)->size_class);
    if (bytes <= old) return part;
    void* larger = allocate(bytes);
    std::memcpy(larger, part, old);
    release(part);
    return larger;
  }

  void clear() {
    free_.fill(nullptr);
    large_.clear();
    if (blocks_.size() > kKeptBlocks) blocks_.resize(kKeptBlocks);
    used_ = 0;
    next_ = end_ = nullptr;
  }

 private:
  std::byte* take(std::size_t bytes) {
    if (bytes > kBlockBytes) return large_.emplace_back(new_block(bytes)).get();
    if (static_cast<std::size_t>(end_ - next_) < bytes) {
      if (used_ == blocks_.size()) blocks_.push_back(new_block(kBlockBytes));
      next_ = blocks_[used_++].get();
      end_ = next_ + kBlockBytes;
    }
    std::byte* part = next_;
    next_ += bytes;
    return part;
  }

  std::vector<Block> blocks_, large_;
  std::size_t used_ = 0;  // blocks
  std::byte* next_ = nullptr;
  std::byte* end_ = nullptr;  // of the last one used
  std::array<Free*, kClasses> free_{};
};

thread_local constinit Arena* arena = nullptr;

void* allocate(std::size_t bytes) { return arena->allocate(bytes); }
void release(void* part) { arena->release(part); }
void* resize(void* part, std::size_t bytes) { return arena->resize(part, bytes); }

void* allocate_zeros(std::size_t count, std::size_t bytes) {
  return std::memset(arena->allocate(count * bytes), 0, count * bytes);
}

}  // namespace

ParseMemory::ParseMemory() {
  static const bool installed = [] {
    ts_set_allocator(allocate, allocate_zeros, resize, release);
    return true;
  }();
  static_cast<void>(installed);
  thread_local Arena memory;
  arena = &memory;
}

ParseMemory::~ParseMemory() {
  arena->clear();
  arena = nullptr;
}

}  // namespace rooftile::python
