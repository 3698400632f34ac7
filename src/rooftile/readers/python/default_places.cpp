// Where tensors are that a script makes without a device, for inference.h.
#include <string_view>
#include <utility>
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

// Of the programs with such a file. Stays open where a module is loaded by a name: it may be any.
void Inference::find_files_with_default_place() {
  if (default_places_.empty()) return;
  FileSet loading;
  for (const auto& file : facts_.files) {
    if (contains_any(file->text, {"import_module(", "__import__("})) loading.insert(*file);
  }
  FileSet found;
  for (const auto& file : facts_.files) {
    FileSet reached;
    std::vector<const File*> pending{file.get()};
    bool has_place = false;
    bool is_open = false;
    while (!pending.empty()) {
      const File* next = pending.back();
      pending.pop_back();
      if (!reached.insert(*next)) continue;
      has_place = has_place || default_places_.contains(next);
      is_open = is_open || loading.contains(*next);
      pending.insert(pending.end(), next->imported.begin(), next->imported.end());
    }
    if (has_place && is_open) return;
    if (has_place) found.add(reached);
  }
  with_default_place_ = std::move(found);
}

}  // namespace rooftile::source
