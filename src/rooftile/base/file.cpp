#include "rooftile/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace rooftile {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ > STDIN_FILENO) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

tl::unexpected<Error> system_error(const std::string& path) {
  return fail(std::strerror(errno), path);
}

// Reads until the end or one byte past the limit.
Result<std::string> read_up_to(int fd, const std::string& path, std::size_t limit) {
  constexpr std::size_t kFirstBlock = std::size_t{1} << 14;
  constexpr std::size_t kLastBlock = std::size_t{1} << 20;
  std::string bytes;
  // One byte more than a file has shows its end.
  struct stat status {};
  const bool has_size = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0;
  bytes.reserve(has_size ? std::min(static_cast<std::size_t>(status.st_size), limit) + 1
                         : kFirstBlock);
  while (bytes.size() <= limit) {
    const std::size_t old_size = bytes.size();
    if (old_size == bytes.capacity()) bytes.reserve(old_size + std::min(old_size, kLastBlock));
    const std::size_t wanted =
        std::min({bytes.capacity() - old_size, kLastBlock, limit + 1 - old_size});
    bytes.resize(old_size + wanted);
    const ssize_t got = ::read(fd, bytes.data() + old_size, wanted);
    if (got < 0 && errno == EINTR) {
      bytes.resize(old_size);
      continue;
    }
    if (got < 0) return system_error(path);
    bytes.resize(old_size + static_cast<std::size_t>(got));
    if (got == 0) break;
  }
  return bytes;
}

Result<int> open_regular(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return system_error(path);
  if (S_ISDIR(status.st_mode)) return fail("is a directory, expected a file", path);
  if (!S_ISREG(status.st_mode)) return fail("is not a regular file", path);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return system_error(path);
  return fd;
}

}  // namespace

Result<std::string> read_head(const std::string& path, std::size_t limit) {
  const Result<int> fd = open_regular(path);
  if (!fd) return tl::unexpected(fd.error());
  const Descriptor file(*fd);
  Result<std::string> bytes = read_up_to(file.get(), path, limit);
  if (bytes && bytes->size() > limit) bytes->resize(limit);
  return bytes;
}

Result<std::string> read_file(const std::string& path, std::size_t limit) {
  Result<int> fd = path == "-" ? Result<int>(STDIN_FILENO) : open_regular(path);
  if (!fd) return tl::unexpected(fd.error());
  const Descriptor file(*fd);
  Result<std::string> bytes = read_up_to(file.get(), path, limit);
  if (bytes && bytes->size() > limit) {
    return fail("is larger than " + std::to_string(limit >> 20) + " MiB, the limit here", path);
  }
  return bytes;
}

}  // namespace rooftile
