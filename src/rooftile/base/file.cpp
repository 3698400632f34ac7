#include "rooftile/base/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "rooftile/base/descriptor.h"

namespace rooftile {
namespace {

tl::unexpected<Error> system_error(const std::string& path) {
  return fail(system_message(errno), path);
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

}  // namespace

Result<std::string> read_head(const std::string& path, std::size_t limit) {
  const Result<Descriptor> file = open_regular(path);
  if (!file) return tl::unexpected(file.error());
  Result<std::string> bytes = read_up_to(file->get(), path, limit);
  if (bytes && bytes->size() > limit) bytes->resize(limit);
  return bytes;
}

Result<std::string> read_file(const std::string& path, std::size_t limit) {
  const Result<Descriptor> file = path == "-" ? Descriptor(STDIN_FILENO) : open_regular(path);
  if (!file) return tl::unexpected(file.error());
  Result<std::string> bytes = read_up_to(file->get(), path, limit);
  if (bytes && bytes->size() > limit) {
    return fail("is larger than " + std::to_string(limit >> 20) + " MiB, the limit here", path);
  }
  return bytes;
}

}  // namespace rooftile
