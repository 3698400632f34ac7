#include "rooftile/base/descriptor.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace rooftile {

Descriptor::~Descriptor() {
  if (fd_ > STDERR_FILENO) ::close(fd_);
}

std::string system_message(int code) { return std::generic_category().message(code); }

Result<Descriptor> open_regular(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  // A device may refuse to open for reasons of its own.
  struct stat status {};
  const int code = errno;
  const bool known =
      file.get() >= 0 ? ::fstat(file.get(), &status) == 0 : ::stat(path.c_str(), &status) == 0;
  if (known && S_ISDIR(status.st_mode)) return fail("is a directory, expected a file", path);
  if (known && !S_ISREG(status.st_mode)) return fail("is not a regular file", path);
  if (file.get() < 0) return fail(system_message(code), path);
  return file;
}

int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace rooftile
