// Who moves the batches of a loader to the GPU, for loaders.h.
#include <algorithm>

#include "rooftile/analysis/source/host_allocations.h"
#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/returned_loaders.h"
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
  if (made->kind == ExprKind::conditional && !made->children().empty()) made = made->children()[0];
  return made->full_name().starts_with("torch.cuda.");
}

// A parameter that some caller gives what it runs over: `for left, right in loader: train(left,
// right)`. Also one of a function that is only handed on: `map(to_tensor, batch)`.
bool is_passed_from_loop(const Expr& name) {
  const FunctionDef* function = name.statement == nullptr ? nullptr : name.statement->function;
  if (name.kind != ExprKind::name || function == nullptr) return false;
  if (name.binding() == nullptr && function->callers.empty()) return true;
  return std::ranges::any_of(function->callers, [&](const Call* caller) {
    const Argument* given = passed_argument(*caller, *function, name.word());
    const Statement* binding = given == nullptr ? nullptr : given->value->binding();
    return binding != nullptr && binding->kind == StatementKind::for_;
  });
}

// torch.LongTensor(ids), torch.tensor(texts), pad_sequence([…]): made of Python's lists in the
// step, in memory that no loader has pinned.
bool is_new_tensor(const SourceFacts& facts, const Expr& value) {
  using script::SourceStep;
  return script::find_source(facts, value, [](const Expr& part) {
    const Call* call = part.call();
    if (call == nullptr) {
      const bool is_followed = part.kind == ExprKind::name || part.kind == ExprKind::list ||
                               part.kind == ExprKind::comprehension;
      return is_followed ? SourceStep::go_on : SourceStep::stop;
    }
    if (is_one_of(call->name, {"torch.tensor", "torch.as_tensor", "torch.LongTensor",
                               "torch.FloatTensor", "torch.IntTensor", "torch.ByteTensor"})) {
      // `for data, labels in loader:` gives tensors, as a rule; so do callers of a step function.
      const Expr* given = call->arguments.empty() ? nullptr : call->arguments.front().value;
      const Statement* binding = given == nullptr ? nullptr : given->binding();
      const bool is_of_loop = binding != nullptr && binding->kind == StatementKind::for_;
      const bool is_batch = is_of_loop || (given != nullptr && is_passed_from_loop(*given));
      return is_batch ? SourceStep::stop : SourceStep::found;
    }
    const bool joins = is_one_of(call->name, {"torch.nn.utils.rnn.pad_sequence", "torch.stack",
                                              "torch.cat", "torch.autograd.Variable"});
    if (call->target != nullptr) return SourceStep::stop;
    return joins ? SourceStep::go_on : SourceStep::receiver;
  });
}

bool moves_data(const SourceFacts& facts, const Call& call) {
  // Nor are noise, masks and first states, made of sizes alone, from a batch.
  if (call.receiver == nullptr) return false;
  const Expr& moved = *call.receiver;
  if (is_new_tensor(facts, moved) || host_allocation(facts, moved) != nullptr) return false;
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
  bool yields = false;
  if (function == nullptr) return nullptr;
  for_statements(function->body, [&](const Statement& statement) {
    yields = yields || (statement.value != nullptr && statement.value->kind == ExprKind::yield);
  });
  return yields ? function : nullptr;
}

// `cuda = lambda x: x.cuda()`, and then `cuda(images)`; functions that callers pass.
template <class Test>
bool any_call_in_value(const SourceFacts& facts, const Call& call, const Test& test) {
  const bool is_method = call.receiver != nullptr && call.receiver_type().class_def == nullptr;
  if (call.target != nullptr || is_method || call.expr->children().empty()) {
    return false;
  }
  const auto callees = script::origins(facts, *call.expr->children()[0]);
  return std::ranges::any_of(callees, [&](const Expr* callee) {
    bool found = false;
    if (callee->kind == ExprKind::lambda) {
      visit(callee, [&](const Expr& part) {
        found = found || (part.call() != nullptr && test(*part.call()));
        return !found;
      });
    }
    const FunctionDef* function = callee->type->function;
    return found || (function != nullptr && any_call_below(*function, kMaxWrappers, test));
  });
}

bool moves_by(const SourceFacts& facts, const Call& call) {
  const FunctionDef* function = call.target != nullptr ? call.target : mapped_function(call);
  if (function == nullptr) function = stepped_generator(facts, call);
  const auto moves = [&](const Call& inner) { return moves_data(facts, inner); };
  return moves(call) || (function != nullptr && any_call_below(*function, kMaxWrappers, moves)) ||
         any_call_in_value(facts, call, moves);
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

// A loop of a generator: `for batch in loader: yield batch`.
bool hands_on(const Loop& loop) {
  bool yields = false;
  for_statements(loop.statement->body, [&](const Statement& statement) {
    yields = yields || (statement.value != nullptr && statement.value->kind == ExprKind::yield);
  });
  return yields;
}

// `for images, labels in loader: break` in a notebook.
bool only_looks(const Loop& loop) {
  const auto body = loop.statement->body;
  return !loop.is_step() && loop.function == nullptr &&
         std::any_of(body.begin(), body.end(),
                     [](const Statement* each) { return each->kind == StatementKind::break_; });
}

}  // namespace

