// rooftile tune: sizes near a model's own that take less time.
#include "rooftile/cli/commands.h"
#include "rooftile/cli/inputs.h"
#include "rooftile/cli/progress_bar.h"

namespace rooftile {
namespace {

Result<Tuning> tune_with_bar(TuneRequest request, const Device& device) {
  ProgressBar bar;
  request.progress = [&bar](std::uint64_t done, std::uint64_t total) {
    bar.show_items("shapes", done, total);
  };
  return tune(request, device);
}

}  // namespace

Result<Outcome> run(const TuneCommand& command, const TextStyle& style) {
  const auto device = pick_device(command.input);
  if (!device) return tl::unexpected(device.error());
  Result<Tuning> result = tune_with_bar({command.input.files.front(),
                                         command.input.read,
                                         command.parameters,
                                         command.multiple,
                                         command.fixed,
                                         {}},
                                        *device);
  if (!result) return tl::unexpected(result.error());
  result->options = command.input.shown;
  if (command.output.format == "csv") return Outcome{render_tuning_csv(*result)};
  if (command.output.format == "json") return Outcome{render_tuning_json(*result)};
  return Outcome{render_tuning_text(*result, style)};
}

}  // namespace rooftile
