// Where tensors are that a script makes without a device, for inference.h.
#include <algorithm>
#include <string_view>
#include <vector>

#include "rooftile/base/text.h"
#include "rooftile/readers/python/derive.h"
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

bool any_in(const FileSet& set, const std::vector<const File*>& files) {
  return std::ranges::any_of(files, [&](const File* one) { return set.contains(*one); });
}

void add_all(const std::vector<const File*>& files, FileSet& set) {
  for (const File* one : files) set.insert(*one);
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
    const std::vector<const File*> files = with_imported(*file);
    const bool is_placed = any_in(marks.placed, files);
    if (is_placed && any_in(marks.loading, files)) return;
    if (is_placed) add_all(files, found);
    const bool runs_training = any_in(marks.training, files) && !marks.imported.contains(*file) &&
                               contains_any(file->text, {"backward(", " train("});
    if (!is_placed && runs_training) add_all(files, without);
  }
  with_default_place_.emplace();
  for (const auto& file : facts_.files) {
    if (found.contains(*file) && !without.contains(*file)) with_default_place_->insert(*file);
  }
}

}  // namespace rooftile::source
