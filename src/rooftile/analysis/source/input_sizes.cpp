#include "rooftile/analysis/source/input_sizes.h"

#include <algorithm>
#include <span>

#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/model_size.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"
#include "rooftile/script/reach/reach.h"
#include "rooftile/workload/source_walks.h"

namespace rooftile::source {
namespace {

constexpr std::int64_t kSmallestImage = 16;  // pixels

// A number of pixels that is known; a slice of a shape counts too.
bool is_size(const SourceFacts& facts, const Expr* expr) {
  if (expr->kind == ExprKind::subscript) {
    const Value written = facts.value(expr);
    if (written.known()) return written.real >= kSmallestImage;
    return uses_name(expr, {"shape", "input_shape", "image_shape", "img_shape", "image_size",
                            "crop_size", "img_size", "size", "input_size"});
  }
  return largest_size(facts, expr).value_or(0) >= kSmallestImage;
}

// A data set's method, or a function that reads image files.
bool reads_images(const FunctionDef* function) {
  if (function == nullptr) return false;
  if (function->class_def != nullptr) return function->class_def->is_dataset;
  return std::ranges::any_of(function->calls, [](const Call* call) {
    return is_one_of(call->method, {"imread", "imdecode"}) || call->name == "PIL.Image.open";
  });
}

// A data set's function, one that reads image files, or one that such call.
bool handles_samples(const FunctionDef* function) {
  constexpr int kFewLevels = 2;
  return function != nullptr &&
         (reads_images(function) || any_call_above(*function, kFewLevels, [](const Call& call) {
            return reads_images(call.function) && call.function->name != "__init__";
          }));
}

// Not for each sample: the transforms of a run are put together.
bool runs_once(const FunctionDef* function) {
  if (function == nullptr || function->name == "__init__") return true;
  return function->class_def == nullptr && !handles_samples(function);
}

// Two sizes are the same for all images, whatever they are, unless they are made for each sample.
bool is_pair(const SourceFacts& facts, const Expr* expr) {
  const Expr* pair = resolved(expr);
  if (pair->kind == ExprKind::tuple || pair->kind == ExprKind::list) {
    const bool is_once = runs_once(expr->statement->function);
    return pair->children().size() == 2 && (is_once || (is_size(facts, pair->children()[0]) &&
                                                        is_size(facts, pair->children()[1])));
  }
  const bool is_slice = pair->kind == ExprKind::subscript &&
                        std::any_of(pair->children().begin(), pair->children().end(),
                                    [](const Expr* part) { return part->kind == ExprKind::slice; });
  return is_slice && is_size(facts, pair);
}

std::string call_beginning(const Call& call) {
  constexpr std::size_t kMost = 50;
  std::string text(call.file->slice(call.expr->range));
  for (char& c : text) c = c == '\n' ? ' ' : c;
  return text.size() <= kMost ? text : std::string(call.method) + "(...)";
}

// `crop_size`, `args.size`: a setting that is the same for all samples, whatever it is.
bool is_size_setting(const Expr& expr) {
  const std::string name = lower(last_name(&expr));
  return contains_any(name, {"crop", "size"}) && !contains_any(name, {"batch"}) &&
         runs_once(expr.statement->function) && !draws_at_random(&expr);
}

// Resize to one number keeps the aspect ratio, so that sizes still differ.
bool sets_size(const SourceFacts& facts, const Call& call) {
  const std::string_view method = call.method;
  const bool is_crop = contains(method, "Crop");
  const bool is_resize = is_one_of(method, {"Resize", "Scale"});
  if (!is_crop && !is_resize) return false;
  if (call.name.starts_with("monai.")) return false;
  const bool is_transform = contains_any(call.name, {"transforms", "albumentations"}) ||
                            call.target != nullptr || call.name.empty();
  if (!is_transform ||
      contains_any(method, {"FiveCrop", "TenCrop", "ShortSide", "Multi", "SizeCrop"}))
    return false;
  for (const Argument& argument : call.arguments) {
    if (argument.unpacked) continue;
    if (is_pair(facts, argument.value)) return true;
    if (is_crop && (is_size(facts, argument.value) || is_size_setting(*argument.value)))
      return true;
  }
  return false;
}

// ListDataset(root, input_size=600), get_loaders(args, 224): data of one size, as they are told.
bool gives_one_size(const SourceFacts& facts, const Call& call) {
  const FunctionDef* target = call.target;
  if (target == nullptr) return false;
  const std::string name = lower(call.method);
  const bool is_data = call.expr->type->is(TypeKind::dataset) ||
                       contains_any(name, {"dataset", "loader", "transform", "datamodule"});
  if (!is_data || mentions(*target->file, {"multiscale", "multi_scale", "rect"})) return false;
  for (const std::string_view parameter :
       {"input_size", "image_size", "img_size", "imsize", "imageSize", "crop_size", "resolution"}) {
    const Argument* size = passed_argument(call, *target, parameter);
    if (size == nullptr || draws_at_random(size->value)) continue;
    if (is_size(facts, size->value) || is_size_setting(*size->value)) return true;
  }
  return false;
}

bool has_one_size(std::string_view dataset) {
  return contains_any(dataset, {".CIFAR10", ".CIFAR100", ".SVHN", ".STL10", ".PCAM", ".MNIST",
                                ".FashionMNIST", ".KMNIST", ".QMNIST"});
}

// Own code that cuts by an option, image[y:y + self.crop_size[0], …].
bool cuts_by_option(const File& file) {
  if (!has_text(file, "crop_size")) return false;
  return std::ranges::any_of(file.statements, [](const Statement* statement) {
    bool cuts = false;
    for_own_expressions(*statement, [&](const Expr* expr) {
      cuts = cuts || find_inside(expr, [](const Expr& part) {
                       return part.kind == ExprKind::slice && part.children().size() == 2 &&
                              uses_name(&part, {"crop_size"});
                     }) != nullptr;
    });
    return cuts;
  });
}

// `size[0] // 16 * 16` of a size that each sample has by itself.
bool is_of_sample(const SourceFacts& facts, const Expr& size) {
  return any_inside(&size, [&](const Expr& part) {
    return part.kind == ExprKind::subscript && !facts.value(&part).known();
  });
}

// (224, 224): two numbers of pixels, the same for all samples.
bool is_known_pair(const SourceFacts& facts, const Expr* expr) {
  const Expr* pair = resolved(expr);
  const bool is_row = pair->kind == ExprKind::tuple || pair->kind == ExprKind::list;
  return is_row && pair->children().size() == 2 &&
         std::ranges::all_of(pair->children(), [&](const Expr* size) {
           return !is_of_sample(facts, *size) && !draws_at_random(size) && is_size(facts, size);
         });
}

// cv2.resize(image, (64, 64)), image.resize((64, 64)), and own functions for it.
bool resizes_samples(const SourceFacts& facts, const Call& call) {
  const std::string_view method = call.method;
  const bool is_own = call.target != nullptr && contains_any(method, {"resize", "crop"});
  if (!is_own && !is_one_of(method, {"resize", "imresize"})) return false;
  const bool is_of_tensor = call.receiver != nullptr && call.receiver->type->is(TypeKind::tensor);
  if (is_of_tensor || !handles_samples(call.function)) return false;
  return std::ranges::any_of(call.arguments, [&](const Argument& argument) {
    return !argument.unpacked && is_known_pair(facts, argument.value);
  });
}

}  // namespace

std::optional<SizeSign> fixed_input_size(const SourceFacts& facts, const Program& program) {
  for (const File* file : program.files) {
    for (const Call* call : file->calls) {
      if (has_one_size(call->name)) {
        return SizeSign{call, "the data set " + std::string(call->method)};
      }
      if (sets_size(facts, *call) || gives_one_size(facts, *call) ||
          resizes_samples(facts, *call)) {
        return SizeSign{call, call_beginning(*call)};
      }
    }
    if (!file->calls.empty() && cuts_by_option(*file)) {
      return SizeSign{file->calls.front(), "crops of crop_size"};
    }
  }
  return std::nullopt;
}

}  // namespace rooftile::source
