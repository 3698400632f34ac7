// rooftile ops: the operations of a network with their work, traffic and time.
#include "rooftile/cli/commands.h"
#include "rooftile/cli/inputs.h"

namespace rooftile {
namespace {

OpsRows rows_of(const std::string& by) {
  if (by == "module") return OpsRows::module;
  if (by == "annotation") return OpsRows::annotation;
  return by == "kernel" ? OpsRows::kernel : OpsRows::op;
}

// Why a table of a trace would be empty.
std::optional<Error> nothing_to_show(const Workload& workload, const OpsCommand& command) {
  const std::string flag = "--by " + command.by;
  if (command.by == "op") return std::nullopt;
  if (workload.traces.empty()) return Error{"needs a trace; a model has operations only", flag};
  const TraceSummary& trace = workload.traces.front();
  if (command.by == "module" && trace.modules.empty()) {
    return Error{
        "the trace names no modules: record it with with_stack=True, or look at --by "
        "annotation",
        flag};
  }
  if (command.by == "annotation" && trace.annotations.empty()) {
    return Error{
        "the trace holds no ranges of the program: add torch.profiler.record_function or NVTX "
        "ranges",
        flag};
  }
  if (command.by == "kernel" && trace.kernels == 0) return Error{"the trace holds no kernel", flag};
  return std::nullopt;
}

Error nothing_to_list(const Workload& workload, const std::string& input) {
  if (workload.source) {
    return {"scripts hold no operations: expected a model or a recording", input};
  }
  std::string message = "found no operation of known shape";
  for (const std::string& note : workload.notes) message += "; " + note;
  return {message, input};
}

}  // namespace

Result<Outcome> run(const OpsCommand& command, const TextStyle& style) {
  const auto subject = read_subject(command.input);
  if (!subject) return tl::unexpected(subject.error());
  if (subject->workload.traces.empty() && subject->workload.ops.empty()) {
    return tl::unexpected(nothing_to_list(subject->workload, command.input.files.front()));
  }
  if (!subject->device) return fail(subject->workload.notes.back(), "--gpu");

  if (const auto error = nothing_to_show(subject->workload, command)) {
    return tl::unexpected(*error);
  }
  Report report = list_operations(subject->workload, *subject->device);
  report.options = command.input.shown;
  const OpsRows rows = rows_of(command.by);
  if (command.output.format == "csv") return Outcome{render_ops_csv(report, rows)};
  if (command.output.format == "json") return Outcome{render_ops_json(report)};
  return Outcome{render_ops_text(report, style, {rows, command.with_kernels})};
}

}  // namespace rooftile
