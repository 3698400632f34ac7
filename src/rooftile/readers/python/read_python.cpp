#include "rooftile/readers/python/read_python.h"

#include <atomic>
#include <mutex>

#include "rooftile/base/run_limits.h"
#include "rooftile/readers/python/commands.h"
#include "rooftile/readers/python/derive.h"
#include "rooftile/readers/python/hydra.h"
#include "rooftile/readers/python/inference.h"
#include "rooftile/readers/python/missing_modules.h"
#include "rooftile/readers/python/settings.h"
#include "rooftile/readers/python/source_files.h"
#include "rooftile/readers/python/torch_version.h"
#include "rooftile/script/reach/unused.h"

namespace rooftile {
namespace source {
namespace {

// Of the facts of all files; those of a large repository need a third of it.
constexpr std::size_t kMaxFactBytes = std::size_t{1} << 30U;
constexpr std::size_t kLargeFile = std::size_t{1} << 18U;

// Files within the memory that all may take together. A large file's syntax tree can need some
// hundred times its size, so there is one of them at a time.
std::vector<ParsedFile> parse_all(std::vector<Candidate>& candidates,
                                  std::vector<std::unique_ptr<FactsMemory>>& memory) {
  std::vector<ParsedFile> parsed(candidates.size());
  std::atomic<std::size_t> used{0};
  std::mutex large;
  run_parallel(candidates.size(), [&](std::size_t i, std::size_t thread) {
    if (!candidates[i].relevant) return;
    if (!scripts_must_end().empty()) {
      parsed[i].problem = scripts_must_end();
      return;
    }
    if (used > kMaxFactBytes) {
      parsed[i].problem = "is left out: the files before it need all memory that scripts may take";
      return;
    }
    FactsMemory& own = *memory[thread];
    const std::size_t before = own.bytes();
    std::unique_lock<std::mutex> alone(large, std::defer_lock);
    if (candidates[i].bytes.size() > kLargeFile) alone.lock();
    parsed[i] = parse_file(std::move(candidates[i]), own);
    used += own.bytes() - before;
  });
  return parsed;
}

// Code that no program runs calls nothing.
void leave_unused_callers_out(SourceFacts& facts) {
  for (const auto& file : facts.files) {
    for (const FunctionDef* function : file->functions) {
      std::erase_if(const_cast<FunctionDef*>(function)->callers, [&](const Call* caller) {
        return stands_in_unused(facts, *caller->statement);
      });
    }
  }
}

// Without options no further file is looked for.
Result<SourceFacts> build(std::vector<Candidate> candidates, const PythonOptions* options) {
  SourceFacts facts;
  std::vector<std::unique_ptr<FactsMemory>>& memory = facts.store().memory;
  for (std::size_t i = 0; i < threads_for(candidates.size()); ++i) {
    memory.push_back(std::make_unique<FactsMemory>());
  }
  std::vector<ParsedFile> parsed = parse_all(candidates, memory);
  std::vector<ParsedFile> configurations;
  if (options != nullptr) configurations = read_configurations(parsed, *options, *memory.front());
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const std::string& problem =
        parsed[i].problem.empty() ? candidates[i].problem : parsed[i].problem;
    if (parsed[i].file != nullptr) {
      parsed[i].file->number = static_cast<std::uint32_t>(facts.files.size());
      parsed[i].file->is_for_gpu = options != nullptr && (options->on_gpu || candidates[i].named);
      facts.files.push_back(std::move(parsed[i].file));
    } else if (!problem.empty()) {
      if (candidates[i].named) return fail(problem, candidates[i].path);
      facts.skipped.push_back({candidates[i].path, problem});
    } else {
      facts.not_relevant.push_back(candidates[i].path);
    }
  }
  for (ParsedFile& each : configurations) {
    each.file->is_configuration = true;
    each.file->number =
        static_cast<std::uint32_t>(facts.files.size() + facts.store().configurations.size());
    facts.store().configurations.push_back(std::move(each.file));
  }
  Inference(facts).run();
  follow_unpacked_arguments(facts);
  add_bound_arguments(facts);
  follow_dynamic_imports(facts);
  follow_names_in_texts(facts);
  link_dynamic_calls(facts);
  find_test_files(facts);
  index_calls(facts);
  find_loop_roles(facts);
  find_layers(facts);
  find_programs(facts);
  if (options != nullptr) {
    read_commands(facts);
    read_settings(facts);
    note_missing_modules(facts);
  }
  leave_unused_callers_out(facts);
  facts.store().is_complete = true;
  return facts;
}

}  // namespace
}  // namespace source

Result<std::string> read_script(const std::string& path, const PythonOptions& options) {
  return source::read_bytes(path, options);
}

Result<SourceFacts> read_python(std::span<const std::string> paths, const PythonOptions& options) {
  Result<std::vector<source::Candidate>> candidates = source::find_candidates(paths, options);
  if (!candidates) return tl::unexpected(candidates.error());
  source::read_candidates(*candidates, options);
  source::add_related(*candidates);
  source::leave_out_tests(*candidates);
  Result<SourceFacts> facts = source::build(std::move(*candidates), &options);
  if (facts) facts->least_torch = source::torch_version_of(paths);
  return facts;
}

Result<SourceFacts> read_python_text(std::string_view path, std::string_view bytes) {
  const std::pair<std::string, std::string> one{path, bytes};
  return read_python_texts(std::span(&one, 1));
}

Result<SourceFacts> read_python_texts(
    std::span<const std::pair<std::string, std::string>> path_and_bytes) {
  std::vector<source::Candidate> candidates;
  for (const auto& [path, bytes] : path_and_bytes) {
    source::Candidate candidate;
    candidate.path = path;
    candidate.module = source::module_name(path);
    candidate.named = true;
    candidate.relevant = true;
    candidate.bytes = bytes;
    candidates.push_back(std::move(candidate));
  }
  return source::build(std::move(candidates), nullptr);
}

}  // namespace rooftile
