// Zip archives of PyTorch: what they hold, by the names of their entries, and single entries as
// they are stored.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/result.h"

namespace rooftile::pt2_format {

// Bytes at any place of a file or a text.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual std::uint64_t size() const = 0;
  // Exactly `count` bytes; an error where there are fewer.
  virtual Result<std::string> read(std::uint64_t offset, std::uint64_t count) const = 0;
};

Result<std::unique_ptr<ByteSource>> open_file(const std::string& path);
std::unique_ptr<ByteSource> source_of_text(std::string_view bytes);  // which must live on

enum class ArchiveKind {
  exported_program,  // torch.export.save
  compiled,          // AOTInductor: a library without its graph
  saved_objects,     // torch.save
  script,            // torch.jit.save
  other
};

struct ArchiveEntry {
  std::string name;
  std::uint64_t header = 0, stored = 0, size = 0;
  std::uint16_t flags = 0, method = 0;
};

class Archive {
 public:
  // Reads the table of contents alone.
  static Result<Archive> open(std::unique_ptr<ByteSource> source);

  ArchiveKind kind() const;
  const std::vector<ArchiveEntry>& entries() const { return entries_; }

  // Entries of the exported program by their role; empty where the archive has none.
  Result<std::string> program() const;         // the graph, as JSON
  Result<std::string> weights_config() const;  // which weights share a file, as JSON
  bool has_data(std::string_view weight_file) const;

 private:
  Result<std::string> read(const ArchiveEntry& entry, std::uint64_t limit) const;
  Result<std::string> read_only_one(const std::vector<const ArchiveEntry*>& found,
                                    std::uint64_t limit) const;

  std::shared_ptr<const ByteSource> source_;
  std::vector<ArchiveEntry> entries_;
};

}  // namespace rooftile::pt2_format
