#include "rooftile/base/atomic_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "rooftile/base/file.h"

namespace rooftile {
namespace {

std::string message_of(int code) { return std::generic_category().message(code); }

// What the new file gets besides its bytes.
struct FileStatus {
  mode_t permissions = 0;
  bool is_source = false;  // owner is kept, and the bytes are on disk before the old ones go
  uid_t owner = 0;
  gid_t group = 0;
};

// 0, or the errno of the step that failed; closes the file.
int fill_and_close(int fd, std::string_view bytes, const FileStatus& status) {
  int code = write_all(fd, bytes);
  // Only root may give files away; for others the file stays theirs.
  if (code == 0 && status.is_source && ::fchown(fd, status.owner, status.group) != 0) {
    errno = 0;
  }
  if (code == 0 && ::fchmod(fd, status.permissions) != 0) code = errno;
  if (code == 0 && status.is_source && ::fsync(fd) != 0 && errno != EINVAL && errno != EROFS)
    code = errno;
  if (::close(fd) != 0 && code == 0) code = errno;
  return code;
}

Result<void> write_beside(const std::string& target, std::string_view bytes,
                          const FileStatus& status) {
  std::string temporary = target + ".XXXXXX";
  const int fd = ::mkstemp(temporary.data());
  if (fd < 0) return fail(message_of(errno), target);
  int code = fill_and_close(fd, bytes, status);
  if (code == 0 && std::rename(temporary.c_str(), target.c_str()) != 0) code = errno;
  if (code == 0) return {};
  ::unlink(temporary.c_str());
  return fail(message_of(code), target);
}

}  // namespace

int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

Result<void> write_atomically(const std::string& target, std::string_view bytes,
                              mode_t permissions) {
  return write_beside(target, bytes, {.permissions = permissions});
}

Result<void> replace_contents(const std::string& path, std::string_view before,
                              std::string_view after) {
  std::error_code error;
  const std::string target = std::filesystem::canonical(path, error).string();
  if (error) return fail(error.message(), path);
  struct stat status {};
  if (::stat(target.c_str(), &status) != 0) return fail(message_of(errno), path);
  if (::access(target.c_str(), W_OK) != 0) return fail(message_of(errno), path);
  const Result<std::string> now = read_file(target, before.size() + 1);
  if (!now || *now != before) return fail("has changed since it was read; not written", path);
  return write_beside(target, after,
                      {.permissions = status.st_mode & 07777U,
                       .is_source = true,
                       .owner = status.st_uid,
                       .group = status.st_gid});
}

}  // namespace rooftile
