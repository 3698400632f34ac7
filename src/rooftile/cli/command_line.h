// Words on the command line to a command with its options. Flag texts live in command_line.cpp.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "rooftile/base/run_limits.h"
#include "rooftile/rooftile.h"

namespace rooftile {

// Which networks, on which GPU.
struct InputOptions {
  std::vector<std::string> files;  // "-" is standard input
  std::string gpu, gpu_file;       // one of them, the other empty
  std::string default_gpu;         // where neither is given and no recording tells
  ReadOptions read;
  // What the user fixed, as flag and value, for the report's header.
  std::vector<std::pair<std::string, std::string>> shown;
  // As they were typed, each with a space before it: " --gpu h100 --batch 32".
  std::string flags;
};

struct OutputOptions {
  std::string format = "text";
  std::string color = "auto";  // or always, never
  std::string path;            // empty: standard output
  bool verbose = false;
};

struct RuleChoice {
  std::vector<std::string> select, ignore;  // patterns of rule ids
  bool no_settings = false;                 // neither rooftile.toml nor pyproject.toml
};

struct CheckCommand {
  InputOptions input;
  OutputOptions output;
  RuleChoice rules;
  std::optional<Seconds> budget;
  std::optional<Level> fail_on;          // advice unless the settings say otherwise
  std::string baseline, write_baseline;  // files; empty: none
};

struct FixCommand {
  InputOptions input;
  RuleChoice rules;
  bool write = false;  // else a diff is shown
  bool with_unsafe = false;
};

struct OpsCommand {
  InputOptions input;
  OutputOptions output;
  std::string by = "op";      // or module, annotation, kernel: of traces
  bool with_kernels = false;  // under each operator
};

struct CompareCommand {
  InputOptions input;  // two files
  OutputOptions output;
};

struct SweepCommand {
  InputOptions input;
  OutputOptions output;
  std::vector<std::int64_t> batches, sequences;  // ascending; no sequences: those of the input
};

struct TuneCommand {
  InputOptions input;  // one file
  OutputOptions output;
  double parameters = 0.02;    // how far the count may move, as a share
  std::int64_t multiple = 64;  // of widths
  std::vector<std::pair<std::string, std::int64_t>> fixed;
};

struct DiffCommand {
  std::string before, after;
  OutputOptions output;
};

struct SummarizeCommand {
  std::vector<std::string> files;
  OutputOptions output;
};

// Everything after the word run; the Python package reads it.
struct RunCommand {
  std::vector<std::string> words;
};

struct ExplainCommand {
  std::string rule;
  OutputOptions output;
};

struct RulesCommand {
  OutputOptions output;
};

struct GpusCommand {
  std::string name;  // empty: all
  OutputOptions output;
};

// One of three: calibrate from timings, measure this GPU, or measure a workload on it.
struct MeasureCommand {
  InputOptions input;       // the GPU; files only with --workload
  std::string points;       // a count, quick, full, or a file of timings
  std::string sweep;        // empty: the calibration plan
  std::string device_file;  // where the GPU file goes
  Seconds budget{60};       // for measuring
  bool workload = false;    // measure the files' operations …
  bool verify = false;      // … and what their findings promise
};

// --help and --version: text to print, nothing to do.
struct ShowCommand {
  std::string text;
};

using Command = std::variant<CheckCommand, FixCommand, OpsCommand, CompareCommand, SweepCommand,
                             TuneCommand, DiffCommand, SummarizeCommand, MeasureCommand, RunCommand,
                             ExplainCommand, RulesCommand, GpusCommand, ShowCommand>;

struct CommandLine {
  Command command;
  RunLimits limits;
};

// Errors name the flag and what it takes, in one line.
Result<CommandLine> parse_command_line(int argc, const char* const* argv);

}  // namespace rooftile
