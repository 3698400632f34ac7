#include "rooftile/analysis/source/tutorials.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"

namespace rooftile::source {
namespace {

// Where the head of a function or class ends; 0 for other statements.
std::uint32_t end_of_head(const Statement& statement) {
  const auto body = statement.class_def != nullptr      ? statement.class_def->body
                    : statement.function_def != nullptr ? statement.function_def->body
                                                        : std::span<const Statement* const>{};
  return body.empty() ? 0 : body.front()->range.begin;
}

// Whether the file names MNIST outside of its documentation and the help of its options; one that
// is only imported, also outside of imports and heads of functions and classes.
bool loads_mnist(const File& file) {
  if (!mentions(file, {"MNIST", "mnist", "FashionMNIST", "KMNIST", "EMNIST", "QMNIST"})) {
    return false;
  }
  std::string code = code_of(file);
  for (const Statement* statement : file.statements) {
    if (file.is_entry) break;
    const bool is_import =
        statement->kind == StatementKind::import_ || last_name(statement->target) == "__all__";
    const std::uint32_t begin = statement->range.begin;
    const std::uint32_t end = is_import ? statement->range.end : end_of_head(*statement);
    if (end > begin) std::fill(code.begin() + begin, code.begin() + end, ' ');
  }
  for (const Call* call : file.calls) {
    if (!is_one_of(call->method, {"ArgumentParser", "add_argument", "parser"})) continue;
    for (const Argument& argument : call->arguments) {
      const bool is_text = is_one_of(argument.name, {"description", "help", "epilog"});
      if (!is_text || argument.followed) continue;
      std::fill(code.begin() + argument.range.begin, code.begin() + argument.range.end, ' ');
    }
  }
  return contains_any(code, {"MNIST", "mnist"});
}

// The option `--dataset` in one of its spellings, or any that has MNIST in its list to choose from;
// `--data` may be a folder, unless it has such a list.
bool names_dataset(const SourceFacts& facts, const Call& option) {
  const Argument* choices = option.argument("choices");
  const std::string listed =
      choices == nullptr ? std::string() : lower(option.file->slice(choices->range));
  return std::ranges::any_of(option.arguments, [&](const Argument& argument) {
    if (!argument.name.empty() || argument.unpacked) return false;
    const Value flag = facts.value(argument.value);
    if (flag.kind != ValueKind::text) return false;
    return is_one_of(flag.text, {"--dataset", "--dataset_name", "--dataset-name", "--dset"}) ||
           (flag.text == "--data" && choices != nullptr) || contains_any(listed, {"mnist"});
  });
}

// An option that picks the data, whose default is something else or which has to be given.
bool picks_other_data(const SourceFacts& facts, const Program& program) {
  if (program.entry == nullptr) return false;
  std::vector<const Call*> options = facts.method_calls("add_argument");
  std::stable_partition(options.begin(), options.end(),
                        [&](const Call* call) { return call->file == program.entry; });
  for (const Call* call : options) {
    if (call->arguments.empty() || !program.has(*call->file)) continue;
    if (!names_dataset(facts, *call)) continue;
    const Value chosen = facts.argument(*call, "default");
    if (chosen.absent()) return true;
    return chosen.kind == ValueKind::text && lower(chosen.text).find("mnist") == std::string::npos;
  }
  return false;
}

}  // namespace

bool is_lesson(const SourceFacts& facts, const File& file) {
  const auto programs = training_programs_of(facts, file);
  return !programs.empty() && std::ranges::all_of(programs, [&](const Program* program) {
    return is_tutorial(facts, *program);
  });
}

bool is_tutorial(const SourceFacts& facts, const Program& program) {
  return std::any_of(program.files.begin(), program.files.end(),
                     [](const File* file) { return loads_mnist(*file); }) &&
         !picks_other_data(facts, program);
}

}  // namespace rooftile::source
