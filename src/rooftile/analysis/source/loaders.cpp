#include "rooftile/analysis/source/loaders.h"

#include <algorithm>

#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"

namespace rooftile::source {
namespace {

// Names around the construction: what it is assigned to, its function and its dataset.
std::string words_about(const Call& loader) {
  std::string words;
  if (const Expr* target = loader.statement->target) words += loader.file->slice(target->range);
  if (!loader.arguments.empty()) {
    words += ' ';
    words += loader.file->slice(loader.arguments.front().value->range);
  }
  return words;
}

bool names_a_device(const Expr& expr) {
  if (expr.kind == ExprKind::attribute && expr.word() == "device") return true;
  // settings.device.type
  const bool is_kind = expr.kind == ExprKind::attribute && expr.word() == "type";
  if (is_kind && last_name(expr.children()[0]) == "device") return true;
  const std::string_view name = last_name(&expr);
  return name == "dev" || contains_any(lower(name), {"device", "rank", "gpu"}) ||
         (expr.call() != nullptr &&
          (expr.call()->method == "dev" || contains_any(lower(expr.call()->method), {"device"})));
}

}  // namespace

bool is_torch_loader(const Call& call) {
  return is_one_of(call.name, {"torch.utils.data.DataLoader", "torch_geometric.loader.DataLoader",
                               "torch_geometric.loader.dataloader.DataLoader",
                               "torch_geometric.data.DataLoader"});
}

namespace {

// Made in a function that only scripts beside the training ask for, to predict or to test.
bool serves_others(const SourceFacts& facts, const Call& loader) {
  const FunctionDef* function = loader.function;
  const bool is_plain = function != nullptr && function->class_def == nullptr &&
                        function->outer == nullptr && function->decorators.empty();
  return is_plain && !function->callers.empty() && !loader.file->is_entry &&
         std::ranges::none_of(function->callers, [&](const Call* caller) {
           return trains_on_gpu(facts, *caller->file);
         });
}

// `for batch in loader: show(batch); break`: a batch or two are read, so workers and pinned memory
// would cost more than they save.
bool gives_few_batches(const SourceFacts& facts, const Call& loader) {
  const auto loops = loops_over(facts, loader);
  return !loops.empty() && std::ranges::all_of(loops, [](const Loop* loop) {
    return std::ranges::any_of(loop->statement->body, [](const Statement* each) {
      return each->kind == StatementKind::break_;
    });
  });
}

}  // namespace

std::vector<const Call*> training_loaders(const SourceFacts& facts) {
  std::vector<const Call*> loaders = launched_calls(
      facts, {"torch.utils.data.DataLoader", "torch_geometric.loader.DataLoader",
              "torch_geometric.loader.dataloader.DataLoader", "torch_geometric.data.DataLoader"});
  std::erase_if(loaders, [&](const Call* loader) {
    return serves_others(facts, *loader) || is_hardly_read(facts, *loader) ||
           gives_few_batches(facts, *loader);
  });
  return loaders;
}

bool is_for_training(const SourceFacts& facts, const Call& loader) {
  const auto loops = loops_over(facts, loader);
  const bool trains = std::any_of(loops.begin(), loops.end(), [](const Loop* loop) {
    return loop->role == LoopRole::training_step;
  });
  return trains || (loops.empty() && contains_any(lower(words_about(loader)), {"train"}));
}

bool is_for_evaluation(const SourceFacts& facts, const Call& loader) {
  const auto loops = loops_over(facts, loader);
  const auto evaluates = [](const Loop* loop) { return loop->role == LoopRole::evaluation_step; };
  const auto trains = [](const Loop* loop) { return loop->role == LoopRole::training_step; };
  if (!loops.empty() && std::ranges::all_of(loops, evaluates)) return true;
  // Loops that do neither, as attacks on a trained network do not: by the names.
  if (std::ranges::any_of(loops, trains) || std::ranges::any_of(loops, evaluates)) return false;
  return contains_any(lower(words_about(loader)), {"val", "test", "eval", "infer", "pred"});
}

const Expr* dataset_of(const Call& loader) {
  const Argument* dataset = loader.argument("dataset", 0);
  return dataset == nullptr ? nullptr : resolved(dataset->value);
}

namespace {

// A helper of the dataset's class that the step loop hands its batches to: `data.to_gpu(batch)`.
bool moves_whole_batch(const SourceFacts& facts, const FunctionDef& method) {
  if (method.name.starts_with("__") || method.callers.empty()) return false;
  return std::ranges::all_of(method.callers, [&](const Call* caller) {
    const bool is_outside =
        caller->function == nullptr || caller->function->class_def != method.class_def;
    return is_outside && is_in_step_loop(facts, *caller);
  });
}

// Of `train, val = random_split(data, …)` and `Subset(data, ids)` the data.
const Expr* whole_dataset(const Expr* dataset) {
  constexpr int kMaxParts = 3;
  for (int i = 0; i < kMaxParts && dataset != nullptr; ++i) {
    const Statement* binding = dataset->kind == ExprKind::name ? dataset->binding() : nullptr;
    const bool is_set = binding != nullptr && binding->kind == StatementKind::assignment &&
                        binding->value != nullptr;
    const Call* call = dataset->call();
    if (call == nullptr && is_set) call = binding->value->call();
    const bool is_part =
        call != nullptr && !call->arguments.empty() &&
        is_one_of(call->name, {"torch.utils.data.random_split", "torch.utils.data.Subset"});
    if (!is_part) break;
    dataset = resolved(call->arguments.front().value);
  }
  return dataset;
}

// `x.cuda()`, `torch.tensor(ids, device="cuda")`
bool puts_on_gpu(const SourceFacts& facts, const Call& call) {
  const Argument* device = call.argument("device");
  // x.to(device), x.to(self.device); not x.to(y.device)
  const Expr* place = call.method == "to" && call.receiver != nullptr && !call.arguments.empty()
                          ? call.arguments.front().value
                          : nullptr;
  const bool is_moved =
      place != nullptr && contains(lower(last_name(place)), "device") &&
      (place->kind == ExprKind::name ||
       (place->kind == ExprKind::attribute && place->children().front()->word() == "self"));
  return is_moved || copies_to_device(facts, call) ||
         (device != nullptr && call.name.starts_with("torch.") &&
          is_gpu_device(facts, device->value));
}

// A data set of the program that makes its samples on the GPU, or copies them or all its data
// there.
bool may_have_gpu_samples(const SourceFacts& facts, const Call& loader) {
  const auto is_there = [&](const Call& call) { return puts_on_gpu(facts, call); };
  const auto gives = [&](const ClassDef* def) {
    const bool is_one = def->is_dataset || std::ranges::any_of(def->bases, [](const Expr* base) {
                          return base->full_name() == "torch.utils.data.TensorDataset";
                        });
    return is_one && std::ranges::any_of(def->methods, [&](const FunctionDef* method) {
             return is_one_of(method->name, {"__getitem__", "__init__"}) &&
                    any_call_below(*method, kMaxCallDepth, is_there);
           });
  };
  return std::ranges::any_of(training_programs_of(facts, *loader.file), [&](const auto* program) {
    return std::ranges::any_of(program->files, [&](const File* file) {
      return std::ranges::any_of(file->classes, gives);
    });
  });
}

}  // namespace

bool has_gpu_samples(const SourceFacts& facts, const Call& loader) {
  if (collates_on_gpu(facts, loader)) return true;
  const Expr* dataset = whole_dataset(dataset_of(loader));
  if (dataset == nullptr) return false;
  const Type& type = *dataset->type;
  if (type.is(TypeKind::tensor)) return type.on_gpu();
  const Call* call = dataset->call() != nullptr ? dataset->call() : type.made_by;
  if (call == nullptr) return type.class_def == nullptr && may_have_gpu_samples(facts, loader);
  const bool is_given =
      std::any_of(call->arguments.begin(), call->arguments.end(), [](const Argument& argument) {
        return argument.value->type->is(TypeKind::tensor) && argument.value->type->on_gpu();
      });
  if (is_given) return true;
  const ClassDef* def = type.class_def;
  if (def == nullptr) return false;
  for (const FunctionDef* method : def->methods) {
    if (moves_whole_batch(facts, *method)) continue;
    for (const Call* inner : method->calls) {
      if (puts_on_gpu(facts, *inner)) return true;
    }
  }
  return false;
}

bool collates_to_arrays(const Call& loader) {
  const std::vector<const FunctionDef*> collates = collate_functions(loader);
  return !collates.empty() && std::ranges::all_of(collates, [](const FunctionDef* collate) {
    const Type& given = *collate->returns;
    if (given.is(TypeKind::array)) return true;
    const bool is_several = given.is(TypeKind::container) && given.items != nullptr &&
                            !given.items->children().empty() && given.items->kind != ExprKind::dict;
    return is_several && std::ranges::all_of(given.items->children(), [](const Expr* item) {
             return item->type->is(TypeKind::array);
           });
  });
}

bool copies_to_device(const SourceFacts& facts, const Call& call) {
  if (call.receiver == nullptr) return false;
  const Type& type = call.receiver_type();
  if (type.is(TypeKind::module) || type.is(TypeKind::loss)) return false;
  if (call.method == "cuda") return true;
  if (call.method != "to") return false;
  const Argument* device = call.argument("device", 0);
  if (device == nullptr) return false;
  if (device->value->type->is(TypeKind::dtype)) return false;
  if (device->value->type->is(TypeKind::device)) {
    return device->value->type->residence != Residence::host;
  }
  return is_gpu_device(facts, device->value) || names_a_device(*device->value);
}

}  // namespace rooftile::source
