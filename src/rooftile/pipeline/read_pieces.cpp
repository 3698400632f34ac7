// Each path with its reader: models in the wanted precision and mode, recordings analysed.
#include "rooftile/pipeline/read_pieces.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "rooftile/analysis/trace/summarize.h"
#include "rooftile/base/parallel.h"
#include "rooftile/base/text.h"
#include "rooftile/readers/reader.h"
#include "rooftile/workload/precision.h"
#include "rooftile/workload/timeline.h"
#include "rooftile/workload/training.h"

namespace rooftile {
namespace {

// Sizes that the format or this input does not take; a recording keeps its precision and mode too.
std::vector<std::string> unused_flags(const Piece& piece, std::string_view takes,
                                      const ReadOptions& options) {
  std::vector<std::string> unused = piece.model.unused_options;
  for (const std::string& flag : given_flags(options)) {
    const bool is_size = flag != "--dtype" && flag != "--mode";
    const bool taken =
        is_size ? contains(takes, flag.substr(0, flag.find(' '))) : piece.traces.empty();
    if (!taken) unused.push_back(flag);
  }
  return unused;
}

Result<Piece> read_kind(const Reader& reader, const std::string& path, const ReadOptions& options) {
  Result<Input> input = read_input(reader, path, options);
  if (!input) return tl::unexpected(input.error());
  Piece piece;
  for (Timeline& timeline : input->timelines) {
    piece.traces.push_back(summarize(timeline));
    timeline = {};  // all that is large
  }
  if (!piece.traces.empty()) return piece;
  Workload& workload = input->workload;
  piece.traces.assign(workload.traces.begin(), workload.traces.end());
  if (!piece.traces.empty()) return piece;
  piece.model = in_wanted_form(std::move(workload), options);
  return piece;
}

Result<Piece> read_piece(const Reader& reader, const std::string& path,
                         const ReadOptions& options) {
  Result<Piece> piece = read_kind(reader, path, options);
  if (!piece) return piece;
  piece->options = {reader.takes, unused_flags(*piece, reader.takes, options)};
  return piece;
}

// Adds up the bytes that files report from several threads.
class JointProgress {
 public:
  JointProgress(std::span<const std::string> paths, const ReadOptions& options)
      : options_(options), done_(paths.size()), sizes_(paths.size()) {
    for (std::size_t i = 0; i < paths.size(); ++i) {
      std::error_code unknown;
      const std::uintmax_t size = std::filesystem::file_size(paths[i], unknown);
      sizes_[i] = unknown ? 0 : size;
      total_ += sizes_[i];
    }
  }

  ReadOptions options_for(std::size_t file) {
    ReadOptions options = options_;
    if (options_.progress) {
      options.progress = [this, file](std::uint64_t done, std::uint64_t) { set(file, done); };
    }
    return options;
  }
  void finish(std::size_t file) { set(file, sizes_[file]); }

 private:
  void set(std::size_t file, std::uint64_t done) {
    if (!options_.progress) return;
    const std::lock_guard lock(mutex_);
    sum_ += done - done_[file];
    done_[file] = done;
    options_.progress(sum_, total_);
  }

  const ReadOptions& options_;
  std::vector<std::uint64_t> done_, sizes_;
  std::uint64_t sum_ = 0, total_ = 0;
  std::mutex mutex_;
};

// One path of several. Without a reader: a path before it has failed, so it was not looked at.
struct Slot {
  const Reader* reader = nullptr;
  std::optional<Result<Piece>> piece;  // empty: to be read alone
};

// Reads what can be read beside others, on all cores.
class ParallelReading {
 public:
  ParallelReading(std::span<const std::string> paths, JointProgress& progress)
      : paths_(paths), progress_(progress), slots_(paths.size()) {}

  // By path.
  std::vector<Slot> run() {
    const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
    in_threads(std::min(cores, paths_.size()), [this](std::size_t) { read_on(); });
    return std::move(slots_);
  }

 private:
  // Paths are taken in their order, so none before one that fails is left out.
  void read_on() {
    while (!failed_) {
      const std::size_t i = next_++;
      if (i >= paths_.size()) return;
      Slot& slot = slots_[i];
      const Result<const Reader*> reader = find_reader(paths_[i]);
      if (!reader) {
        slot.piece.emplace(tl::unexpected(reader.error()));
      } else {
        slot.reader = *reader;
        if (slot.reader->reads_beside_others) {
          slot.piece.emplace(read_piece(*slot.reader, paths_[i], progress_.options_for(i)));
          progress_.finish(i);
        }
      }
      if (slot.piece && !*slot.piece) failed_ = true;
    }
  }

  std::span<const std::string> paths_;
  JointProgress& progress_;
  std::vector<Slot> slots_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<bool> failed_ = false;
};

}  // namespace

std::vector<std::string> given_flags(const ReadOptions& options) {
  std::vector<std::string> flags;
  if (options.batch) flags.emplace_back("--batch");
  if (options.seq) flags.emplace_back("--seq");
  for (const auto& [name, size] : options.dims) flags.push_back("--dim " + name);
  for (const auto& [name, shape] : options.shapes) flags.push_back("--shape " + name);
  if (options.dtype) flags.emplace_back("--dtype");
  if (options.mode != Mode::inference) flags.emplace_back("--mode");
  return flags;
}

Workload in_wanted_form(Workload workload, const ReadOptions& options) {
  if (options.dtype) {
    for (Op& op : workload.ops) run_in(*options.dtype, op);
    workload.weight_bytes.reset();
    workload.pass_memory.reset();
  }
  return options.mode == Mode::training ? derive_training(std::move(workload))
                                        : derive_inference(std::move(workload));
}

Result<std::vector<Piece>> read_pieces(std::span<const std::string> paths,
                                       const ReadOptions& options) {
  JointProgress progress(paths, options);
  std::vector<Slot> slots = ParallelReading(paths, progress).run();
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    std::optional<Result<Piece>>& piece = slots[i].piece;
    if (!piece) {
      piece.emplace(read_piece(*slots[i].reader, paths[i], progress.options_for(i)));
      progress.finish(i);
    }
    if (!*piece) return tl::unexpected(piece->error());
    pieces.push_back(std::move(**piece));
    piece.reset();
  }
  return pieces;
}

}  // namespace rooftile
