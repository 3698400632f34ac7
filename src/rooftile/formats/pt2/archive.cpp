#include "rooftile/formats/pt2/archive.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "rooftile/base/descriptor.h"
#include "rooftile/base/text.h"

namespace rooftile::pt2_format {
namespace {

// Of PKWARE's APPNOTE.TXT 6.3.10, sections 4.3 and 4.5.3.
constexpr std::string_view kLocalHeader = "PK\x03\x04", kDirectoryEntry = "PK\x01\x02",
                           kEnd = "PK\x05\x06", kWideEnd = "PK\x06\x06",
                           kWideEndLocator = "PK\x06\x07";
constexpr std::size_t kLocalHeaderBytes = 30, kDirectoryEntryBytes = 46, kEndBytes = 22,
                      kWideEndBytes = 56, kWideEndLocatorBytes = 20;
constexpr std::uint64_t kLargestComment = 0xFFFF;
constexpr std::uint64_t kWide = 0xFFFFFFFF;  // the value stands in the extra field
constexpr std::uint16_t kWideExtra = 1, kEncrypted = 1, kStored = 0, kDeflated = 8;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;
constexpr std::uint64_t kLargestDirectory = 32 * kMiB;
constexpr std::uint64_t kLargestProgram = 64 * kMiB, kLargestConfig = 16 * kMiB;

class FileSource : public ByteSource {
 public:
  FileSource(Descriptor file, std::uint64_t size) : file_(std::move(file)), size_(size) {}

  std::uint64_t size() const override { return size_; }

  Result<std::string> read(std::uint64_t offset, std::uint64_t count) const override {
    if (offset > size_ || count > size_ - offset) return fail("the file ends before its contents");
    std::string bytes(count, '\0');
    for (std::uint64_t done = 0; done < count;) {
      const ssize_t got = ::pread(file_.get(), bytes.data() + done, count - done,
                                  static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return fail(system_message(errno));
      if (got == 0) return fail("the file ends before its contents");
      done += static_cast<std::uint64_t>(got);
    }
    return bytes;
  }

 private:
  Descriptor file_;
  std::uint64_t size_;
};

class TextSource : public ByteSource {
 public:
  explicit TextSource(std::string_view bytes) : bytes_(bytes) {}

  std::uint64_t size() const override { return bytes_.size(); }

  Result<std::string> read(std::uint64_t offset, std::uint64_t count) const override {
    if (offset > bytes_.size() || count > bytes_.size() - offset) {
      return fail("the file ends before its contents");
    }
    return std::string(bytes_.substr(offset, count));
  }

