#include "rooftile/readers/kineto/capture_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "rooftile/aten/program.h"
#include "rooftile/base/inflater.h"
#include "rooftile/base/text.h"
#include "rooftile/formats/kineto/json_values.h"
#include "rooftile/formats/kineto/kineto_stream.h"
#include "rooftile/readers/kineto/arguments.h"
#include "rooftile/readers/kineto/kineto_reader.h"
#include "rooftile/readers/reader.h"
#include "rooftile/workload/precision.h"
#include "rooftile/workload/validate.h"

namespace rooftile {
namespace {

constexpr std::string_view kMark = "\"rooftileCapture\"";
constexpr std::int64_t kVersion = 1;
constexpr std::size_t kMostCalls = std::size_t{1} << 20U;
constexpr std::size_t kMostTensors = std::size_t{1} << 22U;  // alive at one time
constexpr std::size_t kMostNotes = 16, kLongestNote = 400;
constexpr std::size_t kMostValues = 64;    // that one operator reads or writes
constexpr std::size_t kMostResults = 256;  // of one operator

std::string text_in(std::string_view value) { return decoded(unquoted(value)); }

std::optional<std::int64_t> size_in(std::string_view value) {
  const auto number = integer_in(value);
  return number && *number >= 0 && to_double(*number) <= kMaxElements ? number : std::nullopt;
}

// What stands before the events.
struct Header {
  std::optional<std::int64_t> version, parameters, weight_bytes, batch;
  std::string mode, optimizer_kind;
  std::string model;
  bool in_memory = false;  // of a program that hands over its model, and asks for no file
  bool allow_tf32 = false;
  std::int64_t optimized = 0, untouched = 0;  // parameters; of rows without a gradient
  double state_per_parameter = 0;
  std::vector<std::string> notes;
  std::string first_host_read;
  std::int64_t host_reads = 0;

  void read(std::string_view object) {
    each_member(object, [&](std::string_view key, std::string_view value) {
      if (key == "version") version = integer_in(value);
      if (key == "parameters") parameters = size_in(value);
      if (key == "weight_bytes") weight_bytes = size_in(value);
      if (key == "batch") batch = size_in(value);
      if (key == "mode") mode = text_in(value);
      if (key == "model") model = text_in(value);
      if (key == "in_memory") in_memory = value == "true";
      if (key == "allow_tf32") allow_tf32 = value == "true";
      if (key == "optimizer") read_optimizer(value);
      if (key == "notes") read_notes(value);
      if (key == "host_reads") read_host_reads(value);
    });
  }

 private:
  void read_optimizer(std::string_view object) {
    each_member(object, [&](std::string_view key, std::string_view value) {
      if (key == "kind") optimizer_kind = text_in(value);
      if (key == "parameters") optimized = size_in(value).value_or(0);
      if (key == "untouched") untouched = size_in(value).value_or(0);
      if (key == "state_per_parameter") {
        const double state = std::strtod(std::string(value.substr(0, 32)).c_str(), nullptr);
        state_per_parameter = state >= 0 && state <= 16 ? state : 0;
      }
    });
  }

  void read_notes(std::string_view list) {
    each_element(list, [&](std::string_view value) {
      if (notes.size() < kMostNotes) notes.push_back(text_in(value.substr(0, kLongestNote)));
    });
  }

  void read_host_reads(std::string_view object) {
    each_member(object, [&](std::string_view place, std::string_view count) {
      if (first_host_read.empty()) first_host_read = decoded(place.substr(0, kLongestNote));
      const auto times = size_in(count).value_or(0);
      host_reads = std::min(host_reads + std::min(times, kMaxSize), kMaxSize);
    });
  }
};

// Follows the allocations of a pass.
class LiveTensors {
 public:
  void change(const KnownArgs& args, std::string_view address, bool backward) {
    const auto id = integer_in(address);
    const auto bytes = integer_in(args.bytes);
    if (!id || !bytes || std::abs(to_double(*bytes)) > kMaxElements) return;
    if (*bytes < 0) return release(*id);
    if (tensors_.size() >= kMostTensors) return;
    const auto [at, is_new] = tensors_.try_emplace(*id, Tensor{rounded(*bytes), backward});
    if (is_new) live_ += at->second.bytes;
    peak_ = std::max(peak_, live_);
  }

  // Gradients of weights are what the backward pass makes and leaves.
  PassMemory memory() const {
    PassMemory memory;
    for (const auto& [id, tensor] : tensors_) {
      if (tensor.backward) memory.gradients += tensor.bytes;
    }
    memory.activations = std::max(0.0, peak_ - memory.gradients);
    return memory;
  }

 private:
  struct Tensor {
    double bytes = 0;
    bool backward = false;
  };

