// rooftile sweep and rooftile tune: one network at many batches, or of many sizes.
#include "rooftile/cli/commands.h"
#include "rooftile/cli/inputs.h"
#include "rooftile/cli/progress_bar.h"

namespace rooftile {
namespace {

// A request that is run with a bar, and the forms of what it finds.
template <class Request, class Found>
struct Search {
  Result<Found> (*run)(const Request&, const Device&);
  std::string_view unit;  // what is counted meanwhile
  std::string (*text)(const Found&, const TextStyle&);
  std::string (*csv)(const Found&);
  std::string (*json)(const Found&);
};

template <class Request, class Found>
Result<Found> run_with_bar(const Search<Request, Found>& search, Request request,
                           const Device& device) {
  ProgressBar bar;
  request.progress = [&](std::uint64_t done, std::uint64_t total) {
    bar.show_items(search.unit, done, total);
  };
  return search.run(request, device);
}

template <class Request, class Found>
Result<Outcome> run(const Search<Request, Found>& search, Request request,
                    const InputOptions& input, const OutputOptions& output,
                    const TextStyle& style) {
  const auto device = pick_device(input);
  if (!device) return tl::unexpected(device.error());
  Result<Found> found = run_with_bar(search, std::move(request), *device);
  if (!found) return tl::unexpected(found.error());
  found->options = input.shown;
  if (output.format == "csv") return Outcome{search.csv(*found)};
  if (output.format == "json") return Outcome{search.json(*found)};
  return Outcome{search.text(*found, style)};
}

}  // namespace

Result<Outcome> run(const SweepCommand& command, const TextStyle& style) {
  const Search<SweepRequest, Sweep> search{sweep, "batches", render_sweep_text, render_sweep_csv,
                                           render_sweep_json};
  const InputOptions& input = command.input;
  return run(search, {input.files, input.read, command.batches, command.sequences, {}}, input,
             command.output, style);
}

Result<Outcome> run(const TuneCommand& command, const TextStyle& style) {
  const Search<TuneRequest, Tuning> search{tune, "shapes", render_tuning_text, render_tuning_csv,
                                           render_tuning_json};
  const InputOptions& input = command.input;
  return run(
      search,
      {input.files.front(), input.read, command.parameters, command.multiple, command.fixed, {}},
      input, command.output, style);
}

}  // namespace rooftile
