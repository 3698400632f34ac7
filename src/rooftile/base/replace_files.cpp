#include "rooftile/base/replace_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "rooftile/base/descriptor.h"
#include "rooftile/base/file.h"
#include "rooftile/base/run_limits.h"
#include "rooftile/base/text.h"

namespace rooftile {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kJournalName = ".rooftile-fix.journal";
// Ends of the parts of a journal: new files may exist, files may change places, old files go.
constexpr std::string_view kNamed = "named", kStaged = "staged", kExchanged = "exchanged";
constexpr std::size_t kMaxJournalBytes = std::size_t{16} << 20U;
constexpr std::size_t kMaxAttributeBytes = std::size_t{1} << 20U;

// Which file it is, and whether somebody wrote to it; changing places leaves all of it.
struct Identity {
  ino_t inode = 0;
  std::int64_t modified_ns = 0;
  std::int64_t bytes = 0;

  bool operator==(const Identity&) const = default;
};

Identity identity_of(const struct stat& status) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  return {status.st_ino, status.st_mtim.tv_sec * kSecond + status.st_mtim.tv_nsec, status.st_size};
}

std::optional<Identity> identity_at(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return identity_of(status);
}

// A file and what shall stand in its place.
struct Staged {
  std::string target, temporary;
  Identity content;  // of the new file
};

// Both names change their files at once. Where the file system cannot, the temporary name is gone
// afterwards, and with it the old file.
int change_places(const std::string& temporary, const std::string& target) {
  if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0)
    return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  return std::rename(temporary.c_str(), target.c_str()) == 0 ? 0 : errno;
}

// 0, or the errno of an attribute that cannot be kept.
int copy_attributes(int from, int to) {
  const ssize_t size = ::flistxattr(from, nullptr, 0);
  if (size <= 0) return size == 0 || errno == ENOTSUP ? 0 : errno;
  std::string names(static_cast<std::size_t>(size), '\0');
  const ssize_t got = ::flistxattr(from, names.data(), names.size());
  if (got < 0) return errno;
  names.resize(static_cast<std::size_t>(got));
  std::string value(kMaxAttributeBytes, '\0');
  for (const std::string_view name : split(names, '\0')) {
    if (name.empty()) continue;
    const std::string key(name);
    const ssize_t bytes = ::fgetxattr(from, key.c_str(), value.data(), value.size());
    if (bytes < 0) return errno;
    if (::fsetxattr(to, key.c_str(), value.data(), static_cast<std::size_t>(bytes), 0) != 0)
      return errno;
  }
  return 0;
}

// The folder's journal, held by one process at a time.
class Journal {
 public:
  static Result<Journal> open(const std::string& folder) {
    const std::string path = (fs::path(folder.empty() ? "." : folder) / kJournalName).string();
    Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (file.get() < 0) return fail(system_message(errno), path);
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      return fail("another process is changing files here; try again when it has ended", folder);
    }
    // Between the opening and the lock its last owner may have removed it.
    struct stat held {
    }, named{};
    if (::fstat(file.get(), &held) != 0 || ::stat(path.c_str(), &named) != 0 ||
        held.st_ino != named.st_ino) {
      return fail("another process has just changed files here; try again", folder);
    }
    return Journal(path, std::move(file));
  }

  // Adds to the end: a process that is killed meanwhile leaves a line that is not complete, which
  // nobody reads.
  Result<void> append(const std::vector<Staged>& files, std::string_view mark) {
    std::string text;
    for (const Staged& file : files) {
      text += fmt::format("{} {} {}\n{}\n{}\n", file.content.inode, file.content.modified_ns,
                          file.content.bytes, file.temporary, file.target);
    }
    text += std::string(mark) + '\n';
    int code = ::lseek(file_.get(), 0, SEEK_END) >= 0 ? 0 : errno;
    if (code == 0) code = write_all(file_.get(), text);
    if (code == 0 && ::fsync(file_.get()) != 0 && errno != EINVAL) code = errno;
    if (code != 0) return fail(system_message(code), path_);
    return {};
  }

  // What a process that was killed had begun: files whose identity is known may have changed
  // places.
  std::vector<Staged> read() const {
    std::vector<Staged> files;
    const Result<std::string> text = read_file(path_, kMaxJournalBytes);
    if (!text) return files;
    const std::string_view whole = std::string_view(*text).substr(0, text->rfind('\n') + 1);
    std::vector<Staged> part;
    const std::vector<std::string_view> lines = split(whole, '\n');
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (lines[i] == kNamed || lines[i] == kStaged) files = std::exchange(part, {});
      if (lines[i] == kExchanged) {
        for (Staged& file : files) file.content = {};
      }
      unsigned long inode = 0;
      long modified = 0, bytes = 0;
      const bool is_file =
          i + 2 < lines.size() &&
          std::sscanf(std::string(lines[i]).c_str(), "%lu %ld %ld", &inode, &modified, &bytes) == 3;
      if (!is_file) continue;
      part.push_back(
          {std::string(lines[i + 2]), std::string(lines[i + 1]), {inode, modified, bytes}});
      i += 2;
    }
    return files;
  }

  void remove() { ::unlink(path_.c_str()); }

 private:
  Journal(std::string path, Descriptor file) : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  Descriptor file_;
};

