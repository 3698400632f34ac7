// The command line: parse, run, write.
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <new>
#include <string>
#include <system_error>
#include <variant>

#include "rooftile/base/descriptor.h"
#include "rooftile/base/run_limits.h"
#include "rooftile/base/text.h"
#include "rooftile/cli/command_line.h"
#include "rooftile/cli/commands.h"
#include "rooftile/cli/output.h"

// Memory that is freed goes back at once: reading and analysing a trace peak at different times.
extern "C" {
// NOLINTNEXTLINE(readability-identifier-naming): jemalloc's name
extern const char* const malloc_conf;
const char* const malloc_conf = "dirty_decay_ms:0";
}

namespace rooftile {
namespace {

std::string output_path(const Command& command) {
  return std::visit(
      [](const auto& options) -> std::string {
        if constexpr (requires { options.output; }) return options.output.path;
        return "";
      },
      command);
}

std::string output_color(const Command& command) {
  return std::visit(
      [](const auto& options) -> std::string {
        if constexpr (requires { options.output; }) return options.output.color;
        return "auto";
      },
      command);
}

std::vector<std::string> input_files(const Command& command) {
  return std::visit(
      [](const auto& options) -> std::vector<std::string> {
        if constexpr (requires { options.input.files; }) return options.input.files;
        return {};
      },
      command);
}

// A slip of the finger must not cost a script or a model.
Result<void> require_no_input(const std::string& output, const std::vector<std::string>& inputs) {
  std::error_code ignored;
  for (const std::string& input : inputs) {
    if (std::filesystem::equivalent(output, input, ignored)) {
      return fail("is an input; name another file to write to", output);
    }
  }
  const bool is_source = output.ends_with(".py") || output.ends_with(".ipynb");
  if (is_source && std::filesystem::exists(output, ignored)) {
    return fail("is a script that exists; name another file to write to", output);
  }
  return {};
}

Result<Outcome> run_command(const Command& command) {
  const TextStyle style = output_style(output_path(command), output_color(command));
  return std::visit(
      [&](const auto& options) -> Result<Outcome> {
        if constexpr (requires { options.text; }) {
          return Outcome{options.text};
        } else {
          return run(options, style);
        }
      },
      command);
}

// A closed or full standard error changes neither the result nor the exit code.
void write_remarks(std::string_view text) { static_cast<void>(write_all(STDERR_FILENO, text)); }

// The process ends here: a stage that does not end cannot be asked to.
[[noreturn]] void give_up(const std::string& why) {
  write_remarks("rooftile: " + why + '\n');
  _exit(static_cast<int>(ExitCode::error));
}

Result<Outcome> run_within(const RunLimits& limits, const Command& command) {
  const RunWatch watch(limits, give_up);
  return run_command(command);
}

Result<ExitCode> run_words(int argc, const char* const* argv) {
  const auto line = parse_command_line(argc, argv);
  if (!line) return tl::unexpected(line.error());
  const Command& command = line->command;
  const auto apart = require_no_input(output_path(command), input_files(command));
  if (!apart) return tl::unexpected(apart.error());
  const auto outcome = run_within(line->limits, command);
  if (!outcome) return tl::unexpected(outcome.error());
  const auto written = write_output(output_path(command), outcome->text);
  if (!written) return tl::unexpected(written.error());
  write_remarks(outcome->remarks);
  return outcome->code;
}

// A file name is one line, whatever it holds; a message may have lines of instructions.
int report_error(const Error& error) {
  std::string text = "rooftile: ";
  if (!error.where.empty()) text += printable(error.where) + ": ";
  for (const std::string_view line : split(error.message, '\n')) text += printable(line) + '\n';
  write_remarks(text);
  return static_cast<int>(ExitCode::error);
}

}  // namespace
}  // namespace rooftile

int main(int argc, char** argv) {
  using rooftile::report_error;
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is then an error of write()
  try {
    const auto code = rooftile::run_words(argc, argv);
    return code ? static_cast<int>(*code) : report_error(code.error());
  } catch (const std::bad_alloc&) {
    return report_error({"not enough memory", ""});
  } catch (const std::exception& error) {
    return report_error({error.what(), ""});
  }
}