  // Of PyTorch's caching allocator.
  static double rounded(std::int64_t bytes) {
    constexpr double kBlock = 512;
    return std::ceil(to_double(bytes) / kBlock) * kBlock;
  }

  void release(std::int64_t id) {
    const auto found = tensors_.find(id);
    if (found == tensors_.end()) return;
    live_ -= found->second.bytes;
    tensors_.erase(found);
  }

  std::unordered_map<std::int64_t, Tensor> tensors_;
  double live_ = 0, peak_ = 0;
};

std::vector<std::string> names_in(std::string_view list) {
  std::vector<std::string> names;
  each_element(list, [&](std::string_view value) {
    if (names.size() < kMostValues) names.push_back(text_in(value));
  });
  return names;
}

// "model.py:12"
void read_place(std::string_view value, Provenance& source) {
  const std::string text = text_in(value);
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return;
  source.file = text.substr(0, colon);
  source.line = size_in(std::string_view(text).substr(colon + 1)).value_or(0);
}

class CaptureVisitor final : public KinetoVisitor {
 public:
  void on_member(std::string_view key, std::string_view value) override {
    if (key != "rooftileCapture") return;
    is_capture_ = true;
    header_.read(value);
  }

  void on_event(const KinetoEvent& event) override {
    if (unquoted(event.name) == "[memory]") return add_memory(event);
    if (unquoted(event.category) != "cpu_op") {
      ++skipped_["events of other categories"];
      return;
    }
    if (calls_++ >= kMostCalls) {
      ++skipped_["operators beyond 1048576"];
      return;
    }
    add_call(event, known_args(event));
  }

  Result<Workload> workload(const std::string& file, const SkippedRecords& skipped);

 private:
  void add_memory(const KinetoEvent& event) {
    const KnownArgs args = known_args(event);
    for (const JsonMember& member : event.args) {
      if (member.key == "Addr") live_.change(args, member.value, began_backward_);
    }
  }

  void add_call(const KinetoEvent& event, const KnownArgs& args);
  void add_optimizer(const std::string& file, Workload& workload) const;

