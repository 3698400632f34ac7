// Where tensors are that a script makes without a device, for inference.h.
#include <string_view>

#include "rooftile/readers/python/inference.h"

namespace rooftile::source {

// torch.set_default_tensor_type("torch.cuda.FloatTensor"), torch.set_default_device("cuda"): what
// is made without a device is there.
void Inference::find_default_places() {
  for (const auto& file : facts_.files) {
    const std::string_view text = file->text;
    for (const std::string_view setter : {"set_default_tensor_type(", "set_default_device("}) {
      for (std::size_t at = text.find(setter); at != std::string_view::npos;
           at = text.find(setter, at + 1)) {
        std::string_view given = text.substr(at + setter.size());
        if (given.starts_with('"') || given.starts_with('\'')) given.remove_prefix(1);
        const bool is_type = setter.starts_with("set_default_tensor");
        const bool is_gpu = is_type ? given.starts_with("torch.cuda.") : !given.starts_with("cpu");
        const std::size_t line = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
        const bool is_comment = text.substr(line, at - line).find('#') != std::string_view::npos;
        if (is_gpu && !is_comment) default_places_.emplace(file.get(), Residence::gpu);
      }
    }
  }
}

}  // namespace rooftile::source
