#include "rooftile/analysis/source/input_sizes.h"

#include <algorithm>
#include <span>

#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/model_size.h"
#include "rooftile/analysis/source/monai.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/script/reach/reach.h"
#include "rooftile/workload/source_walks.h"

namespace rooftile::source {
namespace {

constexpr std::int64_t kSmallestImage = 16;  // pixels

bool has_part(std::string_view text, Words parts) {
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) {
    return text.find(part) != std::string_view::npos;
  });
}

// A number of pixels that is known; a slice of a shape counts too.
bool is_size(const SourceFacts& facts, const Expr* expr) {
  if (expr == nullptr) return false;
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
  const Value value = facts.value(expr);
  if (value.kind == ValueKind::list && value.found != nullptr && value.found != expr) {
    return value.found->children().size() >= 2 && is_size(facts, value.found->children()[0]);
  }
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
  const bool is_crop = method.find("Crop") != std::string_view::npos;
  const bool is_resize = method == "Resize" || method == "Scale";
  if ((!is_crop && !is_resize) || call.arguments.empty()) return false;
  if (call.name.starts_with("monai.")) return false;
  const bool is_transform = call.name.find("transforms") != std::string_view::npos ||
                            call.name.find("albumentations") != std::string_view::npos ||
                            call.target != nullptr || call.name.empty();
  if (!is_transform || has_part(method, {"FiveCrop", "TenCrop", "ShortSide", "Multi", "SizeCrop"}))
    return false;
  for (const Argument& argument : call.arguments) {
    if (argument.unpacked) continue;
    if (is_pair(facts, argument.value)) return true;
    if (is_crop && (is_size(facts, argument.value) || is_size_setting(*argument.value)))
      return true;
  }
  return call.name.find("albumentations") != std::string_view::npos && call.arguments.size() >= 2 &&
         is_size(facts, call.arguments[0].value);
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

// get_cifar10_loaders(…), CIFAR100Pair(…), load_mnist(): own code around a data set of one size.
bool wraps_small_images(const Call& call) {
  if (call.target == nullptr) return false;
  const std::string name = lower(call.method);
  if (!contains_any(name, {"cifar", "mnist", "svhn", "stl10"})) return false;
  const bool is_made = name.starts_with("load") || name.starts_with("get") ||
                       name.starts_with("make") || name.starts_with("build");
  return call.expr->type->is(TypeKind::dataset) ||
         (is_made && contains_any(name, {"data", "loader", "load", "set"}) &&
          !contains_any(name, {"model", "net"}));
}

// torch.randn(16, 3, 224, 224), np.random.rand(224, 224, 3), generate_random_images(192, 192).
bool draws_images(const SourceFacts& facts, const Call& call) {
  const std::string_view method = call.method;
  const bool is_library = call.name.starts_with("torch.") || call.name.starts_with("numpy.random.");
  const bool is_drawn =
      is_library ? is_one_of(method, {"rand", "randn", "randint", "random", "normal", "uniform"})
                 : has_part(method, {"random", "generate", "synthetic", "simulate"});
  if (!is_drawn) return false;
  int sizes = 0;
  const Expr* shape = call.arguments.empty() ? nullptr : call.arguments.front().value;
  const bool is_shape =
      shape != nullptr && (shape->kind == ExprKind::tuple || shape->kind == ExprKind::list);
  const auto count = [&](const Expr* size) {
    const Value value = facts.value(size);
    sizes += value.kind == ValueKind::integer && value.integer >= kSmallestImage;
  };
  if (is_shape) std::ranges::for_each(shape->children(), count);
  for (const Argument& argument : call.arguments) {
    if (!is_shape && argument.name.empty() && !argument.unpacked) count(argument.value);
  }
  const std::size_t written = is_shape ? shape->children().size() : call.arguments.size();
  return sizes >= 2 && (!is_library || written >= 3);
}

// Data that the program draws itself: in its data set, or in each step.
bool gives_drawn_images(const SourceFacts& facts, const Call& call) {
  const ClassDef* def = call.function == nullptr ? nullptr : call.function->class_def;
  const bool is_in_dataset = def != nullptr && def->is_dataset;
  return draws_images(facts, call) && (is_in_dataset || in_each_training_step(facts, call));
}

bool has_one_size(std::string_view dataset) {
  return has_part(dataset, {".CIFAR10", ".CIFAR100", ".SVHN", ".STL10", ".PCAM", ".MNIST",
                            ".FashionMNIST", ".KMNIST", ".QMNIST"});
}

// `x:x + 256`, or `x:end` with `end = x + 256`, or `0:256`.
bool cuts_length(const SourceFacts& facts, const Expr& slice) {
  if (slice.kind != ExprKind::slice || slice.children().size() != 2) return false;
  const Expr* stop = resolved(slice.children()[1]);
  if (stop->kind != ExprKind::binary || stop->word() != "+" || stop->statement == nullptr) {
    return false;
  }
  const auto text = [](const Expr* expr) { return expr->statement->file->slice(expr->range); };
  const bool is_from_start = text(stop->children()[0]) == text(slice.children()[0]);
  return is_from_start && !draws_at_random(stop->children()[1]) &&
         largest_size(facts, stop->children()[1]).value_or(0) >= kSmallestImage;
}

// spectrogram[:, x:x + 128] with x drawn at random: as many steps of each sample, and all bands.
bool cuts_steps(const SourceFacts& facts, std::span<const Expr* const> indices) {
  if (indices.size() != 2 || indices[0]->kind != ExprKind::slice) return false;
  return indices[0]->children().empty() && cuts_length(facts, *indices[1]) &&
         draws_at_random(indices[1]->children()[0]);
}

// image[y:y + 256, x:x + 256]
bool cuts_piece(const SourceFacts& facts, const Expr& part) {
  if (part.kind != ExprKind::subscript || part.children().size() < 2) return false;
  std::span<const Expr* const> indices = std::span(part.children()).subspan(1);
  if (indices.size() == 1 && indices[0]->kind == ExprKind::tuple) indices = indices[0]->children();
  const auto cuts =
      std::ranges::count_if(indices, [&](const Expr* index) { return cuts_length(facts, *index); });
  return cuts >= 2 || cuts_steps(facts, indices);
}

// (x, y, x + 352, y + 352), also with self.crop_size[0]: the box of a piece of one size.
bool is_box_of_one_size(const SourceFacts& facts, const Expr& part) {
  if (part.kind != ExprKind::tuple || part.children().size() != 4) return false;
  const File& file = *part.statement->file;
  const auto adds_length = [&](const Expr* end, const Expr* start) {
    if (end->kind != ExprKind::binary || end->word() != "+") return false;
    const Expr* length = end->children()[1];
    const bool is_own = file.slice(length->range).starts_with("self.");
    return file.slice(end->children()[0]->range) == file.slice(start->range) &&
           (is_own || is_size(facts, length));
  };
  return adds_length(part.children()[2], part.children()[0]) &&
         adds_length(part.children()[3], part.children()[1]);
}

bool handles_samples(const FunctionDef* function);

// Own code that cuts by an option, image[y:y + self.crop_size[0], …], or pieces of a known size.
const Expr* own_crop(const SourceFacts& facts, const File& file) {
  const Expr* found = nullptr;
  for (const Statement* statement : file.statements) {
    for_own_expressions(*statement, [&](const Expr* expr) {
      visit(expr, [&](const Expr& part) {
        const bool cuts = part.kind == ExprKind::slice && part.children().size() == 2 &&
                          uses_name(&part, {"crop_size"});
        const bool is_piece = cuts_piece(facts, part) || is_box_of_one_size(facts, part);
        const bool is_crop = cuts || (is_piece && handles_samples(statement->function));
        if (is_crop && found == nullptr) found = &part;
        return found == nullptr;
      });
    });
  }
  return found;
}

// self.options.img_res, args.size
bool is_of_settings(const Expr& expr) {
  if (expr.kind != ExprKind::attribute || expr.children().empty()) return false;
  return contains_any(last_name(expr.children()[0]), {"opt", "args", "cfg", "config", "hparams"});
}

// A parameter that all callers fill with a setting: resize(image, self.cfg.width).
bool is_filled_by_settings(const Expr& size) {
  const FunctionDef* function = size.statement == nullptr ? nullptr : size.statement->function;
  if (size.kind != ExprKind::name || size.binding() != nullptr || function == nullptr) return false;
  return !function->callers.empty() &&
         std::ranges::all_of(function->callers, [&](const Call* call) {
           const Argument* given = passed_argument(*call, *function, size.word());
           return given != nullptr && is_of_settings(*given->value);
         });
}

// `size[0] // 16 * 16` of a size that each sample has by itself.
bool is_of_sample(const SourceFacts& facts, const Expr& size) {
  bool found = false;
  visit(&size, [&](const Expr& part) {
    found = found || (part.kind == ExprKind::subscript && !facts.value(&part).known());
    return !found;
  });
  return found;
}

// (224, 224), also with options: two numbers of pixels, the same for all samples.
bool is_known_pair(const SourceFacts& facts, const Expr* expr) {
  const Expr* pair = resolved(expr);
  const bool is_row = pair->kind == ExprKind::tuple || pair->kind == ExprKind::list;
  return is_row && pair->children().size() == 2 &&
         std::ranges::all_of(pair->children(), [&](const Expr* size) {
           const bool is_open = is_of_sample(facts, *size);
           return !is_open && !draws_at_random(size) &&
                  (is_size(facts, size) || is_of_settings(*size) || is_filled_by_settings(*size));
         });
}

// cv2.resize(image, (64, 64)), image.resize((64, 64)), and own functions for it.
bool resizes_samples(const SourceFacts& facts, const Call& call) {
  const std::string_view method = call.method;
  const bool is_own = call.target != nullptr && has_part(method, {"resize", "crop"});
  if (!is_own && !is_one_of(method, {"resize", "imresize"})) return false;
  const bool is_of_tensor = call.receiver != nullptr && call.receiver->type->is(TypeKind::tensor);
  if (is_of_tensor || !handles_samples(call.function)) return false;
  return std::ranges::any_of(call.arguments, [&](const Argument& argument) {
    return !argument.unpacked && is_known_pair(facts, argument.value);
  });
}

// np.zeros((512, 512, 3)) of a transform or a data set: what an image is pasted into.
bool makes_canvas(const SourceFacts& facts, const Call& call) {
  const bool is_made = is_one_of(call.name, {"numpy.zeros", "numpy.ones", "numpy.full"}) &&
                       !call.arguments.empty() && !call.arguments[0].unpacked;
  const FunctionDef* function = call.function;
  const bool is_for_sample = is_made && function != nullptr && function->class_def != nullptr &&
                             is_one_of(function->name, {"__call__", "__getitem__"});
  const Expr* shape = is_for_sample ? call.arguments[0].value : nullptr;
  if (shape == nullptr || shape->kind != ExprKind::tuple || shape->children().size() != 3) {
    return false;
  }
  return facts.value(shape->children()[2]).is(3) && is_size(facts, shape->children()[0]) &&
         is_size(facts, shape->children()[1]);
}

// image.reshape(1, 128, 128) of a data set's sample.
bool shapes_samples(const SourceFacts& facts, const Call& call) {
  const ClassDef* def = call.function == nullptr ? nullptr : call.function->class_def;
  const bool is_sample = call.method == "reshape" && call.receiver != nullptr && def != nullptr &&
                         def->is_dataset && call.function->name == "__getitem__";
  if (!is_sample) return false;
  const auto sizes = std::ranges::count_if(call.arguments, [&](const Argument& argument) {
    return !argument.unpacked && is_size(facts, argument.value);
  });
  return sizes >= 2;
}

// Batches of several samples that the loader stacks: all have one size.
bool stacks_samples(const SourceFacts& facts, const Program& program) {
  return std::ranges::any_of(
      constructions_in(facts, program, TypeKind::loader), [&](const Call* loader) {
        const Value batch = facts.argument(*loader, "batch_size", 1);
        const bool is_plain = !batch.absent() && !batch.is(1) && !loader->unknown_arguments &&
                              loader->argument("collate_fn", 6) == nullptr &&
                              loader->argument("batch_sampler") == nullptr;
        return is_plain && !is_for_evaluation(facts, *loader);
      });
}

// Resize(64) leaves the aspect ratio alone; it sets the size of images that are stacked then.
bool sets_one_side(const SourceFacts& facts, const Call& call) {
  if (call.method != "Resize" && call.method != "Scale") return false;
  const bool is_transform = call.name.find("transforms") != std::string_view::npos;
  return is_transform && !call.arguments.empty() && !call.arguments[0].unpacked &&
         !draws_at_random(call.arguments[0].value) && is_size(facts, call.arguments[0].value);
}

}  // namespace

std::optional<SizeSign> fixed_input_size(const SourceFacts& facts, const Program& program) {
  const Call* one_side = nullptr;
  for (const File* file : program.files) {
    for (const Call* call : file->calls) {
      if (one_side == nullptr && sets_one_side(facts, *call)) one_side = call;
      if (has_one_size(call->name) || wraps_small_images(*call)) {
        return SizeSign{call, "the data set " + std::string(call->method)};
      }
      if (sets_size(facts, *call) || sets_size_by_monai(facts, *call) ||
          gives_one_size(facts, *call) || gives_drawn_images(facts, *call) ||
          resizes_samples(facts, *call) || shapes_samples(facts, *call) ||
          makes_canvas(facts, *call)) {
        return SizeSign{call, call_beginning(*call)};
      }
    }
    if (const Expr* crop = own_crop(facts, *file); crop != nullptr && !file->calls.empty()) {
      const bool is_named = crop->kind == ExprKind::slice;
      return SizeSign{file->calls.front(), is_named ? "crops of crop_size" : "crops of one size"};
    }
  }
  if (one_side != nullptr && stacks_samples(facts, program)) {
    return SizeSign{one_side, call_beginning(*one_side)};
  }
  return std::nullopt;
}

}  // namespace rooftile::source