  Header header_;
  AtenProgram program_;
  std::size_t calls_ = 0;
  LiveTensors live_;
  bool is_capture_ = false, began_backward_ = false;
  std::map<std::string, std::int64_t> skipped_;
};

// "aten::addmm"
void read_operator(std::string_view event_name, AtenCall& call) {
  constexpr std::string_view kBetween = "::";
  const std::string name = text_in(event_name);
  const std::size_t between = name.find(kBetween);
  if (between != std::string::npos) call.library = name.substr(0, between);
  call.name = between == std::string::npos ? name : name.substr(between + kBetween.size());
}

std::vector<AtenValue> arguments_in(const KnownArgs& args) {
  OpArguments recorded = op_arguments_in(args);
  std::vector<AtenValue> values(recorded.types.size());
  recorded.dims.resize(values.size());
  recorded.strides.resize(values.size());
  recorded.values.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = {std::move(recorded.dims[i]), std::move(recorded.strides[i]),
                 std::move(recorded.types[i]), std::move(recorded.values[i])};
  }
  return values;
}

// A result's dims or strides, one list for each.
void read_extents(std::string_view lists, std::vector<AtenValue>& results,
                  Extents AtenValue::*member) {
  std::size_t at = 0;
  each_element(lists, [&](std::string_view numbers) {
    if (at >= kMostResults) return;
    if (at == results.size()) results.emplace_back();
    Extents& extents = results[at++].*member;
    each_element(numbers, [&](std::string_view number) {
      if (extents.size() < kMostValues) extents.push_back(size_in(number).value_or(0));
    });
  });
}

void read_result_types(std::string_view list, std::vector<AtenValue>& results) {
  std::size_t at = 0;
  each_element(list, [&](std::string_view type) {
    if (at >= kMostResults) return;
    if (at == results.size()) results.emplace_back();
    results[at++].type = text_in(type);
  });
}

void mark_weights(std::string_view positions, std::vector<AtenValue>& arguments) {
  each_element(positions, [&](std::string_view number) {
    const auto at = integer_in(number);
    if (at && *at >= 0 && *at < std::ssize(arguments)) {
      arguments[static_cast<std::size_t>(*at)].is_weight = true;
    }
  });
}

void CaptureVisitor::add_call(const KinetoEvent& event, const KnownArgs& args) {
  AtenCall call;
  read_operator(event.name, call);
  call.arguments = arguments_in(args);
  call.sequence = integer_in(args.sequence).value_or(-1);
  call.source.module = text_in(args.module);
  for (const JsonMember& member : event.args) {
    if (member.key == "Phase") call.backward = unquoted(member.value) == "backward";
    if (member.key == "Source") read_place(member.value, call.source);
    if (member.key == "Reads") call.reads = names_in(member.value);
    if (member.key == "Writes") call.writes = names_in(member.value);
    if (member.key == "Weights") mark_weights(member.value, call.arguments);
    if (member.key == "Output type") read_result_types(member.value, call.results);
    if (member.key == "Output Dims") read_extents(member.value, call.results, &AtenValue::dims);
    if (member.key == "Output Strides") {
      read_extents(member.value, call.results, &AtenValue::strides);
    }
  }
  began_backward_ = began_backward_ || call.backward;
  program_.add(std::move(call));
}

void CaptureVisitor::add_optimizer(const std::string& file, Workload& workload) const {
  if (header_.optimized < 1 || header_.optimized > kMaxSize) return;
  Op step;
  step.name = "optimizer";
  OptimizerKind kind = OptimizerKind::adamw;
  if (header_.optimizer_kind == "sgd") kind = OptimizerKind::sgd;
  if (header_.optimizer_kind == "momentum") kind = OptimizerKind::momentum;
  if (header_.optimizer_kind == "adam") kind = OptimizerKind::adam;
  if (header_.optimizer_kind == "adafactor") kind = OptimizerKind::adafactor;
  step.body = OptimizerStep{kind, std::max<std::int64_t>(header_.optimized - header_.untouched, 1)};
  step.phase = Phase::optimizer;
  step.source.file = file;
  workload.ops.push_back(std::move(step));
}

// What torch.backends.cuda.matmul.allow_tf32 changes.
void run_products_in_tf32(std::vector<Op>& ops) {
  for (Op& op : ops) {
    const bool is_product = std::holds_alternative<Gemm>(op.body);
    if (is_product && op.dtypes.input == Dtype::fp32) run_in(Dtype::tf32, op);
  }
}

Result<Workload> CaptureVisitor::workload(const std::string& file, const SkippedRecords& skipped) {
  if (!is_capture_ || !header_.version) {
    return fail("a capture without its header: expected rooftileCapture with a version", file);
  }
  if (*header_.version != kVersion) {
    return fail(fmt::format("a capture of version {}: this Rooftile reads version {}; write it "
                            "again with the Python package of the same release",
                            *header_.version, kVersion),
                file);
  }
  const bool trains = header_.mode == "train";
  Workload workload;
  const bool has_name = header_.in_memory && !header_.model.empty();
  workload.sources = {has_name ? header_.model : file};
  workload.mode = trains ? Mode::training : Mode::inference;
  workload.parameters = header_.parameters;
  if (header_.batch.value_or(0) > 0) workload.batch = header_.batch;
  workload.ops = program_.take_ops();
  if (header_.allow_tf32) run_products_in_tf32(workload.ops);
  if (workload.ops.empty()) return fail("a capture without an operator that is known", file);
  if (trains) add_optimizer(workload.sources.front(), workload);
  workload.skipped = program_.skipped();
  for (const auto& [name, count] : skipped_) workload.skipped[name] += count;
  for (const auto& [name, count] : skipped) workload.skipped[name] += count;
  workload.notes = header_.notes;
  if (header_.host_reads > 0) {
    workload.notes.push_back(fmt::format(
        "the program reads {} value{} of the GPU, first at {}: each makes the CPU wait until the "
        "GPU has done all before it",
        header_.host_reads, header_.host_reads == 1 ? "" : "s", header_.first_host_read));
  }
  if (!header_.weight_bytes) return workload;
  const auto weights = to_double(*header_.weight_bytes);
  workload.weight_bytes = weights;
  workload.pass_memory = live_.memory();
  const auto parameters = to_double(header_.parameters.value_or(0));
  if (trains && parameters > 0) {
    workload.pass_memory->optimizer =
        to_double(header_.optimized) * header_.state_per_parameter * weights / parameters;
  }
  return workload;
}

Result<Workload> read_capture(const std::string& path, const ReadOptions& options) {
  const auto bytes = ByteStream::open(path, options.progress);
  if (!bytes) return tl::unexpected(bytes.error());
  return read_capture_bytes(**bytes, path);
}

}  // namespace

bool is_capture(std::string_view path, std::string_view head) {
  if (is_gzip(head)) {
    const auto inside = read_text_head(std::string(path), kTextHeadBytes);
    return inside && contains(*inside, kMark);
  }
  return trim(head).starts_with('{') && contains(head, kMark);
}

Result<Workload> read_capture_bytes(ByteStream& bytes, const std::string& file) {
  CaptureVisitor visitor;
  const Result<SkippedRecords> skipped = read_kineto_stream(bytes, visitor);
  if (!skipped) return fail(skipped.error().message, file);
  return visitor.workload(file, *skipped);
}

extern const Reader capture_reader{
    .name = "capture", .recognises = is_capture, .read = read_capture, .reads_beside_others = true};

}  // namespace rooftile
