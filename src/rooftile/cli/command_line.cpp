#include "rooftile/cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>

#include "rooftile/base/text.h"
#include "rooftile/base/version.h"
#include "rooftile/cli/arguments.h"
#include "rooftile/cli/default_limits.h"
#include "rooftile/cli/usage_error.h"

namespace rooftile {
namespace {

constexpr const char* kAbout =
    "Finds what limits a neural network on an NVIDIA GPU and what to change; needs no GPU.";
constexpr const char* kFooter =
    "Exit codes: 0 nothing found, 1 findings (or over the budget, or a diff), 2 bad input or "
    "usage, "
    "or not judged.\n"
    "Example: rooftile check model.onnx --gpu h100 --batch 32";

// As typed; empty: the default.
struct RawLimits {
  std::string time, memory;
};

// Flag values as words; turned into options once CLI11 is done.
struct RawInput {
  std::vector<std::string> dims, shapes;
  std::string batch, seq, past, dtype, mode = "inference";
};

struct Raw {
  bool fix_shows_diff = false;  // the default in any case
  CheckCommand check;
  FixCommand fix;
  OpsCommand ops;
  CompareCommand compare;
  SweepCommand sweep;
  TuneCommand tune;
  DiffCommand diff;
  SummarizeCommand summarize;
  ExplainCommand explain;
  RulesCommand rules;
  GpusCommand gpus;
  MeasureCommand measure;
  RawInput check_input, ops_input, compare_input, sweep_input, tune_input, measure_input;
  std::string measure_budget = "60s", budget, fail_on;
  std::string tune_parameters = "2%", tune_multiple = "64";
  std::vector<std::string> tune_fixed;
  RawLimits limits;
};

// Each occurrence of the flag takes one value, so that files may follow it.
CLI::Option* add_list(CLI::App& app, const std::string& name, std::vector<std::string>& values,
                      const std::string& help, const std::string& value_name) {
  return app.add_option(name, values, help)
      ->option_text(value_name)
      ->allow_extra_args(false)
      ->take_all();
}

void add_gpu_flags(CLI::App& app, InputOptions& input) {
  auto* gpu = app.add_option("--gpu", input.gpu,
                             "target GPU: a name (see `rooftile gpus`), or auto for this machine's")
                  ->option_text("NAME");
  app.add_option("--gpu-file", input.gpu_file, "target GPU from a device file")
      ->option_text("FILE.json")
      ->excludes(gpu);
}

void add_size_flags(CLI::App& app, RawInput& raw) {
  app.add_option("--batch", raw.batch, "batch size")->option_text("N");
  app.add_option("--seq", raw.seq, "sequence length")->option_text("N");
  add_list(app, "--dim", raw.dims, "size of a symbolic dimension (repeatable)", "NAME=VALUE");
  add_list(app, "--shape", raw.shapes, "shape of an input (repeatable)", "INPUT=1x3x224x224");
  app.add_option("--dtype", raw.dtype, "run floating-point ops in this dtype: fp16, bf16, fp8 …")
      ->option_text("DTYPE");
  app.add_option("--mode", raw.mode,
                 "train adds the backward pass and the optimizer; decode is one step of a "
                 "decoder with a cache")
      ->check(CLI::IsMember({"inference", "train", "decode"}))
      ->transform([](const std::string& mode) { return mode == "training" ? "train" : mode; })
      ->option_text("inference|train|decode");
  app.add_option("--past", raw.past, "with --mode decode: positions in the cache")
      ->option_text("N");
}

void add_input_flags(CLI::App& app, InputOptions& input, RawInput& raw) {
  app.add_option(
         "FILE", input.files,
         "ONNX model, .pt2 program, Hugging Face config.json or model folder, trace, Python file "
         "or folder, or workload text; - reads standard input; an inline op, e.g. 'gemm a bf16 m=1 "
         "n=2 k=3'; several inputs are run in sequence")
      ->required()
      ->type_name("");
  add_gpu_flags(app, input);
  add_size_flags(app, raw);
}

void add_output_flags(CLI::App& app, OutputOptions& output,
                      const std::vector<std::string>& formats) {
  app.add_option("--format", output.format, "output format (default: text)")
      ->check(CLI::IsMember(formats))
      ->option_text(join(formats, "|"));
  app.add_option("--color", output.color, "color the text (default: on a terminal)")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->option_text("auto|always|never");
  app.add_option("-o,--output", output.path, "write to FILE (atomically)")->option_text("FILE");
}

void add_rule_flags(CLI::App& app, RuleChoice& rules) {
  add_list(app, "--select", rules.select, "run only these rules, e.g. 'gemm/*' (repeatable)",
           "RULE");
  add_list(app, "--ignore", rules.ignore, "skip these rules (repeatable)", "RULE");
  app.add_flag("--no-config", rules.no_settings, "ignore rooftile.toml and pyproject.toml");
}

void add_limit_flags(CLI::App& app, RawLimits& limits) {
  app.add_option(
         "--max-time", limits.time,
         "end after TIME, with what was read by then (default: by the input, from 10s); none")
      ->option_text("TIME");
  app.add_option("--max-memory", limits.memory,
                 "the same of memory (default: by the input, from 1GiB); none")
      ->option_text("SIZE");
}

void add_check(CLI::App& app, Raw& raw) {
  CLI::App& command = *app.add_subcommand("check", "find what limits a network and what to change");
  add_input_flags(command, raw.check.input, raw.check_input);
  std::vector<std::string> formats;
  for (const ReportFormat* format : report_formats()) formats.emplace_back(format->name);
  add_output_flags(command, raw.check.output, formats);
  command
      .add_option("--fail-on", raw.fail_on, "lowest level that sets exit code 1 (default: advice)")
      ->check(CLI::IsMember({"error", "warning", "advice", "info"}))
      ->option_text("error|warning|advice|info");
  command.add_option("--budget", raw.budget, "fail if expected time exceeds TIME (e.g. 40ms)")
      ->option_text("TIME");
  add_rule_flags(command, raw.check.rules);
  command.add_option("--baseline", raw.check.baseline, "report only findings that are not in FILE")
      ->option_text("FILE");
  command.add_option("--write-baseline", raw.check.write_baseline, "write the findings to FILE")
      ->option_text("FILE");
  command.add_flag("--verbose", raw.check.output.verbose, "show evidence and info findings");
  add_limit_flags(command, raw.limits);
}

void add_fix(CLI::App& app, Raw& raw) {
  CLI::App& command = *app.add_subcommand(
      "fix", "apply the fixes of findings to training scripts (default: show a diff)");
  command.add_option("FILE", raw.fix.input.files, "Python files, or folders of them")
      ->required()
      ->type_name("");
  auto* diff = command.add_flag("--diff", raw.fix_shows_diff,
                                "show the changes without writing them (the default)");
  command.add_flag("--write", raw.fix.write, "write the changes")->excludes(diff);
  command.add_flag("--unsafe", raw.fix.with_unsafe,
                   "include edits that may change what the program computes");
  add_rule_flags(command, raw.fix.rules);
  add_gpu_flags(command, raw.fix.input);
  add_limit_flags(command, raw.limits);
}

void add_ops(CLI::App& app, Raw& raw) {
  CLI::App& command =
      *app.add_subcommand("ops", "one row per operation: work, traffic, time, bound");
  add_input_flags(command, raw.ops.input, raw.ops_input);
  command.add_option("--by", raw.ops.by, "what a row of a trace's table is (default: op)")
      ->check(CLI::IsMember({"op", "module", "annotation", "kernel"}))
      ->option_text("op|module|annotation|kernel");
  command.add_flag("--kernels", raw.ops.with_kernels, "list every kernel of each operator");
  add_output_flags(command, raw.ops.output, {"text", "csv", "json"});
  add_limit_flags(command, raw.limits);
}

void add_compare(CLI::App& app, Raw& raw) {
  CLI::App& command = *app.add_subcommand("compare", "compare two models, workloads or operations");
  command
      .add_option("FILE", raw.compare.input.files,
                  "two inputs, each as for check: a file, a model folder or an inline op")
      ->required()
      ->expected(2)
      ->type_name("FIRST SECOND");
  add_gpu_flags(command, raw.compare.input);
  add_size_flags(command, raw.compare_input);
  add_output_flags(command, raw.compare.output, {"text", "json"});
  command.add_flag("--verbose", raw.compare.output.verbose, "show every changed operation");
  add_limit_flags(command, raw.limits);
}

void describe(CLI::App& command, const std::string& flag, const std::string& help) {
  command.get_option(flag)->option_text("FROM:TO")->description(help);
}

void add_sweep(CLI::App& app, Raw& raw) {
  CLI::App& command = *app.add_subcommand(
      "sweep", "time and memory over the batch: where more samples stop paying");
  add_input_flags(command, raw.sweep.input, raw.sweep_input);
  describe(command, "--batch", "1:512 in powers of two, or 1,3,8; 1:256 unless given");
  describe(command, "--seq", "the same of the sequence length");
  describe(command, "--past", "with --mode decode: the same of the positions in the cache");
  add_output_flags(command, raw.sweep.output, {"text", "csv", "json"});
  add_limit_flags(command, raw.limits);
}

void add_tune(CLI::App& app, Raw& raw) {
  CLI::App& command = *app.add_subcommand(
      "tune", "sizes near a model's own that take less time at about as many parameters");
  command.add_option("FILE", raw.tune.input.files, "Hugging Face config.json")
      ->required()
      ->expected(1)
      ->type_name("");
  add_gpu_flags(command, raw.tune.input);
  add_size_flags(command, raw.tune_input);
  command
      .add_option("--parameters", raw.tune_parameters,
                  "how far their number may move, 2% unless given")
      ->option_text("SHARE");
  command
      .add_option("--multiple-of", raw.tune_multiple,
                  "widths are multiples of this, 64 unless given")
      ->option_text("N");
  add_list(command, "--fix", raw.tune_fixed, "keep this size, as hidden=4096 (repeatable)",
           "SIZE=VALUE");
  add_output_flags(command, raw.tune.output, {"text", "csv", "json"});
  add_limit_flags(command, raw.limits);
}

void add_diff(CLI::App& app, Raw& raw) {
  CLI::App& command = *app.add_subcommand("diff", "compare two traces of a training run");
  command.add_option("BEFORE", raw.diff.before, "trace, Nsight Systems export or summary")
      ->required()
      ->type_name("");
  command.add_option("AFTER", raw.diff.after, "the same for the changed program")
      ->required()
      ->type_name("");
  add_output_flags(command, raw.diff.output, {"text", "json"});
  command.add_flag("--verbose", raw.diff.output.verbose,
                   "show every operator and kernel that changed");
  add_limit_flags(command, raw.limits);
}

void add_summarize(CLI::App& app, Raw& raw) {
  CLI::App& command = *app.add_subcommand(
      "summarize", "reduce traces to a small file, to check many ranks together");
  command.add_option("FILE", raw.summarize.files, "traces or Nsight Systems exports")
      ->required()
      ->type_name("");
  command.add_option("-o,--output", raw.summarize.output.path, "write to FILE (atomically)")
      ->option_text("FILE.summary");
  add_limit_flags(command, raw.limits);
}

void add_measure(CLI::App& app, Raw& raw) {
  CLI::App& command = *app.add_subcommand(
      "measure", "measure this GPU, or calibrate a GPU file from existing timings");
  MeasureCommand& measure = raw.measure;
  add_gpu_flags(command, measure.input);
  command
      .add_option("-o,--output", measure.device_file, "GPU file to write, for later use with --gpu")
      ->option_text("GPU.json");
  command
      .add_option(
          "--points", measure.points,
          "number of GEMMs to measure (quick: 20, full: 200), or a file of timings to calibrate "
          "from without a GPU (default: quick)")
      ->option_text("N|quick|full|FILE.csv");
  command
      .add_option("--sweep", measure.sweep, "measure a sweep instead: alignment, waves, channels …")
      ->option_text("NAME");
  command.add_option("--time", raw.measure_budget, "start no new point after TIME (default: 60s)")
      ->option_text("TIME");
  auto* workload =
      command
          .add_option("--workload", measure.input.files, "measure the operations of this network")
          ->option_text("FILE")
          ->expected(1);
  command
      .add_flag("--verify", measure.verify,
                "with --workload: also measure the change that each finding proposes")
      ->needs(workload);
  add_size_flags(command, raw.measure_input);
}

void add_explain(CLI::App& app, Raw& raw) {
  CLI::App& command =
      *app.add_subcommand("explain", "the documentation of a rule, or the rules of an area");
  command
      .add_option("RULE", raw.explain.rule,
                  "gemm/unaligned-row-stride, unaligned-row-stride, or an area: gemm")
      ->required()
      ->type_name("");
}

void add_lists(CLI::App& app, Raw& raw) {
  add_output_flags(*app.add_subcommand("rules", "list all rules"), raw.rules.output,
                   {"text", "json"});
  CLI::App& gpus =
      *app.add_subcommand("gpus", "list the GPUs that --gpu knows, or all numbers of one");
  gpus.add_option("NAME", raw.gpus.name, "a GPU or MIG slice: h100, rtx_4080, a100_mig_3g_40gb")
      ->type_name("");
  add_output_flags(gpus, raw.gpus.output, {"text", "json"});
}

Error in_flag(std::string_view flag, const Error& error) {
  return {error.message, std::string(flag)};
}

Result<std::optional<std::int64_t>> size_of(std::string_view flag, const std::string& text) {
  if (text.empty()) return std::nullopt;
  const auto size = parse_integer(text);
  if (size && *size >= 1) return size;
  return fail("expected a whole number from 1, found " + rooftile::quoted(text), std::string(flag));
}

Result<void> read_sizes(const RawInput& raw, ReadOptions& options) {
  const auto batch = size_of("--batch", raw.batch);
  if (!batch) return tl::unexpected(batch.error());
  const auto seq = size_of("--seq", raw.seq);
  if (!seq) return tl::unexpected(seq.error());
  const auto past = size_of("--past", raw.past);
  if (!past) return tl::unexpected(past.error());
  options.batch = *batch;
  options.seq = *seq;
  options.past = *past;
  for (const std::string& text : raw.dims) {
    const auto dim = parse_named_size(text);
    if (!dim) return tl::unexpected(in_flag("--dim", dim.error()));
    options.dims[dim->first] = dim->second;
  }
  for (const std::string& text : raw.shapes) {
    const auto shape = parse_named_shape(text);
    if (!shape) return tl::unexpected(in_flag("--shape", shape.error()));
    options.shapes[shape->first] = shape->second;
  }
  return {};
}

Result<std::optional<Dtype>> read_dtype(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const auto dtype = parse_math_dtype(text);
  if (!dtype) return tl::unexpected(in_flag("--dtype", dtype.error()));
  return *dtype;
}

void remember(std::string_view flag, const std::string& value, InputOptions& input) {
  if (!value.empty()) input.shown.emplace_back(flag, value);
}

std::string typed_flags(const RawInput& raw, const InputOptions& input) {
  std::string flags;
  const auto add = [&](std::string_view flag, const std::string& value) {
    if (!value.empty()) flags += fmt::format(" {} {}", flag, shell_word(value));
  };
  add("--gpu", input.gpu);
  add("--gpu-file", input.gpu_file);
  add("--batch", raw.batch);
  add("--seq", raw.seq);
  for (const std::string& dim : raw.dims) add("--dim", dim);
  for (const std::string& shape : raw.shapes) add("--shape", shape);
  add("--past", raw.past);
  add("--dtype", raw.dtype);
  if (raw.mode != RawInput().mode) add("--mode", raw.mode);
  return flags;
}

Mode mode_of(const RawInput& raw) {
  if (raw.mode == "train") return Mode::training;
  return raw.mode == "decode" ? Mode::decode : Mode::inference;
}

// A decode step has one new position and others behind it.
Result<void> check_lengths(const ReadOptions& options) {
  const bool decode = options.mode == Mode::decode;
  if (decode && options.seq) {
    return fail("a decode step has one new token; --past sets the positions in the cache", "--seq");
  }
  if (!decode && options.past) return fail("needs --mode decode", "--past");
  return {};
}

Result<void> finish_input(const RawInput& raw, InputOptions& input) {
  const auto sizes = read_sizes(raw, input.read);
  if (!sizes) return sizes;
  const auto dtype = read_dtype(raw.dtype);
  if (!dtype) return tl::unexpected(dtype.error());
  input.read.dtype = *dtype;
  input.read.mode = mode_of(raw);
  input.read.build = model_builder();
  const auto agree = check_lengths(input.read);
  if (!agree) return agree;
  remember("batch", raw.batch, input);
  remember("seq", raw.seq, input);
  remember("past", raw.past, input);
  for (const auto& [name, size] : input.read.dims) {
    input.shown.emplace_back(name, std::to_string(size));
  }
  for (const std::string& shape : raw.shapes) {
    const std::size_t equals = shape.rfind('=');
    input.shown.emplace_back(shape.substr(0, equals), shape.substr(equals + 1));
  }
  if (*dtype) remember("dtype", std::string(to_string(**dtype)), input);
  input.flags = typed_flags(raw, input);
  return {};
}

Result<Command> finish_check(Raw& raw) {
  const auto input = finish_input(raw.check_input, raw.check.input);
  if (!input) return tl::unexpected(input.error());
  if (!raw.budget.empty()) {
    const auto budget = parse_duration(raw.budget);
    if (!budget) return tl::unexpected(in_flag("--budget", budget.error()));
    raw.check.budget = *budget;
  }
  raw.check.fail_on = parse_level(raw.fail_on);
  return raw.check;
}

// A single length is a fixed one.
Result<Command> finish_sweep(Raw& raw) {
  constexpr const char* kUsualBatches = "1:256";
  RawInput& text = raw.sweep_input;
  const auto batches = parse_sizes(text.batch.empty() ? kUsualBatches : text.batch);
  if (!batches) return tl::unexpected(in_flag("--batch", batches.error()));
  raw.sweep.batches = *batches;
  text.batch.clear();
  const bool decodes = text.mode == "decode";
  std::string& lengths = decodes ? text.past : text.seq;
  if (lengths.find_first_of(":,") != std::string::npos) {
    const auto sequences = parse_sizes(lengths);
    if (!sequences) {
      return tl::unexpected(in_flag(decodes ? "--past" : "--seq", sequences.error()));
    }
    raw.sweep.sequences = *sequences;
    lengths.clear();
  }
  const auto input = finish_input(text, raw.sweep.input);
  if (!input) return tl::unexpected(input.error());
  return raw.sweep;
}

Result<Command> finish_tune(Raw& raw) {
  TuneCommand& tune = raw.tune;
  const auto input = finish_input(raw.tune_input, tune.input);
  if (!input) return tl::unexpected(input.error());
  const auto parameters = parse_share(raw.tune_parameters);
  if (!parameters) return tl::unexpected(in_flag("--parameters", parameters.error()));
  tune.parameters = *parameters;
  const auto multiple = size_of("--multiple-of", raw.tune_multiple);
  if (!multiple) return tl::unexpected(multiple.error());
  tune.multiple = multiple->value_or(tune.multiple);
  for (const std::string& text : raw.tune_fixed) {
    const auto fixed = parse_named_size(text);
    if (!fixed) return tl::unexpected(in_flag("--fix", fixed.error()));
    tune.fixed.push_back(*fixed);
  }
  return tune;
}

Result<Command> finish_measure(Raw& raw) {
  MeasureCommand& measure = raw.measure;
  const auto input = finish_input(raw.measure_input, measure.input);
  if (!input) return tl::unexpected(input.error());
  const auto budget = parse_duration(raw.measure_budget);
  if (!budget) return tl::unexpected(in_flag("--time", budget.error()));
  measure.budget = *budget;
  measure.workload = !measure.input.files.empty();
  if (!measure.workload && measure.device_file.empty()) {
    return fail("-o is missing: the GPU file to write, my_gpu.json for example");
  }
  return measure;
}

Result<Command> finish(const CLI::App& app, Raw& raw) {
  const std::string name = app.get_subcommands().front()->get_name();
  if (name == "check") return finish_check(raw);
  if (name == "compare") {
    const auto input = finish_input(raw.compare_input, raw.compare.input);
    if (!input) return tl::unexpected(input.error());
    return raw.compare;
  }
  if (name == "sweep") return finish_sweep(raw);
  if (name == "tune") return finish_tune(raw);
  if (name == "fix") return raw.fix;
  if (name == "diff") return raw.diff;
  if (name == "summarize") return raw.summarize;
  if (name == "explain") return raw.explain;
  if (name == "rules") return raw.rules;
  if (name == "gpus") return raw.gpus;
  if (name == "measure") return finish_measure(raw);
  const auto input = finish_input(raw.ops_input, raw.ops.input);
  if (!input) return tl::unexpected(input.error());
  return raw.ops;
}

Result<RunLimits> finish_limits(const RawLimits& raw, const Command& command) {
  constexpr std::string_view kNone = "none";
  RunLimits limits = default_limits(command);
  if (raw.time == kNone) {
    limits.time = {};
  } else if (!raw.time.empty()) {
    const auto time = parse_duration(raw.time);
    if (!time) return tl::unexpected(in_flag("--max-time", time.error()));
    limits.time = std::chrono::milliseconds(
        std::max<std::int64_t>(1, std::llround(1e3 * std::min(time->value(), 1e9))));
  }
  if (raw.memory == kNone) {
    limits.memory_bytes = 0;
  } else if (!raw.memory.empty()) {
    const auto memory = parse_memory(raw.memory);
    if (!memory) return tl::unexpected(in_flag("--max-memory", memory.error()));
    limits.memory_bytes = *memory;
  }
  return limits;
}

}  // namespace

Result<CommandLine> parse_command_line(int argc, const char* const* argv) {
  // The words belong to a script: nothing here may take one of them for its own.
  if (argc > 1 && std::string_view(argv[1]) == "run")
    return CommandLine{RunCommand{{argv + 2, argv + argc}}, {}};
  CLI::App app(kAbout, "rooftile");
  app.footer(kFooter);
  app.set_version_flag("--version", "rooftile " + std::string(kVersion));
  app.require_subcommand(1);
  app.get_formatter()->column_width(36);
  Raw raw;
  add_check(app, raw);
  add_fix(app, raw);
  add_ops(app, raw);
  add_compare(app, raw);
  add_sweep(app, raw);
  add_tune(app, raw);
  add_diff(app, raw);
  add_summarize(app, raw);
  add_measure(app, raw);
  app.add_subcommand("run", "run a training script with a recorder, and check what it recorded");
  add_explain(app, raw);
  add_lists(app, raw);
  try {
    app.parse(argc, argv);
    Result<Command> command = finish(app, raw);
    if (!command) return tl::unexpected(command.error());
    const Result<RunLimits> limits = finish_limits(raw.limits, *command);
    if (!limits) return tl::unexpected(limits.error());
    return CommandLine{std::move(*command), *limits};
  } catch (const CLI::CallForHelp&) {
    std::string text = app.help();
    if (!text.ends_with('\n')) text += '\n';
    return CommandLine{ShowCommand{text}, {}};
  } catch (const CLI::CallForVersion& version) {
    return CommandLine{ShowCommand{std::string(version.what()) + '\n'}, {}};
  } catch (const CLI::ParseError& error) {
    return tl::unexpected(usage_error(app, error));
  }
}

}  // namespace rooftile