bool is_ours(const Staged& file) {
  const fs::path temporary(file.temporary), target(file.target);
  return temporary.parent_path() == target.parent_path() &&
         temporary.filename().string().starts_with(".rooftile-");
}

// Back to the old files; only what nobody has touched since is moved.
void undo(const std::vector<Staged>& files) {
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    if (!is_ours(*file)) continue;
    const bool is_changed = file->content.inode != 0 &&
                            identity_at(file->target) == file->content &&
                            identity_at(file->temporary).has_value();
    if (is_changed) static_cast<void>(change_places(file->temporary, file->target));
    // The new contents, or an old file whose successor somebody has edited since.
    ::unlink(file->temporary.c_str());
  }
}

// One call of replace_files().
class Exchange {
 public:
  Exchange(Journal journal, std::span<const FileReplacement> files)
      : journal_(std::move(journal)), files_(files) {}

  Result<void> run() {
    Result<void> done = name_all();
    if (done) done = journal_.append(staged_, kNamed);
    for (std::size_t i = 0; done && i < staged_.size(); ++i) done = stage(i);
    if (done) done = journal_.append(staged_, kStaged);
    for (std::size_t i = 0; done && i < staged_.size(); ++i) done = exchange(i);
    if (done) done = journal_.append({}, kExchanged);
    if (done) {
      for (const Staged& file : staged_) ::unlink(file.temporary.c_str());
    } else {
      undo(staged_);
    }
    journal_.remove();
    return done;
  }

 private:
  Result<void> name_all() {
    for (const FileReplacement& file : files_) {
      std::error_code error;
      const fs::path target = fs::canonical(file.path, error);
      if (error) return fail(error.message(), file.path);
      if (target.string().find('\n') != std::string::npos) {
        return fail("has a line break in its path; not written", file.path);
      }
      const std::string name = fmt::format(".rooftile-{}-{}", ::getpid(), staged_.size());
      staged_.push_back({target.string(), (target.parent_path() / name).string(), {}});
    }
    return {};
  }

  Result<void> stage(std::size_t i) {
    const FileReplacement& file = files_[i];
    const auto wrong = [&](int code) { return fail(system_message(code), file.path); };
    const Descriptor old(::open(staged_[i].target.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
    if (old.get() < 0) return wrong(errno);
    struct stat status {};
    if (::fstat(old.get(), &status) != 0) return wrong(errno);
    if (!S_ISREG(status.st_mode)) return fail("is not a regular file; not written", file.path);
    if (status.st_nlink > 1) {
      return fail("has a second name (hard link), which would keep the old text; not written",
                  file.path);
    }
    const Descriptor fresh(::open(staged_[i].temporary.c_str(),
                                  O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (fresh.get() < 0) return wrong(errno);
    int code = write_all(fresh.get(), file.after);
    const bool is_own = status.st_uid == ::geteuid() && status.st_gid == ::getegid();
    if (code == 0 && !is_own && ::fchown(fresh.get(), status.st_uid, status.st_gid) != 0) {
      return fail("belongs to somebody else, whom the new file would not; not written", file.path);
    }
    if (code == 0) code = copy_attributes(old.get(), fresh.get());
    if (code == 0 && ::fchmod(fresh.get(), status.st_mode & 07777U) != 0) code = errno;
    if (code == 0 && ::fsync(fresh.get()) != 0 && errno != EINVAL) code = errno;
    if (code == 0 && ::fstat(fresh.get(), &status) != 0) code = errno;
    if (code != 0) return wrong(code);
    staged_[i].content = identity_of(status);
    return {};
  }

  Result<void> exchange(std::size_t i) {
    const FileReplacement& file = files_[i];
    const auto holds_before = [&](const std::string& path) {
      const Result<std::string> now = read_file(path, file.before.size() + 1);
      return now && *now == file.before;
    };
    const auto changed = [&] {
      return fail("has changed since it was read; not written", file.path);
    };
    if (!holds_before(staged_[i].target)) return changed();
    const int code = change_places(staged_[i].temporary, staged_[i].target);
    if (code != 0) return fail(system_message(code), file.path);
    // Somebody may have written between the comparison and the exchange.
    const bool is_kept = identity_at(staged_[i].temporary).has_value();
    if (is_kept && !holds_before(staged_[i].temporary)) return changed();
    return {};
  }

  Journal journal_;
  std::span<const FileReplacement> files_;
  std::vector<Staged> staged_;
};

}  // namespace

Result<void> recover_files(const std::string& folder) {
  const fs::path path = fs::path(folder.empty() ? "." : folder) / kJournalName;
  std::error_code error;
  if (!fs::exists(fs::symlink_status(path, error))) return {};
  Result<Journal> journal = Journal::open(folder);
  if (!journal) return tl::unexpected(journal.error());
  undo(journal->read());
  journal->remove();
  return {};
}

Result<void> replace_files(const std::string& folder, std::span<const FileReplacement> files) {
  if (files.empty()) return {};
  const FinishFirst finish_first;
  const Result<void> clean = recover_files(folder);
  if (!clean) return clean;
  Result<Journal> journal = Journal::open(folder);
  if (!journal) return tl::unexpected(journal.error());
  return Exchange(std::move(*journal), files).run();
}

}  // namespace rooftile
