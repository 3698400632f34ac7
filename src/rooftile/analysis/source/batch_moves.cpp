// Who moves the batches of a loader to the GPU, for loaders.h.
#include <algorithm>

#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"
#include "rooftile/workload/source_store.h"

namespace rooftile::source {
namespace {

// `x.type(Tensor)` where Tensor is torch.cuda.FloatTensor if there is a GPU.
bool converts_to_gpu(const Call& call) {
  if (call.method != "type" || call.arguments.size() != 1) return false;
  const Expr* made = resolved(call.arguments.front().value);
  if (made->kind == ExprKind::conditional && !made->children.empty()) made = made->children[0];
  return made->full_name.starts_with("torch.cuda.");
}

bool moves_data(const SourceFacts& facts, const Call& call) {
  return copies_to_device(facts, call) || converts_to_gpu(call) ||
         (call.method == "copy_" && !call.receiver_type().is(TypeKind::module));
}

bool moves_by(const SourceFacts& facts, const Call& call) {
  return moves_data(facts, call) ||
         (call.target != nullptr &&
          any_call_below(*call.target, kMaxCallDepth - 1,
                         [&](const Call& inner) { return moves_data(facts, inner); }));
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

// `--cuda` with default=torch.cuda.is_available().
bool is_on_with_gpu(const SourceFacts& facts, const Expr* expr) {
  const auto& options = facts.store().options;
  const auto found = options.find(last_name(expr));
  if (expr == nullptr || expr->kind != ExprKind::attribute || found == options.end()) return false;
  const Expr* usual = found->second.value;
  return !found->second.several && usual != nullptr && usual->call != nullptr &&
         usual->call->method == "is_available";
}

}  // namespace

bool is_set_by_default(const SourceFacts& facts, const Value& value) {
  if (is_on_with_gpu(facts, value.expr) || truth_on_gpu(value.expr) == true) return true;
  const std::string_view option = last_name(value.expr);
  const Statement* statement = value.expr == nullptr ? nullptr : value.expr->statement;
  if (option.empty() || statement == nullptr) return false;
  const std::string wanted = std::string(option) + "=True";
  for (const Program* program : facts.programs_of(*statement->file)) {
    for (const File* file : program->files) {
      const std::string& text = file->text;
      if (!mentions(*file, {"set_defaults"})) continue;
      for (std::size_t at = find_in_text(text, "set_defaults("); at != std::string::npos;
           at = find_in_text(text, "set_defaults(", at + 1)) {
        if (text.find(wanted, at) < text.find(')', at)) return true;
      }
    }
  }
  return false;
}

namespace {

bool takes_over(const Program& program, const File& file) {
  return std::any_of(program.files.begin(), program.files.end(), [&](const File* one) {
    // Files that no entry imports have nothing to do with each other.
    if (program.entry == nullptr && one != &file) return false;
    if (one->imports_from("accelerate") || one->imports_from("lightning.fabric")) return true;
    return std::any_of(one->calls.begin(), one->calls.end(), [](const Call* call) {
      return call->name == "transformers.Trainer" || call->name == "transformers.Seq2SeqTrainer";
    });
  });
}

}  // namespace

// Of several programs one that moves its batches by itself is enough.
bool is_taken_over(const SourceFacts& facts, const File& file) {
  const auto programs = training_programs_of(facts, file);
  return !programs.empty() &&
         std::all_of(programs.begin(), programs.end(),
                     [&](const Program* program) { return takes_over(*program, file); });
}

namespace {

// `[x for x, y in DataLoader(data)]`: the comprehension; null elsewhere.
const Expr* comprehension_over(const Call& loader) {
  const Expr* outer = loader.expr->parent;
  return outer != nullptr && outer->kind == ExprKind::for_clause ? outer->parent : nullptr;
}

// `next(iter(DataLoader(data)))`
bool is_read_once(const Call& loader) {
  const Expr* iterator = loader.expr->parent;
  if (iterator == nullptr || iterator->call == nullptr || iterator->call->name != "iter") {
    return false;
  }
  const Expr* outer = iterator->parent;
  return outer != nullptr && outer->call != nullptr && outer->call->name == "next";
}

// `loader = DataLoader(data)` for nothing but len(loader).
bool is_only_counted(const Call& loader) {
  const Statement* made = loader.statement;
  const Expr* outer = loader.expr->parent;
  if (outer != nullptr && outer->call != nullptr && outer->call->name == "len") return true;
  const bool is_plain = made != nullptr && made->kind == StatementKind::assignment &&
                        made->value == loader.expr && made->target != nullptr &&
                        made->target->kind == ExprKind::name;
  if (!is_plain) return false;
  bool counts = false;
  bool reads = false;
  for (const Statement* statement : loader.file->statements) {
    for_own_expressions(*statement, [&](const Expr* expr) {
      visit(expr, [&](const Expr& part) {
        const bool is_it = part.kind == ExprKind::name && part.word == made->target->word;
        if (!is_it || &part == made->target) return true;
        const bool is_counted = part.parent != nullptr && part.parent->call != nullptr &&
                                part.parent->call->name == "len";
        (is_counted ? counts : reads) = true;
        return true;
      });
    });
  }
  return counts && !reads;
}

bool moves_inside(const SourceFacts& facts, const Expr& expr) {
  bool moves = false;
  visit(&expr, [&](const Expr& part) {
    moves = moves || (part.call != nullptr && moves_by(facts, *part.call));
    return !moves;
  });
  return moves;
}

}  // namespace

bool moves_batches(const SourceFacts& facts, const Call& loader) {
  if (is_read_once(loader)) return false;
  if (const Expr* reader = comprehension_over(loader)) return moves_inside(facts, *reader);
  const auto programs = training_programs_of(facts, *loader.file);
  const bool has_hooks = std::any_of(programs.begin(), programs.end(), [](const Program* program) {
    return std::any_of(program->files.begin(), program->files.end(), [](const File* file) {
      return std::any_of(file->classes.begin(), file->classes.end(),
                         [](const ClassDef* def) { return def->is_lightning_module; });
    });
  });
  auto loops = loops_over(facts, loader);
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
  if (is_only_counted(loader)) return false;
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

bool collates_on_gpu(const SourceFacts& facts, const Call& loader) {
  const Argument* collate = loader.argument("collate_fn", 6);
  const FunctionDef* function =
      collate == nullptr || collate->unpacked ? nullptr : collate->value->type->function;
  return function != nullptr && std::ranges::any_of(function->calls, [&](const Call* inner) {
           return copies_to_device(facts, *inner) && is_reached_by_default(facts, *inner);
         });
}

}  // namespace rooftile::source
