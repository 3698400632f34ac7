#include "rooftile/readers/python/source_files.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>

#include "rooftile/base/file.h"
#include "rooftile/base/parallel.h"
#include "rooftile/base/run_limits.h"
#include "rooftile/base/text.h"
#include "rooftile/formats/python/folder.h"
#include "rooftile/formats/python/notebook.h"
#include "rooftile/formats/python/source_text.h"
#include "rooftile/readers/python/lower.h"

namespace rooftile::source {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxNotebookBytes = std::size_t{64} << 20U;  // with its pictures
constexpr std::size_t kMaxHeldBytes = std::size_t{256} << 20U;     // of all files
constexpr std::size_t kMaxThreads = 32;

// A folder that is a package itself counts from its parent: `import package.models` works there.
fs::path import_root(fs::path folder) {
  std::error_code error;
  while (fs::exists(folder / "__init__.py", error) && folder.has_relative_path() &&
         folder.parent_path() != folder) {
    folder = folder.parent_path();
  }
  return folder;
}

void add_candidate(const std::string& path, const fs::path& root, bool named,
                   std::vector<Candidate>& all) {
  Candidate candidate;
  candidate.path = path;
  candidate.named = named;
  candidate.module =
      module_name(fs::path(path).lexically_normal().lexically_relative(root).string());
  all.push_back(std::move(candidate));
}

fs::path common_folder(std::span<const std::string> paths) {
  fs::path common;
  bool first = true;
  std::error_code error;
  for (const std::string& path : paths) {
    const fs::path normal = fs::path(path).lexically_normal();
    fs::path folder = fs::is_directory(path, error) ? normal : normal.parent_path();
    if (folder.empty()) folder = ".";
    if (first) common = folder;
    first = false;
    while (!common.empty() && folder.lexically_relative(common).string().starts_with("..")) {
      const fs::path above = common.parent_path();
      if (above == common) break;
      common = above;
    }
  }
  return common.empty() ? fs::path(".") : common;
}

// Files that the user's patterns leave out, or that lie in a folder that they leave out.
class Excluded {
 public:
  explicit Excluded(const PythonOptions& options) : rules_(options.exclude) {
    std::error_code error;
    is_empty_ = options.exclude.empty();
    const fs::path root = options.exclude_root.empty() ? "." : options.exclude_root;
    root_ = fs::weakly_canonical(root, error);
  }

  bool contains(const std::string& path) const {
    if (is_empty_) return false;
    std::error_code error;
    const fs::path below = fs::weakly_canonical(path, error).lexically_relative(root_);
    if (error || below.empty() || *below.begin() == "..") return false;
    fs::path folder;
    for (const fs::path& part : below) {
      folder /= part;
      const bool is_folder = folder != below;
      if (rules_.judge(folder.string(), is_folder) == python::IgnoreRules::Verdict::ignored) {
        return true;
      }
    }
    return false;
  }

 private:
  python::IgnoreRules rules_;
  bool is_empty_ = true;
  fs::path root_;
};

}  // namespace

bool is_project_root(const fs::path& folder) {
  constexpr const char* kMarks[] = {".git",     "LICENSE",   "README.md",    "pyproject.toml",
                                    "setup.py", "setup.cfg", "rooftile.toml"};
  return std::ranges::any_of(kMarks, [&](const char* mark) {
    std::error_code ignored;
    return fs::exists(folder / mark, ignored);
  });
}

std::vector<fs::path> project_folders(const fs::path& folder) {
  constexpr std::size_t kMostFoldersUp = 8;
  constexpr std::size_t kMostWithoutRepository = 5;  // an archive that was unpacked somewhere
  std::vector<fs::path> folders;
  std::error_code ignored;
  std::size_t marked = 1;
  for (fs::path at = folder; folders.size() < kMostFoldersUp; at = at.parent_path()) {
    folders.push_back(at);
    if (fs::exists(at / ".git", ignored)) return folders;
    if (folders.size() <= kMostWithoutRepository && is_project_root(at)) marked = folders.size();
    if (at == at.parent_path()) break;
  }
  folders.resize(marked);
  return folders;
}

bool lies_in(const fs::path& folder, const fs::path& file) {
  std::error_code error;
  const fs::path below = fs::weakly_canonical(file, error).lexically_relative(folder);
  return !error && !below.empty() && *below.begin() != "..";
}