namespace {

// `opt.cuda`, `not args.no_cuda`: on in each run with something to copy.
bool says_gpu(const Expr* expr) {
  if (expr == nullptr) return false;
  if (expr->kind == ExprKind::logical && expr->word() == "not") {
    return is_one_of(lower(last_name(expr->children().front())),
                     {"no_cuda", "no_gpu", "disable_cuda", "cpu", "use_cpu", "cpu_only"});
  }
  return expr->kind == ExprKind::attribute &&
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

// `[x for x, y in DataLoader(data)]`: the comprehension; null elsewhere.
const Expr* comprehension_over(const Call& loader) {
  const Expr* outer = loader.expr->parent;
  return outer != nullptr && outer->kind == ExprKind::for_clause ? outer->parent : nullptr;
}

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
         use.statement != nullptr && use.statement->function == made.function &&
         loop_around(use.statement) == nullptr;
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
  if (is_argument_of(loader.expr, "len") || is_dropped_by_callers(loader)) return true;
  const bool is_plain = made != nullptr && made->kind == StatementKind::assignment &&
                        made->value == loader.expr && made->target != nullptr &&
                        made->target->kind == ExprKind::name;
  if (!is_plain) return false;
  bool reads = false;
  for (const Statement* statement : loader.file->statements) {
    if (reads) return false;
    for_own_expressions(*statement, [&](const Expr* expr) {
      visit(expr, [&](const Expr& part) {
        const bool is_it = part.kind == ExprKind::name && part.word() == made->target->word();
        reads = reads || (is_it && &part != made->target && !is_harmless(part, *made));
        return !reads;
      });
    });
  }
  return !reads && !is_seen_elsewhere(facts, *made);
}

namespace {

// A loop under the main guard of a file that the programs only import.
bool is_for_trial(const SourceFacts& facts, std::span<const Program* const> programs,
                  const Loop& loop) {
  return !programs.empty() && std::ranges::none_of(programs, [&](const Program* program) {
    return runs_in(facts, *program, *loop.statement);
  });
}

bool moves_inside(const SourceFacts& facts, const Expr& expr) {
  bool moves = false;
  visit(&expr, [&](const Expr& part) {
    moves = moves || (part.call() != nullptr && moves_by(facts, *part.call()));
    return !moves;
  });
  return moves;
}

}  // namespace

bool feeds_step_loop(const SourceFacts& facts, const Call& call) {
  const FunctionDef* function = call.function;
  const bool is_iterator =
      function != nullptr && function->class_def != nullptr && function->name == "__iter__";
  if (!is_iterator || !is_reached_by_default(facts, call)) return false;
  bool repeats = loop_around(call.statement) != nullptr;
  for (const Expr* outer = call.expr; outer != nullptr && !repeats; outer = outer->parent) {
    repeats = outer->kind == ExprKind::comprehension;
  }
  const auto goes_through = [&](const Loop* loop) {
    const Expr* iterated = loop->statement->value;
    while (iterated != nullptr && iterated->call() != nullptr &&
           !iterated->call()->arguments.empty() && iterated->call()->target == nullptr &&
           iterated->type->class_def == nullptr) {
      iterated = iterated->call()->arguments.front().value;  // enumerate(batches), tqdm(batches)
    }
    return iterated != nullptr && iterated->type->class_def == function->class_def;
  };
  return repeats && std::ranges::any_of(facts.loops(LoopRole::training_step), goes_through);
}

bool moves_batches(const SourceFacts& facts, const Call& loader) {
  if (is_read_once(*loader.expr) || is_hardly_read(facts, loader)) return false;
  if (const Expr* reader = comprehension_over(loader)) return moves_inside(facts, *reader);
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
  // Who calls next() on a generator is not among them.
  std::erase_if(loops, [](const Loop* loop) { return hands_on(*loop) || only_looks(*loop); });
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

std::vector<const FunctionDef*> collate_functions(const SourceFacts& facts, const Call& loader) {
  const Argument* collate = loader.argument("collate_fn", 6);
  if (collate == nullptr || collate->unpacked) return {};
  if (const FunctionDef* known = collate->value->type->function) return {known};
  const Expr* named = resolved(collate->value);
  if (named->kind != ExprKind::attribute || named->children().empty()) return {};
  std::vector<const FunctionDef*> functions;
  const auto add_own = [&](const ClassDef* def) {
    const FunctionDef* own = def->method(named->word());
    const bool is_new = own != nullptr && std::ranges::find(functions, own) == functions.end();
    if (is_new && own->class_def == def) functions.push_back(own);
  };
  const Type& owner = *named->children().front()->type;
  std::ranges::for_each(owner.classes(), add_own);
  if (!owner.is(TypeKind::unknown)) return functions;
  for (const Program* program : training_programs_of(facts, *loader.file)) {
    for (const File* file : program->files) {
      for (const ClassDef* def : file->classes) {
        if (def->is_dataset) add_own(def);
      }
    }
  }
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
  const auto functions = collate_functions(facts, loader);
  const auto copies = [&](const FunctionDef* function) {
    return copy_below(facts, *function) != nullptr;
  };
  return !functions.empty() && std::ranges::all_of(functions, copies);
}

}  // namespace rooftile::source
