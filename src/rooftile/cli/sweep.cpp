// rooftile sweep: a network at several batches.
#include "rooftile/cli/commands.h"
#include "rooftile/cli/inputs.h"
#include "rooftile/cli/progress_bar.h"

namespace rooftile {
namespace {

Result<Sweep> sweep_with_bar(SweepRequest request, const Device& device) {
  ProgressBar bar;
  request.progress = [&bar](std::uint64_t done, std::uint64_t total) {
    bar.show_items("batches", done, total);
  };
  return sweep(request, device);
}

}  // namespace

Result<Outcome> run(const SweepCommand& command, const TextStyle& style) {
  const auto device = pick_device(command.input);
  if (!device) return tl::unexpected(device.error());
  Result<Sweep> result = sweep_with_bar(
      {command.input.files, command.input.read, command.batches, command.sequences, {}}, *device);
  if (!result) return tl::unexpected(result.error());
  result->options = command.input.shown;
  if (command.output.format == "csv") return Outcome{render_sweep_csv(*result)};
  if (command.output.format == "json") return Outcome{render_sweep_json(*result)};
  return Outcome{render_sweep_text(*result, style)};
}

}  // namespace rooftile
