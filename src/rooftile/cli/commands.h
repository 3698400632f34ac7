// What each subcommand does: options in, text and exit code out. One source file each.
#pragma once

#include <span>
#include <string>

#include "rooftile/base/result.h"
#include "rooftile/cli/command_line.h"

namespace rooftile {

enum class ExitCode { clean = 0, findings = 1, error = 2 };

struct Outcome {
  std::string text;  // for the output
  ExitCode code = ExitCode::clean;
  std::string remarks = {};  // lines for standard error
};

Result<Outcome> run(const CheckCommand& command, const TextStyle& style);
Result<Outcome> run(const FixCommand& command, const TextStyle& style);
Result<Outcome> run(const OpsCommand& command, const TextStyle& style);
Result<Outcome> run(const CompareCommand& command, const TextStyle& style);
Result<Outcome> run(const SweepCommand& command, const TextStyle& style);
Result<Outcome> run(const TuneCommand& command, const TextStyle& style);
Result<Outcome> run(const DiffCommand& command, const TextStyle& style);
Result<Outcome> run(const SummarizeCommand& command, const TextStyle& style);
Result<Outcome> run(const MeasureCommand& command, const TextStyle& style);
// Returns only when it fails: else the script takes the process over.
Result<Outcome> run(const RunCommand& command, const TextStyle& style);
Result<Outcome> run(const ExplainCommand& command, const TextStyle& style);
Result<Outcome> run(const RulesCommand& command, const TextStyle& style);
Result<Outcome> run(const GpusCommand& command, const TextStyle& style);

// A row for each rule: id, level and what it finds.
std::string rules_text(std::span<const Rule* const> rules, const TextStyle& style);

}  // namespace rooftile
