#include "rooftile/base/byte_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "rooftile/base/descriptor.h"
#include "rooftile/base/file.h"
#include "rooftile/base/inflater.h"

namespace rooftile {
namespace {

constexpr std::size_t kStreamBlock = std::size_t{1} << 20U;
constexpr std::size_t kStreamPiece = std::size_t{256} << 10U;  // of the file, compressed
constexpr std::size_t kBlocksAhead = 4;

// The file itself; -1 bytes on an error, 0 at the end.
ssize_t read_piece(int file, char* bytes, std::size_t size) {
  ssize_t got = 0;
  do {
    got = ::read(file, bytes, size);
  } while (got < 0 && errno == EINTR);
  return got;
}

// Blocks that one thread fills and another empties.
class BlockQueue {
 public:
  // False when nobody wants more.
  bool push(std::string block) {
    std::unique_lock lock(mutex_);
    await(lock, [&] { return closed_ || blocks_.size() < kBlocksAhead; });
    if (closed_) return false;
    blocks_.push_back(std::move(block));
    changed_.notify_all();
    return true;
  }
  // Gives the emptied block back in exchange; false at the end.
  bool pop(std::string& block) {
    std::unique_lock lock(mutex_);
    await(lock, [&] { return closed_ || !blocks_.empty(); });
    if (!block.empty()) spare_.push_back(std::move(block));
    block.clear();
    if (blocks_.empty()) return false;
    block = std::move(blocks_.front());
    blocks_.pop_front();
    changed_.notify_all();
    return true;
  }
  // An emptied block, or a new one.
  std::string spare() {
    const std::lock_guard lock(mutex_);
    if (spare_.empty()) return std::string(kStreamBlock, '\0');
    std::string block = std::move(spare_.back());
    spare_.pop_back();
    return block;
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  // Not wait(), which alone would bind the program to GCC 12's C++ library.
  template <typename Ready>
  void await(std::unique_lock<std::mutex>& lock, Ready ready) {
    while (!changed_.wait_for(lock, std::chrono::hours(1), ready)) {
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> blocks_;
  std::vector<std::string> spare_;
  bool closed_ = false;
};

class FileStream final : public ByteStream {
 public:
  FileStream(int file, std::uint64_t size, ReadProgress progress)
      : file_(file), size_(size), progress_(std::move(progress)), thread_([this] { fill(); }) {}
  FileStream(const FileStream&) = delete;
  FileStream& operator=(const FileStream&) = delete;
  ~FileStream() override {
    queue_.close();
    thread_.join();
    ::close(file_);
  }

  std::string_view next() override {
    if (!queue_.pop(block_)) return {};
    if (progress_) progress_(done_.load(std::memory_order_relaxed), size_);
    return block_;
  }

  // The queue's lock orders the writer's last store before the end that next() reports.
  const std::string& problem() const override { return problem_; }

 private:
  void fill() {
    try {
      read_all();
    } catch (const std::bad_alloc&) {
      problem_ = "not enough memory to read on";
    }
    queue_.close();
  }

  void read_all() {
    std::string piece(kStreamPiece, '\0');
    const ssize_t got = refill(piece);
    if (got > 0 && is_gzip({piece.data(), static_cast<std::size_t>(got)})) {
      fill_from_gzip(piece, static_cast<std::size_t>(got));
    } else if (got > 0) {
      fill_from_plain(piece, static_cast<std::size_t>(got));
    }
  }

  ssize_t refill(std::string& piece) {
    const ssize_t got = read_piece(file_, piece.data(), piece.size());
    if (got < 0) problem_ = std::string("the file cannot be read on: ") + std::strerror(errno);
    if (got > 0) done_.fetch_add(static_cast<std::uint64_t>(got), std::memory_order_relaxed);
    return got;
  }

  void fill_from_plain(const std::string& first, std::size_t first_size) {
    if (!queue_.push(first.substr(0, first_size))) return;
    for (;;) {
      std::string block = queue_.spare();
      block.resize(kStreamBlock);
      const ssize_t got = refill(block);
      if (got <= 0) return;
      block.resize(static_cast<std::size_t>(got));
      if (!queue_.push(std::move(block))) return;
    }
  }

  void fill_from_gzip(std::string& piece, std::size_t size) {
    Inflater inflater;
    inflater.set_input({piece.data(), size});
    bool more = true;
    while (more && !inflater.stopped()) {
      std::string block = queue_.spare();
      block.resize(kStreamBlock);
      std::size_t filled = 0;
      while (filled < block.size() && !inflater.stopped()) {
        // Output may be pending in the library, so a piece is asked for only when nothing came.
        const std::size_t written =
            inflater.inflate({block.data() + filled, block.size() - filled});
        filled += written;
        if (written > 0 || !inflater.needs_input() || inflater.stopped()) continue;
        const ssize_t got = refill(piece);
        more = got > 0;
        if (!more) break;
        inflater.set_input({piece.data(), static_cast<std::size_t>(got)});
      }
      block.resize(filled);
      if (filled > 0 && !queue_.push(std::move(block))) return;
    }
    if (problem_.empty()) problem_ = inflater.problem();
  }

  int file_;
  std::uint64_t size_;
  ReadProgress progress_;
  std::atomic<std::uint64_t> done_{0};
  std::string problem_;
  BlockQueue queue_;
  std::string block_;
  std::thread thread_;  // last: it uses all of the above
};

class MemoryStream final : public ByteStream {
 public:
  MemoryStream(std::string_view bytes, std::size_t block_size)
      : bytes_(bytes), block_size_(block_size) {}
  std::string_view next() override {
    const std::string_view block = bytes_.substr(0, block_size_);
    bytes_.remove_prefix(block.size());
    return block;
  }
  const std::string& problem() const override { return problem_; }

 private:
  std::string_view bytes_;
  std::size_t block_size_;
  std::string problem_;
};

}  // namespace

Result<std::unique_ptr<ByteStream>> ByteStream::open(const std::string& path,
                                                     const ReadProgress& progress) {
  Result<Descriptor> file = open_regular(path);
  if (!file) return tl::unexpected(file.error());
  struct stat status {};
  if (::fstat(file->get(), &status) != 0) return fail(system_message(errno), path);
  return std::make_unique<FileStream>(file->release(), static_cast<std::uint64_t>(status.st_size),
                                      progress);
}

std::unique_ptr<ByteStream> stream_of(std::string_view bytes, std::size_t block_size) {
  return std::make_unique<MemoryStream>(bytes, block_size);
}

Result<std::string> read_text_head(const std::string& path, std::size_t limit) {
  // Enough of the compressed bytes, whatever the ratio.
  Result<std::string> head = read_head(path, limit + kStreamPiece);
  if (!head) return head;
  if (!is_gzip(*head)) return head->substr(0, limit);
  Inflater inflater;
  inflater.set_input(*head);
  std::string text(limit, '\0');
  std::size_t filled = 0;
  while (filled < limit && !inflater.stopped()) {
    const std::size_t written = inflater.inflate({text.data() + filled, limit - filled});
    filled += written;
    if (written == 0 && inflater.needs_input()) break;
  }
  text.resize(filled);
  return text;
}

}  // namespace rooftile
