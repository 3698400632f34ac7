// Where tensors are that a script makes without a device, for inference.h.
#include <string_view>

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
          given.kind == ExprKind::text ? given.word : file->slice(given.range);
      const bool is_gpu = is_type ? name.starts_with("torch.cuda.") : !contains(name, "cpu");
      if (is_gpu) default_places_.emplace(file.get(), Residence::gpu);
    }
  }
}

}  // namespace rooftile::source
