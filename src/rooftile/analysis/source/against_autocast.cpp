#include "rooftile/analysis/source/against_autocast.h"

#include <algorithm>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/script/reach/default_settings.h"
#include "rooftile/script/reach/unused.h"

namespace rooftile::source {
namespace {

// `Conv2d(width, width, 3, groups=width)`: such layers wait for memory, whatever the precision.
bool has_depthwise_layer(const SourceFacts& facts, const Program& program,
                         const TrainedParts& parts) {
  const auto layers = calls_in(facts, program, {"torch.nn.Conv2d", "torch.nn.Conv3d"});
  return std::ranges::any_of(layers, [&](const Call* layer) {
    const Argument* in = layer->argument("in_channels", 0);
    const Argument* groups = layer->argument("groups", 6);
    const bool may_be = is_part(parts, *layer) || !parts.is_complete;
    return in != nullptr && groups != nullptr && may_be &&
           layer->file->slice(in->value->range) == layer->file->slice(groups->value->range);
  });
}

// `class Sample(Function)` whose forward calls what no given file defines: an extension, which may
// take fp32 alone.
bool calls_extension(const SourceFacts& facts, const Program& program) {
  return std::ranges::any_of(program.files, [&](const File* file) {
    return std::ranges::any_of(file->classes, [&](const ClassDef* def) {
      const FunctionDef* forward = def->is_autograd_function ? def->method("forward") : nullptr;
      const auto casts = [&](const Expr* decorator) {
        return contains(file->slice(decorator->range), "custom_fwd");
      };
      if (forward == nullptr || is_unused(facts, *def)) return false;
      if (std::ranges::any_of(forward->decorators, casts)) return false;
      return std::ranges::any_of(forward->calls, [](const Call* call) {
        return call->target == nullptr && call->receiver != nullptr &&
               call->receiver->kind == ExprKind::name && !call->name.starts_with("torch.") &&
               !call->name.starts_with("numpy.") && last_name(call->receiver) != "ctx" &&
               call->receiver->type->is(TypeKind::unknown) && !call->receiver->full_name().empty();
      });
    });
  });
}

// `torch.inverse(intrinsics).matmul(points)`: places that 8 bits do not hold.
bool computes_places(const Program& program) {
  return mentions(program, {"torch.inverse", "torch.linalg.inv", "linalg.inv"});
}

// Fourier transforms, but for those of NumPy and SciPy.
bool transforms(const SourceFacts& facts, const File& file) {
  return std::ranges::any_of(file.calls, [&](const Call* call) {
    return is_one_of(call->method, {"rfft", "irfft", "rfft2", "fft2", "fftn", "rfftn"}) &&
           !call->name.starts_with("numpy.") && !call->name.starts_with("scipy.") &&
           !stands_in_unused(facts, *call->statement);
  });
}

}  // namespace

std::string_view reason_against_autocast(const SourceFacts& facts, const Program& program,
                                         const TrainedParts& parts, const SizedLayer& layer) {
  // Transforms of 16-bit tensors raise an error, or take sizes that are powers of two alone.
  if (std::ranges::any_of(program.files, [&](const File* file) {
        return runs_by_default(facts, program, *file) && transforms(facts, *file);
      })) {
    return "torch.fft takes no bf16: its input has to be cast back";
  }
  if (has_depthwise_layer(facts, program, parts) ||
      contains_any(lower(layer.text), {"efficientnet", "mobilenet"})) {
    return "depthwise convolutions, which wait for memory, may take most of it";
  }
  if (calls_extension(facts, program)) {
    return "an autograd.Function that calls an extension needs "
           "custom_fwd(cast_inputs=torch.float32)";
  }
  if (computes_places(program)) {
    return "matrices are inverted: what computes coordinates has to stay in fp32";
  }
  return {};
}

}  // namespace rooftile::source
