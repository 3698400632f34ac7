// Who moves the batches of a loader to the GPU, for loaders.h.
#include <algorithm>

#include "rooftile/analysis/source/host_allocations.h"
#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"
#include "rooftile/script/flow/sources.h"
#include "rooftile/workload/source_store.h"

namespace rooftile::source {
namespace {

constexpr int kMaxWrappers = 24;  // functions between a loop and the copy

// `x.type(Tensor)` where Tensor is torch.cuda.FloatTensor if there is a GPU.
bool converts_to_gpu(const Call& call) {
  if (call.method != "type" || call.arguments.size() != 1) return false;
  const Expr* made = resolved(call.arguments.front().value);
  if (made->kind == ExprKind::conditional) made = made->children()[0];
  return made->full_name().starts_with("torch.cuda.");
}

bool moves_data(const SourceFacts& facts, const Call& call) {
  // Noise, masks and first states, made of sizes alone, are not of a batch.
  if (call.receiver == nullptr) return false;
  const Expr& moved = *call.receiver;
  if (host_allocation(facts, moved) != nullptr) return false;
  return copies_to_device(facts, call) || converts_to_gpu(call) ||
         (call.method == "copy_" && !call.receiver_type().is(TypeKind::module));
}

// `map(to_gpu, batch)`: the function that it runs.
const FunctionDef* mapped_function(const Call& call) {
  const bool is_map = call.name == "map" && !call.arguments.empty();
  return is_map ? call.arguments.front().value->type->function : nullptr;
}

// `next(batches)` of `batches = endless(loader)`: the generator, where it hands on what it moved.
const FunctionDef* stepped_generator(const SourceFacts& facts, const Call& call) {
  const Expr* iterator = stepped_iterator(call);
  const Expr* made = iterator == nullptr ? nullptr : &script::origin(facts, *iterator);
  const FunctionDef* function =
      made == nullptr || made->call() == nullptr ? nullptr : made->call()->target;
  return function != nullptr && has_yield(function->body) ? function : nullptr;
}

bool moves_by(const SourceFacts& facts, const Call& call) {
  const FunctionDef* function = call.target != nullptr ? call.target : mapped_function(call);
  if (function == nullptr) function = stepped_generator(facts, call);
  const auto moves = [&](const Call& inner) { return moves_data(facts, inner); };
  return moves(call) || (function != nullptr && any_call_below(*function, kMaxWrappers, moves));
}

bool moves_in(const SourceFacts& facts, const Loop& loop) {
  const auto calls = calls_inside(*loop.statement);
  return std::any_of(calls.begin(), calls.end(),
                     [&](const Call* call) { return moves_by(facts, *call); });
}

// A function that a library calls with each batch.
bool is_moving_step(const SourceFacts& facts, const FunctionDef& function) {
  return (function.is_training_step || function.is_evaluation_step) &&
         std::any_of(function.calls.begin(), function.calls.end(),
                     [&](const Call* call) { return moves_by(facts, *call); });
}

}  // namespace

namespace {

// `opt.cuda`: on in each run with something to copy.
bool says_gpu(const Expr* expr) {
  return expr != nullptr && expr->kind == ExprKind::attribute &&
         is_one_of(lower(expr->word()), {"cuda", "use_cuda", "gpu", "use_gpu", "on_gpu", "is_cuda",
                                         "has_cuda", "has_gpu", "with_cuda", "enable_cuda"});
}

}  // namespace

bool is_set_by_default(const Value& value) {
  return value.is_true() || truth_on_gpu(value.expr) == true || says_gpu(value.expr);
}

namespace {

bool takes_over(const SourceFacts& facts, const Program& program, const File& file) {
  // Files that no entry imports have nothing to do with each other.
  const auto counts = [&](const File* one) { return program.entry != nullptr || one == &file; };
  const auto trainers =
      calls_in(facts, program, {"transformers.Trainer", "transformers.Seq2SeqTrainer"});
  if (std::ranges::any_of(trainers, counts, &Call::file)) return true;
  const auto imports = [&](const File* one) {
    return counts(one) && mentions(*one, {"accelerate", "fabric"}) &&
           (one->imports_from("accelerate") || one->imports_from("lightning.fabric"));
  };
  // init_empty_weights, dispatch_model and other tools move no batches.
  const auto has_accelerator = [&](const File* one) {
    return counts(one) && mentions(*one, {"Accelerator", "accelerator", "Fabric", "fabric"});
  };
  return std::ranges::any_of(program.files, imports) &&
         std::ranges::any_of(program.files, has_accelerator);
}

}  // namespace

// Of several programs one that moves its batches by itself is enough.
bool is_taken_over(const SourceFacts& facts, const File& file) {
  const auto programs = training_programs_of(facts, file);
  return !programs.empty() &&
         std::all_of(programs.begin(), programs.end(),
                     [&](const Program* program) { return takes_over(facts, *program, file); });
}

namespace {

bool is_argument_of(const Expr* expr, std::string_view function) {
  return expr->parent != nullptr && expr->parent->call() != nullptr &&
         expr->parent->call()->name == function;
}

// `next(iter(DataLoader(data)))`
bool is_read_once(const Expr& loader) {
  return is_argument_of(&loader, "iter") && is_argument_of(loader.parent, "next");
}

// `len(loader)`, or one batch to look at in the function that makes the loader.
bool is_harmless(const Expr& use, const Statement& made) {
  if (is_argument_of(&use, "len")) return true;
  return (is_read_once(use) || is_argument_of(&use, "monai.utils.first")) &&
         use.statement->function == made.function && loop_around(use.statement) == nullptr;
}

// Whether other files may read what the statement sets; of a file that runs by itself those that
// import it.
bool is_seen_elsewhere(const SourceFacts& facts, const Statement& made) {
  if (made.function != nullptr) return false;
  return std::ranges::any_of(facts.files, [&](const auto& file) {
    const bool may_read = !made.file->is_entry ||
                          std::ranges::find(file->imported, made.file) != file->imported.end();
    return file.get() != made.file && may_read && has_text(*file, made.target->word());
  });
}

}  // namespace

bool is_hardly_read(const SourceFacts& facts, const Call& loader) {
  const Statement* made = loader.statement;
  if (is_argument_of(loader.expr, "len")) return true;
  const bool is_plain = made->kind == StatementKind::assignment && made->value == loader.expr &&
                        made->target->kind == ExprKind::name;
  if (!is_plain) return false;
  const auto reads = [&](const Expr& part) {
    return part.kind == ExprKind::name && part.word() == made->target->word() &&
           &part != made->target && !is_harmless(part, *made);
  };
  return std::ranges::none_of(loader.file->statements,
                              [&](const Statement* each) { return any_part(*each, reads); }) &&
         !is_seen_elsewhere(facts, *made);
}

namespace {

// A loop under the main guard of a file that the programs only import.
bool is_for_trial(const SourceFacts& facts, std::span<const Program* const> programs,
                  const Loop& loop) {
  return !programs.empty() && std::ranges::none_of(programs, [&](const Program* program) {
    return runs_in(facts, *program, *loop.statement);
  });
}

}  // namespace

bool moves_batches(const SourceFacts& facts, const Call& loader) {
  const Expr* outer = loader.expr->parent;
  const bool is_collected = outer != nullptr && outer->kind == ExprKind::for_clause;  // in a list
  if (is_collected || is_read_once(*loader.expr)) return false;
  const auto programs = training_programs_of(facts, *loader.file);
  const bool has_hooks = std::any_of(programs.begin(), programs.end(), [](const Program* program) {
    return std::any_of(program->files.begin(), program->files.end(), [](const File* file) {
      return std::any_of(file->classes.begin(), file->classes.end(),
                         [](const ClassDef* def) { return def->is_lightning_module; });
    });
  });
  auto loops = loops_over(facts, loader);
  std::erase_if(loops, [&](const Loop* loop) { return is_for_trial(facts, programs, *loop); });
  const bool moves = std::any_of(loops.begin(), loops.end(),
                                 [&](const Loop* loop) { return moves_in(facts, *loop); });
  if (moves) return true;
  // Who calls next() on a generator, `for batch in loader: yield batch`, is not among them.
  std::erase_if(loops, [](const Loop* loop) { return has_yield(loop->statement->body); });
  // Lightning calls `train_dataloader` and its like, whoever else does.
  const FunctionDef* maker = loader.function;
  const bool is_hook = has_hooks && maker != nullptr && maker->class_def != nullptr &&
                       maker->name.ends_with("_dataloader");
  if (!loops.empty() && !is_hook) return false;
  if (has_hooks) return true;
  return std::any_of(programs.begin(), programs.end(), [&](const Program* program) {
    return std::any_of(program->files.begin(), program->files.end(), [&](const File* file) {
      return std::any_of(
                 file->loops.begin(), file->loops.end(),
                 [&](const Loop* loop) { return loop->is_step() && moves_in(facts, *loop); }) ||
             std::any_of(
                 file->functions.begin(), file->functions.end(),
                 [&](const FunctionDef* function) { return is_moving_step(facts, *function); });
    });
  });
}

std::vector<const FunctionDef*> collate_functions(const Call& loader) {
  const Argument* collate = loader.argument("collate_fn", 6);
  if (collate == nullptr || collate->unpacked) return {};
  if (const FunctionDef* known = collate->value->type->function) return {known};
  const Expr* named = resolved(collate->value);
  if (named->kind != ExprKind::attribute) return {};
  std::vector<const FunctionDef*> functions;
  const auto add_own = [&](const ClassDef* def) {
    const FunctionDef* own = def->method(named->word());
    const bool is_new = own != nullptr && std::ranges::find(functions, own) == functions.end();
    if (is_new && own->class_def == def) functions.push_back(own);
  };
  const Type& owner = *named->children().front()->type;
  std::ranges::for_each(owner.classes(), add_own);
  return functions;
}

const Call* copy_below(const SourceFacts& facts, const FunctionDef& function, int depth) {
  constexpr int kFewLevels = 2;
  for (const Call* call : function.calls) {
    if (copies_to_device(facts, *call) && is_reached_by_default(facts, *call)) return call;
    const bool leads = depth < kFewLevels && call->target != nullptr && call->target != &function &&
                       call->target->name != "__init__" &&
                       call->name != "torch.nn.Module.__call__" &&
                       copy_below(facts, *call->target, depth + 1) != nullptr;
    if (leads && is_reached_by_default(facts, *call)) return call;
  }
  return nullptr;
}

bool collates_on_gpu(const SourceFacts& facts, const Call& loader) {
  const auto functions = collate_functions(loader);
  const auto copies = [&](const FunctionDef* function) {
    return copy_below(facts, *function) != nullptr;
  };
  return !functions.empty() && std::ranges::all_of(functions, copies);
}

}  // namespace rooftile::source
