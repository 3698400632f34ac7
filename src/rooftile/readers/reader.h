// Readers turn a file into a workload.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/result.h"
#include "rooftile/workload/timeline.h"
#include "rooftile/workload/workload.h"

namespace rooftile {

namespace source {
class SourceFacts;
}

// What the user says about dimensions and precision that a file leaves open.
struct ReadOptions {
  std::optional<std::int64_t> batch, seq;
  std::optional<std::int64_t> past;          // --past: positions in the cache of a decode step
  std::map<std::string, std::int64_t> dims;  // --dim NAME=VALUE
  std::map<std::string, Extents> shapes;     // --shape INPUT=1x3x224x224
  std::optional<Dtype> dtype;                // --dtype: floating-point operations run in this one
  Mode mode = Mode::inference;
  // Of scripts: files found in folders that are left out, by patterns as in a .gitignore, one a
  // line, relative to the folder `exclude_root`.
  std::string exclude, exclude_root;
  bool on_gpu = false;  // of scripts: the user names a GPU, so open devices are one
  // Bytes of the file read so far, and in all; called now and then while a large file is read.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;
  // Captures the model that a library of Python builds from a config.json or a name
  // ("timm:resnet50"), in the precision and mode of the options. The error says why not. Empty:
  // nothing is built.
  std::function<Result<Workload>(const std::string& target, const ReadOptions& options)> build;
  // Useful work for the time while another process reads; a reader without one does not call it.
  std::function<void()> meanwhile;
};

// What a file holds: a workload, or recordings that are still to be analysed, one per process.
struct Input {
  Workload workload;
  std::vector<Timeline> timelines;  // none: it is a workload
};

struct Reader {
  std::string_view name;  // "onnx"
  // Whether the first bytes (up to 4 KiB) or the file name look like this format.
  bool (*recognises)(std::string_view path, std::string_view head);
  // `path` may be "-" for standard input where the format is text.
  Result<Workload> (*read)(const std::string& path, const ReadOptions& options) = nullptr;
  // Of recordings, in the place of `read`.
  Result<std::vector<Timeline>> (*record)(const std::string& path,
                                          const ReadOptions& options) = nullptr;
  // Of scripts, in the place of `read`: all paths of a run together, folders among them, since
  // scripts call one another. Recognised by name alone.
  Result<source::SourceFacts> (*read_together)(std::span<const std::string> paths,
                                               const ReadOptions& options) = nullptr;
  // The sizes it takes from the options, as flags; formats without state all of theirs.
  std::string_view takes = {};
  // Whether several files may be read at once. A reader that starts a process of its own must be
  // alone: a copy of a process has only one of its threads.
  bool reads_beside_others = false;
  // Why --mode decode is refused, and what to do; empty where it is read.
  std::string_view instead_of_decode =
      "a decode step is derived from a config.json only; write the operations of the step, as "
      "'attention a bf16 batch=16 heads=32 kv_heads=8 q=1 kv=4097 d=128', and leave out --mode";
};

// In the order in which they are asked.
std::span<const Reader* const> all_readers();

// That of scripts, where the path is one or a folder; else null.
const Reader* script_reader(const std::string& path);

// In the place of a path, "gemm a bf16 m=1 n=2 k=3" is read itself, if there is no such file. A
// file no reader knows is refused by what it is ("a JPEG image").
Result<const Reader*> find_reader(const std::string& path);

// Reads with the reader that was found for the path.
Result<Input> read_input(const Reader& reader, const std::string& path, const ReadOptions& options);

// Both in one.
Result<Input> read_input(const std::string& path, const ReadOptions& options);

}  // namespace rooftile
