// Finding, reading and parsing the files of a program.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/result.h"
#include "rooftile/readers/python/read_python.h"
#include "rooftile/workload/source_store.h"

namespace rooftile::source {

struct Candidate {
  std::string path;
  std::string module;   // dotted, from the folder layout
  bool named = false;   // given by the user, not found in a folder
  std::string bytes;    // as read
  std::string problem;  // why it is skipped
  bool relevant = false;
};

// The folder and those above it up to the root of its project: the root of its repository, else
// the highest near it that holds what a project has once (a license, a readme, setup.py); without
// one the folder alone.
std::vector<std::filesystem::path> project_folders(const std::filesystem::path& folder);
// Whether the folder holds what a project has once.
bool is_project_root(const std::filesystem::path& folder);
// Whether the file is below the folder, also where links lead: what a text names elsewhere is not
// read.
bool lies_in(const std::filesystem::path& folder, const std::filesystem::path& file);

inline bool is_notebook(std::string_view path) { return path.ends_with(".ipynb"); }
// "package/models/net.py": "package.models.net".
std::string module_name(const std::string& path);

// The files behind the paths, each once, sorted, with their module names.
Result<std::vector<Candidate>> find_candidates(std::span<const std::string> paths,
                                               const PythonOptions& options);

// Bytes of one file within our limits.
Result<std::string> read_bytes(const std::string& path, const PythonOptions& options);
// Reads all, in parallel, and marks what a program could be made of.
void read_candidates(std::vector<Candidate>& candidates, const PythonOptions& options);
// What others import or what imports them, once the first choice is known by its words.
void add_related(std::vector<Candidate>& candidates);
// Tests of a folder that no other file imports change nothing, and nothing is said of them.
void leave_out_tests(std::vector<Candidate>& candidates);

struct ParsedFile {
  std::unique_ptr<File> file;
  std::string problem;
};

ParsedFile parse_file(Candidate&& candidate, FactsMemory& memory);
// Threads that `count` parts of work are worth; 1 at least.
std::size_t threads_for(std::size_t count);
// Runs work(i, thread) for each i below `count` in threads_for(count) threads, counted from 0.
void run_parallel(std::size_t count,
                  const std::function<void(std::size_t i, std::size_t thread)>& work);

}  // namespace rooftile::source