 private:
  std::string_view bytes_;
};

// A little-endian number of `count` bytes; 0 behind the end.
std::uint64_t number(std::string_view bytes, std::size_t at, std::size_t count) {
  if (at > bytes.size() || count > bytes.size() - at) return 0;
  std::uint64_t value = 0;
  for (std::size_t i = count; i-- > 0;) {
    value = value << 8U | static_cast<unsigned char>(bytes[at + i]);
  }
  return value;
}

struct Directory {
  std::uint64_t offset = 0, size = 0, entries = 0;
};

// The end record is the last one whose comment reaches to the end of the file.
std::optional<std::size_t> find_end(std::string_view tail) {
  for (std::size_t at = tail.rfind(kEnd); at != std::string_view::npos;
       at = at == 0 ? std::string_view::npos : tail.rfind(kEnd, at - 1)) {
    if (tail.size() - at < kEndBytes) continue;
    if (at + kEndBytes + number(tail, at + 20, 2) == tail.size()) return at;
  }
  return std::nullopt;
}

Result<Directory> wide_directory(const ByteSource& source, std::uint64_t end) {
  if (end < kWideEndLocatorBytes) return fail("a zip64 archive without its locator");
  const auto locator = source.read(end - kWideEndLocatorBytes, kWideEndLocatorBytes);
  if (!locator) return tl::unexpected(locator.error());
  if (!locator->starts_with(kWideEndLocator)) return fail("a zip64 archive without its locator");
  const auto record = source.read(number(*locator, 8, 8), kWideEndBytes);
  if (!record || !record->starts_with(kWideEnd)) {
    return fail("a zip64 archive without its end record");
  }
  return Directory{number(*record, 48, 8), number(*record, 40, 8), number(*record, 32, 8)};
}

Result<Directory> find_directory(const ByteSource& source) {
  const std::uint64_t length = std::min(source.size(), kLargestComment + kEndBytes);
  const auto tail = source.read(source.size() - length, length);
  if (!tail) return tl::unexpected(tail.error());
  const auto end = find_end(*tail);
  if (!end) {
    return fail(
        "a zip archive without its table of contents: the file is cut, or its download "
        "did not finish");
  }
  const Directory directory{number(*tail, *end + 16, 4), number(*tail, *end + 12, 4),
                            number(*tail, *end + 10, 2)};
  const bool is_wide =
      directory.offset == kWide || directory.size == kWide || directory.entries == kLargestComment;
  return is_wide ? wide_directory(source, source.size() - length + *end) : directory;
}

// Sizes that do not fit 32 bits follow in the extra field with number 1, in this order.
void widen(std::string_view extra, ArchiveEntry& entry) {
  while (extra.size() >= 4) {
    const auto id = static_cast<std::uint16_t>(number(extra, 0, 2));
    const std::string_view data = extra.substr(4, number(extra, 2, 2));
    if (id == kWideExtra) {
      std::size_t at = 0;
      for (std::uint64_t* field : {&entry.size, &entry.stored, &entry.header}) {
        if (*field != kWide) continue;
        *field = number(data, at, 8);
        at += 8;
      }
      return;
    }
    extra.remove_prefix(std::min(extra.size(), 4 + data.size()));
  }
}

Result<std::vector<ArchiveEntry>> read_entries(std::string_view directory, std::uint64_t count) {
  std::vector<ArchiveEntry> entries;
  while (!directory.empty()) {
    if (!directory.starts_with(kDirectoryEntry) || directory.size() < kDirectoryEntryBytes) {
      return fail("a zip archive with a broken table of contents");
    }
    const std::size_t name = number(directory, 28, 2), extra = number(directory, 30, 2),
                      comment = number(directory, 32, 2);
    if (name + extra + comment > directory.size() - kDirectoryEntryBytes) {
      return fail("a zip archive with a broken table of contents");
    }
    ArchiveEntry entry{.name = std::string(directory.substr(kDirectoryEntryBytes, name)),
                       .header = number(directory, 42, 4),
                       .stored = number(directory, 20, 4),
                       .size = number(directory, 24, 4),
                       .flags = static_cast<std::uint16_t>(number(directory, 8, 2)),
                       .method = static_cast<std::uint16_t>(number(directory, 10, 2))};
    widen(directory.substr(kDirectoryEntryBytes + name, extra), entry);
    entries.push_back(std::move(entry));
    directory.remove_prefix(kDirectoryEntryBytes + name + extra + comment);
  }
  if (entries.size() != count) {
    return fail(
        fmt::format("a zip archive that states {} entries and lists {}", count, entries.size()));
  }
  return entries;
}

// "model/models/model.json" without the folder that is named after the archive.
std::string_view inside(std::string_view name) {
  const std::size_t slash = name.find('/');
  return slash == std::string_view::npos ? name : name.substr(slash + 1);
}

constexpr std::string_view kFlatProgram = "serialized_exported_program.json";

bool is_program(std::string_view name) {
  const auto is_model = [](std::string_view path) {
    return path.starts_with("models/") && path.ends_with(".json");
  };
  return name == kFlatProgram || is_model(name) || is_model(inside(name));
}

bool is_weights_config(std::string_view name) {
  return contains(name, "data/weights/") && name.ends_with("_weights_config.json");
}

bool is_compiled(std::string_view name) {
  return contains(name, "data/aotinductor/") || name.ends_with(".wrapper.so") ||
         name.ends_with("wrapper_metadata.json");
}

}  // namespace

Result<std::unique_ptr<ByteSource>> open_file(const std::string& path) {
  auto file = open_regular(path);
  if (!file) return tl::unexpected(file.error());
  struct stat status {};
  if (fstat(file->get(), &status) != 0) return fail(system_message(errno), path);
  return std::make_unique<FileSource>(*std::move(file), static_cast<std::uint64_t>(status.st_size));
}

std::unique_ptr<ByteSource> source_of_text(std::string_view bytes) {
  return std::make_unique<TextSource>(bytes);
}

Result<Archive> Archive::open(std::unique_ptr<ByteSource> source) {
  const auto directory = find_directory(*source);
  if (!directory) return tl::unexpected(directory.error());
  if (directory->size > kLargestDirectory) {
    return fail(fmt::format("a zip archive with a table of contents of {} MiB; at most {} are read",
                            directory->size / kMiB, kLargestDirectory / kMiB));
  }
  const auto bytes = source->read(directory->offset, directory->size);
  if (!bytes) return fail("a zip archive whose table of contents lies behind its end");
  auto entries = read_entries(*bytes, directory->entries);
  if (!entries) return tl::unexpected(entries.error());
  Archive archive;
  archive.source_ = std::move(source);
  archive.entries_ = *std::move(entries);
  return archive;
}

ArchiveKind Archive::kind() const {
  const auto has = [&](auto&& is_wanted) {
    return std::any_of(entries_.begin(), entries_.end(),
                       [&](const ArchiveEntry& entry) { return is_wanted(entry.name); });
  };
  if (has(is_program)) return ArchiveKind::exported_program;
  if (has(is_compiled)) return ArchiveKind::compiled;
  if (has([](std::string_view name) { return inside(name) == "constants.pkl"; })) {
    return ArchiveKind::script;
  }
  const bool is_saved = has([](std::string_view name) { return inside(name) == "data.pkl"; });
  return is_saved ? ArchiveKind::saved_objects : ArchiveKind::other;
}

Result<std::string> Archive::read(const ArchiveEntry& entry, std::uint64_t limit) const {
  const std::string name = quoted(entry.name, 80);
  if ((entry.flags & kEncrypted) != 0) return fail(fmt::format("{} is encrypted", name));
  if (entry.method != kStored) {
    return fail(fmt::format(
        "{} is compressed ({}), which torch.export.save does not do: unpack the "
        "archive and pack it again with 'zip -0 -r'",
        name, entry.method == kDeflated ? "deflate" : fmt::format("method {}", entry.method)));
  }
  if (entry.size != entry.stored) {
    return fail(fmt::format("{} states two sizes: {} and {}", name, entry.stored, entry.size));
  }
  if (entry.size > limit) {
    return fail(
        fmt::format("{} has {} MiB; at most {} are read", name, entry.size / kMiB, limit / kMiB));
  }
  const auto header = source_->read(entry.header, kLocalHeaderBytes);
  if (!header || !header->starts_with(kLocalHeader)) {
    return fail(fmt::format("{} is not where the table of contents says", name));
  }
  const std::uint64_t data =
      entry.header + kLocalHeaderBytes + number(*header, 26, 2) + number(*header, 28, 2);
  return source_->read(data, entry.size);
}

Result<std::string> Archive::read_only_one(const std::vector<const ArchiveEntry*>& found,
                                           std::uint64_t limit) const {
  if (found.empty()) return std::string();
  if (found.size() > 1) {
    std::vector<std::string> names;
    for (const ArchiveEntry* entry : found) names.push_back(quoted(entry->name, 40));
    names.resize(std::min<std::size_t>(names.size(), 4));
    return fail(
        fmt::format("the archive holds {} programs ({}); expected one: save each to a file "
                    "of its own",
                    found.size(), join(names, ", ")));
  }
  return read(*found.front(), limit);
}

Result<std::string> Archive::program() const {
  std::vector<const ArchiveEntry*> found;
  for (const ArchiveEntry& entry : entries_) {
    if (is_program(entry.name)) found.push_back(&entry);
  }
  return read_only_one(found, kLargestProgram);
}

Result<std::string> Archive::weights_config() const {
  std::vector<const ArchiveEntry*> found;
  for (const ArchiveEntry& entry : entries_) {
    if (is_weights_config(entry.name)) found.push_back(&entry);
  }
  return read_only_one(found, kLargestConfig);
}

bool Archive::has_data(std::string_view weight_file) const {
  const std::string end = fmt::format("data/weights/{}", weight_file);
  return std::any_of(entries_.begin(), entries_.end(), [&](const ArchiveEntry& entry) {
    return entry.size > 0 && (entry.name == end || inside(entry.name) == end);
  });
}

}  // namespace rooftile::pt2_format
