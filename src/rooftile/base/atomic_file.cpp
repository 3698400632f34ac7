#include "rooftile/base/atomic_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "rooftile/base/descriptor.h"
#include "rooftile/base/run_limits.h"

namespace rooftile {
namespace {

// 0, or the errno of the step that failed; closes the file.
int fill_and_close(int fd, std::string_view bytes, mode_t permissions) {
  int code = write_all(fd, bytes);
  if (code == 0 && ::fchmod(fd, permissions) != 0) code = errno;
  if (::close(fd) != 0 && code == 0) code = errno;
  return code;
}

}  // namespace

Result<void> write_atomically(const std::string& target, std::string_view bytes,
                              mode_t permissions) {
  const FinishFirst finish_first;
  // Beside it, under a name that no long name of the file makes too long.
  const std::filesystem::path folder = std::filesystem::path(target).parent_path();
  std::string temporary = (folder / ".rooftile-XXXXXX").string();
  const int fd = ::mkstemp(temporary.data());
  if (fd < 0) return fail(system_message(errno), target);
  int code = fill_and_close(fd, bytes, permissions);
  if (code == 0 && std::rename(temporary.c_str(), target.c_str()) != 0) code = errno;
  if (code == 0) return {};
  ::unlink(temporary.c_str());
  return fail(system_message(code), target);
}

}  // namespace rooftile
