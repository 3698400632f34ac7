// The neutral form: what every reader produces and every analysis reads.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/workload/op.h"

namespace rooftile {

struct TraceSummary;
namespace source {
class SourceFacts;
}

// decode: one new token for each sequence, whose past is in the cache.
enum class Mode { inference, training, decode };
inline constexpr std::array<std::string_view, 3> kModeNames{"inference", "training", "decode"};

// Who runs a graph as it is listed: eager PyTorch, one kernel per operation, or a runtime that
// fuses and folds when it loads the file. none: not read from an ONNX file.
enum class GraphKind { none, pytorch, runtime };
inline constexpr std::array<std::string_view, 3> kGraphKindNames{"none", "pytorch", "runtime"};

// Summaries that never change, shared by the copies of a workload; what reads them includes
// trace_summary.h.
class TraceList {
 public:
  TraceList() = default;
  explicit TraceList(std::vector<TraceSummary> traces);

  const TraceSummary* begin() const;
  const TraceSummary* end() const;
  const TraceSummary& front() const { return *begin(); }  // not of an empty list
  std::size_t size() const;
  bool empty() const { return size() == 0; }
  // Adds those of another list behind.
  void append(const TraceList& more);

  bool operator==(const TraceList& other) const;

 private:
  std::shared_ptr<const std::vector<TraceSummary>> traces_;
};

// What a pass holds in memory beside the weights and what the optimizer keeps, as it was recorded.
// In bytes, each tensor as the allocator rounds it.
struct PassMemory {
  double gradients = 0;    // of the weights
  double activations = 0;  // the most that was there at one time beside the gradients
  double optimizer = 0;    // state of the optimizer

  bool operator==(const PassMemory&) const = default;
};

struct Workload {
  std::vector<Op> ops;
  Mode mode = Mode::inference;
  GraphKind graph = GraphKind::none;
  std::optional<std::int64_t> parameters;  // of the whole model, where the reader knows
  // Samples in one pass and positions of each, where the reader knows; when decoding, the positions
  // in the cache.
  std::optional<std::int64_t> batch, sequence;
  // What a decoder keeps of all sequences, in bytes over all layers: keys and values of `sequence`
  // positions, and the states of recurrent layers (Mamba, linear attention) of whatever length.
  std::optional<double> kv_cache_bytes, recurrent_state_bytes;
  // All weights as they are stored, where they have several precisions and not all of them run.
  std::optional<double> weight_bytes;
  // Of a recorded pass; empty where memory follows from the operations.
  std::optional<PassMemory> pass_memory;
  std::vector<std::string> sources;             // files or "-" it was read from
  std::map<std::string, std::int64_t> skipped;  // what was left out: name -> count
  std::vector<std::string> notes;               // assumptions, in words
  // Flags of the user's that no input had a use for: "--seq", "--dim tokens".
  std::vector<std::string> unused_options;
  // Recordings that the operations were measured in, one per rank; empty for models and text.
  TraceList traces;
  // What training scripts among the inputs say; null where no script was given.
  std::shared_ptr<const source::SourceFacts> source;

  bool operator==(const Workload&) const = default;

  // Whether it keeps something of its positions for the next ones.
  bool generates() const { return kv_cache_bytes || recurrent_state_bytes; }
  // Whether the tensors lie in memory as their operations say. ONNX orders dims only: a model in
  // channels_last is exported as NCHW.
  bool layouts_known() const { return graph == GraphKind::none; }
};

// Whether a record skipped under this name stands for work on the GPU; shapes and constants are
// computed beforehand.
bool is_missing_work(std::string_view skipped_name);

// Parameters of the model: the reader's number, else the sum over its forward operations.
double count_parameters(const Workload& workload);

}  // namespace rooftile
