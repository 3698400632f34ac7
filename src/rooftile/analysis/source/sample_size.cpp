#include "rooftile/analysis/source/sample_size.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"
#include "rooftile/script/flow/sources.h"
#include "rooftile/script/reach/path.h"
#include "rooftile/workload/source_store.h"

namespace rooftile::source {
namespace {

// Digits, letters and thumbnails of 16 to 32 pixels a side: less than 2 MB a batch.
bool has_small_images(std::string_view name) {
  return contains_any(name, {"MNIST", "USPS", "Omniglot", "FakeData", "CIFAR", "SVHN", "SEMEION"});
}

// `Resize(64)`, `RandomCrop(32, padding=4)`, Resize((32, 32)): what all images become.
bool makes_small_images(const SourceFacts& facts, const Call& call) {
  constexpr std::int64_t kSmall = 64;
  if (!is_one_of(call.method, {"Resize", "RandomCrop", "CenterCrop", "RandomResizedCrop"})) {
    return false;
  }
  const Argument* given = call.argument("size", 0);
  const Expr* size = given == nullptr || given->unpacked ? nullptr : resolved(given->value);
  const bool is_pair = size != nullptr && !size->children().empty() &&
                       (size->kind == ExprKind::tuple || size->kind == ExprKind::list);
  const Value side = size == nullptr ? Value() : facts.value(is_pair ? size->children()[0] : size);
  return side.kind == ValueKind::integer && side.integer <= kSmall;
}

// What reads or changes images, audio, video or volumes.
bool is_of_media(const Call& call) {
  const std::string_view name = call.name;
  if (name.starts_with("torchvision.datasets.")) return !has_small_images(name);
  return starts_with_any(name, {"torchvision.io.", "torchaudio.", "albumentations.", "monai.",
                                "librosa.", "nibabel.", "SimpleITK.", "decord.", "soundfile.",
                                "imageio.", "tifffile.", "rasterio.", "pydicom.", "skimage.io."}) ||
         is_one_of(name,
                   {"cv2.imread", "cv2.imdecode", "PIL.Image.open", "PIL.Image.fromarray",
                    "scipy.io.wavfile.read", "torchvision.transforms.functional.to_tensor"}) ||
         is_one_of(call.method, {"ImageFolder", "imread", "pil_loader", "default_loader",
                                 "ToPILImage", "RandomResizedCrop", "CenterCrop", "RandomCrop",
                                 "RandomHorizontalFlip", "ColorJitter"});
}

// A file that is opened for one sample: np.load(path) in __getitem__.
bool loads_file(const Call& call) {
  return is_one_of(call.name,
                   {"numpy.load", "torch.load", "numpy.memmap", "numpy.fromfile", "h5py.File"});
}

bool reads_media(const FunctionDef& function, bool is_for_sample) {
  return any_call_below(function, kMaxCallDepth, [&](const Call& call) {
    return is_of_media(call) || (is_for_sample && loads_file(call));
  });
}

bool reads_media(const ClassDef& def) {
  return std::ranges::any_of(lineage(&def), [](const ClassDef* each) {
    const bool is_library_folder = std::ranges::any_of(each->bases, [](const Expr* base) {
      return base->full_name().starts_with("torchvision.datasets.") &&
             !has_small_images(base->full_name());
    });
    return is_library_folder || std::ranges::any_of(each->methods, [](const FunctionDef* method) {
             return reads_media(*method, method->name == "__getitem__");
           });
  });
}

// `if dataset == "MNIST":` around the loader.
bool is_for_small_images(const SourceFacts& facts, const Call& loader) {
  return std::ranges::any_of(path_to(facts, loader), [](const PathStep& step) {
    if (step.loop != nullptr || step.guard.negated || step.guard.expr == nullptr) return false;
    return find_inside(step.guard.expr, [](const Expr& part) {
             return part.kind == ExprKind::text && has_small_images(part.word());
           }) != nullptr;
  });
}

enum class Answer { no, yes, unknown };

// What a call that makes a data set says of the samples, with what it is given: transforms, other
// data sets.
Answer media_of(const SourceFacts& facts, const Call& made) {
  if (has_small_images(made.name)) return Answer::no;
  bool has_media = false, is_open = false, is_small = false;
  const auto look = [&](const Expr& part) {
    const Call* call = part.call();
    is_small = is_small || (call != nullptr && makes_small_images(facts, *call));
    has_media = has_media || (call != nullptr && is_of_media(*call));
    return !is_small;
  };
  visit(made.expr, [&](const Expr& part) {
    const Expr* inner = resolved(&part);
    visit(inner, look);
    const auto classes = inner->type->classes();
    const bool is_given = &part != made.expr;
    has_media = has_media || std::ranges::any_of(classes, [](const ClassDef* def) {
                  return def->is_dataset && reads_media(*def);
                });
    is_open = is_open || (is_given && inner->kind == ExprKind::name &&
                          (inner->type->is(TypeKind::unknown) ||
                           (inner->type->is(TypeKind::dataset) && classes.empty())));
    return !is_small;
  });
  if (is_small) return Answer::no;
  if (has_media) return Answer::yes;
  if (is_one_of(made.name, {"torch.utils.data.TensorDataset", "list", "zip", "range"})) {
    return Answer::no;
  }
  const ClassDef* def = made.expr->type->class_def;
  const bool is_own = def != nullptr && def->is_dataset;
  return is_own && !is_open ? Answer::no : Answer::unknown;
}

Answer media_in(const SourceFacts& facts, const Expr& dataset) {
  bool is_open = false;
  for (const Expr* origin : script::origins(facts, dataset)) {
    const Call* made = origin->call() != nullptr ? origin->call() : origin->type->made_by;
    const Answer answer = made == nullptr ? Answer::unknown : media_of(facts, *made);
    if (answer == Answer::yes) return answer;
    is_open = is_open || answer == Answer::unknown;
  }
  return is_open ? Answer::unknown : Answer::no;
}

// Whether the programs of the loader name data of small images, or make theirs small, and read no
// other data by a name of torchvision.
bool has_small_data(const SourceFacts& facts, const File& of) {
  bool has_small = false, has_other = false;
  for (const Program* program : training_programs_of(facts, of)) {
    for (const File* file : program->files) {
      const auto look = [&](std::string_view name) {
        constexpr std::string_view kDatasets = "torchvision.datasets.";
        const bool is_class =
            name.starts_with(kDatasets) && starts_with_capital(name.substr(kDatasets.size()));
        if (!is_class) return;
        const bool is_small = has_small_images(name);
        has_small = has_small || is_small;
        has_other = has_other || !is_small;
      };
      for (const Call* call : file->calls) {
        look(call->name);
        has_small = has_small || makes_small_images(facts, *call);
      }
      for (const std::string_view imported : file->imports) look(imported);
    }
  }
  return has_small && !has_other;
}

struct MediaByFile {
  std::unordered_map<const File*, bool> files;
};

bool handles_media(const SourceFacts& facts, const File& file) {
  auto& known = facts.store().kept<MediaByFile>().files;
  const auto [found, is_new] = known.try_emplace(&file, false);
  if (is_new) {
    found->second =
        std::ranges::any_of(file.calls, [](const Call* call) { return is_of_media(*call); });
  }
  return found->second;
}

}  // namespace

bool has_large_samples(const SourceFacts& facts, const Call& loader) {
  if (has_small_data(facts, *loader.file) || is_for_small_images(facts, loader)) return false;
  const Expr* dataset = dataset_of(loader);
  const Answer answer = dataset == nullptr ? Answer::unknown : media_in(facts, *dataset);
  if (answer != Answer::unknown) return answer == Answer::yes;
  return has_large_samples(facts, *loader.file);  // the data set is not seen
}

bool has_large_samples(const SourceFacts& facts, const File& file) {
  if (has_small_data(facts, file)) return false;
  return std::ranges::any_of(training_programs_of(facts, file), [&](const Program* program) {
    return std::ranges::any_of(program->files,
                               [&](const File* one) { return handles_media(facts, *one); });
  });
}

}  // namespace rooftile::source
