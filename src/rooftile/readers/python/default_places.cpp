// Where tensors are that a script makes without a device, for inference.h.
#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "rooftile/base/text.h"
#include "rooftile/readers/python/inference.h"

namespace rooftile::source {

// torch.set_default_tensor_type("torch.cuda.FloatTensor"), torch.set_default_device("cuda"): what
// is made without a device is there.
void Inference::find_default_places() {
  for (const auto& file : facts_.files) {
    for (const Call* call : file->calls) {
      const bool is_type = call->method == "set_default_tensor_type";
      const bool is_setter = is_type || call->method == "set_default_device";
      if (!is_setter || call->arguments.empty()) continue;
      const Expr& given = *call->arguments.front().value;
      const std::string_view name =
          given.kind == ExprKind::text ? given.word() : file->slice(given.range);
      const bool is_gpu = is_type ? name.starts_with("torch.cuda.") : !contains(name, "cpu");
      if (is_gpu) default_places_.emplace(file.get(), Residence::gpu);
    }
  }
}

// Of the programs with such a file, but for what a training without it runs too. Stays open where a
// module is loaded by a name: it may be any.
void Inference::find_files_with_default_place() {
  with_default_place_.reset();
  if (default_places_.empty()) return;
  FileSet loading, training;
  std::unordered_set<const File*> imported;
  for (const auto& file : facts_.files) {
    if (contains_any(file->text, {"import_module(", "__import__("})) loading.insert(*file);
    if (contains_any(file->text, {"backward("})) training.insert(*file);
    imported.insert(file->imported.begin(), file->imported.end());
  }
  FileSet found;
  std::vector<FileSet> without;
  for (const auto& file : facts_.files) {
    FileSet reached;
    std::vector<const File*> pending{file.get()};
    bool has_place = false, is_open = false, trains = false;
    while (!pending.empty()) {
      const File* next = pending.back();
      pending.pop_back();
      if (!reached.insert(*next)) continue;
      has_place = has_place || default_places_.contains(next);
      is_open = is_open || loading.contains(*next);
      trains = trains || training.contains(*next);
      pending.insert(pending.end(), next->imported.begin(), next->imported.end());
    }
    if (has_place && is_open) return;
    if (has_place) found.add(reached);
    const bool runs_training = trains && !imported.contains(file.get()) &&
                               contains_any(file->text, {"backward(", " train("});
    if (!has_place && runs_training) without.push_back(reached);
  }
  with_default_place_.emplace();
  for (const auto& file : facts_.files) {
    const bool is_shared = std::ranges::any_of(
        without, [&](const FileSet& program) { return program.contains(*file); });
    if (found.contains(*file) && !is_shared) with_default_place_->insert(*file);
  }
}

}  // namespace rooftile::source
