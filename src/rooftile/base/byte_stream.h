// The bytes of a large file, plain or gzip, one block after another.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "rooftile/base/result.h"

namespace rooftile {

// Bytes of the file that are read so far, and all of them.
using ReadProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

// Reads and decompresses a few blocks ahead in a thread of its own. Gzip is recognised by its first
// bytes; several members follow one another as in one file.
class ByteStream {
 public:
  static Result<std::unique_ptr<ByteStream>> open(const std::string& path,
                                                  const ReadProgress& progress = {});
  virtual ~ByteStream() = default;

  // The next bytes, up to 1 MiB, valid until the next call; empty at the end.
  virtual std::string_view next() = 0;
  // After the end: what is missing, as "gzip data is cut short"; empty when all is there.
  virtual const std::string& problem() const = 0;
};

// The same interface over bytes in memory, in blocks of the given size, for tests.
std::unique_ptr<ByteStream> stream_of(std::string_view bytes, std::size_t block_size);

// The first bytes, decompressed where the file is gzip, at most `limit` of them.
Result<std::string> read_text_head(const std::string& path, std::size_t limit);

}  // namespace rooftile