// "package/models/net.py" below the root: "package.models.net".
std::string module_name(const std::string& path) {
  const fs::path relative(path);
  std::string name;
  for (const fs::path& part : relative.parent_path()) {
    if (part == "." || part == "..") continue;
    std::string word = part.string();
    std::ranges::replace(word, '.', '_');
    name += word + ".";
  }
  const std::string stem = relative.stem().string();
  if (stem != "__init__") return name + stem;
  if (!name.empty()) name.pop_back();
  return name.empty() ? "__init__" : name;
}

Result<std::vector<Candidate>> find_candidates(std::span<const std::string> paths,
                                               const PythonOptions& options) {
  std::vector<Candidate> all;
  const Excluded excluded(options);
  const fs::path common = import_root(common_folder(paths));
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      add_candidate(path, common, true, all);
      continue;
    }
    const Result<python::FolderFiles> found = python::python_files(path);
    if (!found) return tl::unexpected(found.error());
    for (const std::string& file : found->files) {
      if (!excluded.contains(file)) add_candidate(file, common, false, all);
    }
    for (const python::LeftOut& each : found->left_out) {
      if (excluded.contains(each.path)) continue;
      add_candidate(each.path, common, false, all);
      all.back().problem = each.reason;
    }
  }
  std::ranges::stable_sort(all, {}, &Candidate::path);
  const auto same = [](const Candidate& a, const Candidate& b) { return a.path == b.path; };
  all.erase(std::unique(all.begin(), all.end(), same), all.end());
  return all;
}

std::size_t threads_for(std::size_t count) {
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  return std::min({cores, kMaxThreads, count / 8 + 1});
}

void run_parallel(std::size_t count,
                  const std::function<void(std::size_t i, std::size_t thread)>& work) {
  std::atomic<std::size_t> next{0};
  in_threads(threads_for(count), [&](std::size_t thread) {
    for (std::size_t i = next++; i < count; i = next++) work(i, thread);
  });
}

Result<std::string> read_bytes(const std::string& path, const PythonOptions& options) {
  const auto given = options.contents.find(path);
  if (given != options.contents.end()) return given->second;
  return read_file(path, is_notebook(path) ? kMaxNotebookBytes : python::kMaxSourceBytes);
}

void read_candidates(std::vector<Candidate>& candidates, const PythonOptions& options) {
  std::atomic<std::size_t> held{0};
  run_parallel(candidates.size(), [&](std::size_t i, std::size_t) {
    Candidate& candidate = candidates[i];
    if (candidate.problem.empty()) candidate.problem = scripts_must_end();
    if (!candidate.problem.empty()) return;
    Result<std::string> bytes = read_bytes(candidate.path, options);
    if (!bytes) {
      candidate.problem = bytes.error().message;
      return;
    }
    candidate.relevant = python::mentions_training(*bytes);
    if (!candidate.relevant && is_notebook(candidate.path)) return;
    if (held += bytes->size(); held > kMaxHeldBytes) {
      candidate.relevant = false;
      candidate.problem = "is left out: the files before it are too large together";
      return;
    }
    candidate.bytes = std::move(*bytes);
  });
}

ParsedFile parse_file(Candidate&& candidate, FactsMemory& memory) {
  ParsedFile parsed;
  auto file = std::make_unique<File>();
  file->path = candidate.path;
  file->module = candidate.module;
  file->is_notebook = is_notebook(candidate.path);
  std::string bytes = std::move(candidate.bytes);
  if (file->is_notebook) {
    Result<python::Notebook> notebook = python::read_notebook(bytes);
    if (!notebook) {
      parsed.problem = notebook.error().message;
      return parsed;
    }
    bytes = std::move(notebook->text);
    for (const python::NotebookCell& cell : notebook->cells) {
      file->cells.push_back({cell.number, cell.first_line, {cell.begin, cell.end}});
    }
  }
  Result<std::string> text = python::clean_text(std::move(bytes));
  if (!text) {
    parsed.problem = text.error().message;
    return parsed;
  }
  file->text = std::move(*text);
  const Result<python::SyntaxTree> tree = python::parse_python(file->text);
  if (!tree) {
    parsed.problem = tree.error().message;
    return parsed;
  }
  file->line_starts = python::line_starts(file->text);
  lower_tree(*tree, *file, memory);
  parsed.file = std::move(file);
  return parsed;
}

}  // namespace rooftile::source
