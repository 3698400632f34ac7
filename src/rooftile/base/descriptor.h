// File descriptors: owned, opened and written to.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "rooftile/base/result.h"

namespace rooftile {

// Closes what it holds; standard input, output and error stay open.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();
  int get() const { return fd_; }
  // For somebody else to close.
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// The text of an errno.
std::string system_message(int code);

// A regular file, to be read. Folders, devices, pipes and missing files are errors; none of them
// blocks.
Result<Descriptor> open_regular(const std::string& path);

// Writes all bytes to an open file; 0, or the errno of the write that failed.
int write_all(int fd, std::string_view bytes);

}  // namespace rooftile
