// From files to one workload: the readers, the analysis of recordings, the wanted precision and
// mode.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <system_error>
#include <utility>

#include "rooftile/analysis/trace/measured_workload.h"
#include "rooftile/analysis/trace/summarize.h"
#include "rooftile/readers/python/read_python.h"
#include "rooftile/rooftile.h"
#include "rooftile/workload/source_facts.h"
#include "rooftile/workload/timeline.h"
#include "rooftile/workload/trace_summary.h"
#include "rooftile/workload/training.h"

namespace rooftile {
namespace {

bool is_float(Dtype dtype) {
  return dtype == Dtype::fp64 || dtype == Dtype::fp32 || dtype == Dtype::tf32 ||
         dtype == Dtype::fp16 || dtype == Dtype::bf16;
}

// The precision of everything that is neither a product nor stored in the asked one: TF32 exists
// only inside products, and 8- and 4-bit products sit in a network of 16-bit activations.
Dtype activation_dtype(Dtype asked) {
  switch (asked) {
    case Dtype::tf32:
      return Dtype::fp32;
    case Dtype::fp8:
    case Dtype::fp4:
    case Dtype::int8:
    case Dtype::int4:
      return Dtype::bf16;
    default:
      return asked;
  }
}

void run_in(Dtype dtype, Op& op) {
  if (op.phase == Phase::optimizer || std::holds_alternative<Cast>(op.body)) return;
  const Dtype operand = is_matrix_op(op) && !std::holds_alternative<Attention>(op.body)
                            ? dtype
                            : activation_dtype(dtype);
  if (is_float(op.dtypes.input)) op.dtypes.input = operand;
  if (is_float(op.dtypes.weight)) op.dtypes.weight = operand;
  if (is_float(op.dtypes.output)) {
    op.dtypes.output = dtype == Dtype::tf32 ? operand : activation_dtype(dtype);
  }
}

// Values of different files must not meet by name: a rule would see an edge that is not there.
void rename_values(Workload& workload, std::size_t file) {
  const std::string prefix = fmt::format("{}#", file);
  for (Op& op : workload.ops) {
    for (std::string& value : op.inputs) value.insert(0, prefix);
    for (std::string& value : op.outputs) value.insert(0, prefix);
  }
}

template <class T>
void append(std::vector<T>& to, std::vector<T>&& from) {
  std::move(from.begin(), from.end(), std::back_inserter(to));
}

void append(Workload& to, Workload&& from) {
  if (to.sources.empty() && to.ops.empty()) return void(to = std::move(from));
  const double parameters = count_parameters(to) + count_parameters(from);
  constexpr double kLargest = 9e18;
  to.parameters = static_cast<std::int64_t>(std::min(parameters, kLargest));
  append(to.ops, std::move(from.ops));
  append(to.sources, std::move(from.sources));
  append(to.notes, std::move(from.notes));
  for (const auto& [name, count] : from.skipped) to.skipped[name] += count;
}

// The recordings of a workload, with the operations measured in all of them.
Workload with_operations(const TraceList& traces) {
  return measured_workload({traces.begin(), traces.end()});
}

Result<void> add_scripts(const std::vector<std::string>& paths, const ReadOptions& options,
                         Workload& workload) {
  Result<source::SourceFacts> facts =
      read_python(paths, {options.exclude, options.exclude_root, {}});
  if (!facts) return tl::unexpected(facts.error());
  for (const source::SkippedFile& file : facts->skipped) ++workload.skipped[file.reason];
  workload.sources.insert(workload.sources.end(), paths.begin(), paths.end());
  workload.source = std::make_shared<const source::SourceFacts>(std::move(*facts));
  return {};
}

}  // namespace

bool is_script(const std::string& path) {
  std::error_code ignored;
  return path.ends_with(".py") || path.ends_with(".ipynb") ||
         std::filesystem::is_directory(path, ignored);
}

Result<Workload> read(const std::string& path, const ReadOptions& options) {
  Result<Input> input = read_input(path, options);
  if (!input) return tl::unexpected(input.error());
  if (input->timeline) return measured_workload({summarize(*input->timeline)});
  Workload workload = std::move(input->workload);
  if (!workload.traces.empty()) return with_operations(workload.traces);
  if (options.dtype) {
    for (Op& op : workload.ops) run_in(*options.dtype, op);
  }
  if (options.mode == Mode::training) workload = derive_training(std::move(workload));
  return workload;
}

Result<Workload> read_all(std::span<const std::string> paths, const ReadOptions& options) {
  Workload models;
  TraceList traces;
  std::vector<std::string> scripts;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (is_script(paths[i])) {
      scripts.push_back(paths[i]);
      continue;
    }
    Result<Workload> next = read(paths[i], options);
    if (!next) return next;
    if (!next->traces.empty()) {
      traces.append(next->traces);
      continue;
    }
    if (i > 0) rename_values(*next, i);
    append(models, std::move(*next));
  }
  Workload whole = traces.empty()       ? std::move(models)
                   : models.ops.empty() ? with_operations(traces)
                                        : join_model(with_operations(traces), models);
  if (scripts.empty()) return whole;
  const Result<void> read_scripts = add_scripts(scripts, options, whole);
  if (!read_scripts) return tl::unexpected(read_scripts.error());
  return whole;
}

}  // namespace rooftile
