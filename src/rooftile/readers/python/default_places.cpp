// Where tensors are that a script makes without a device, for inference.h.
#include <string_view>
#include <vector>

#include "rooftile/base/text.h"
#include "rooftile/readers/python/inference.h"

namespace rooftile::source {
namespace {

struct FileMarks {
  FileSet loading, training, imported, placed;  // placed: they set a default place

  void see(const File& file) {
    if (contains_any(file.text, {"import_module(", "__import__("})) loading.insert(file);
    if (contains_any(file.text, {"backward("})) training.insert(file);
    for (const File* one : file.imported) imported.insert(*one);
  }
};

// A file with all that it imports.
struct Reach {
  FileSet files;
  bool is_placed = false, loads_by_name = false, trains = false;
};

Reach reach_of(const File& file, const FileMarks& marks) {
  Reach reach;
  std::vector<const File*> pending{&file};
  while (!pending.empty()) {
    const File& next = *pending.back();
    pending.pop_back();
    if (!reach.files.insert(next)) continue;
    reach.is_placed = reach.is_placed || marks.placed.contains(next);
    reach.loads_by_name = reach.loads_by_name || marks.loading.contains(next);
    reach.trains = reach.trains || marks.training.contains(next);
    pending.insert(pending.end(), next.imported.begin(), next.imported.end());
  }
  return reach;
}

}  // namespace

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
  FileMarks marks;
  for (const auto& file : facts_.files) marks.see(*file);
  for (const auto& [file, place] : default_places_) marks.placed.insert(*file);
  FileSet found, without;
  for (const auto& file : facts_.files) {
    const Reach reach = reach_of(*file, marks);
    if (reach.is_placed && reach.loads_by_name) return;
    if (reach.is_placed) found.add(reach.files);
    const bool runs_training = reach.trains && !marks.imported.contains(*file) &&
                               contains_any(file->text, {"backward(", " train("});
    if (!reach.is_placed && runs_training) without.add(reach.files);
  }
  with_default_place_.emplace();
  for (const auto& file : facts_.files) {
    if (found.contains(*file) && !without.contains(*file)) with_default_place_->insert(*file);
  }
}

}  // namespace rooftile::source
