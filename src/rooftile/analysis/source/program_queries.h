// Questions that several rules on training scripts ask of the facts: which programs count, what a
// run reaches without being asked to, what is said anywhere in a program.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rooftile/script/reach/programs.h"
#include "rooftile/workload/source_facts.h"
#include "rooftile/workload/source_walks.h"

namespace rooftile::source {

// What is asked of whole programs, by a search through their texts, and judged once for each.
class ProgramQuestion {
 public:
  explicit ProgramQuestion(std::function<bool(const Program&)> judge) : judge_(std::move(judge)) {}

  bool holds(const Program& program);
  // Of one of the training programs that the file belongs to.
  bool holds_for(const SourceFacts& facts, const File& file);

 private:
  std::function<bool(const Program&)> judge_;
  std::unordered_map<const Program*, bool> known_;
};

// Whether a statement of the block yields, nested functions left out.
bool has_yield(std::span<const Statement* const> block);
// In a generator or a class with `__exit__`, as context managers are: set for a block, then back.
bool is_for_a_while(const Statement& statement);

// Calls of the names (as SourceFacts::calls) in training programs, reached by default.
std::vector<const Call*> training_calls(const SourceFacts& facts, Words full_names);
// The same within one program, tests left out, reached or not.
std::vector<const Call*> calls_in(const SourceFacts& facts, const Program& program,
                                  Words full_names);
std::vector<const Call*> constructions_in(const SourceFacts& facts, const Program& program,
                                          TypeKind kind);

// Whether the text, comments left out, has one of the words; '_' and '-' separate words, so "amp"
// is in use_amp and --no-amp but not in sample. Case matters.
bool mentions(const File& file, Words words);
bool mentions(const Program& program, Words words);

// Whether `torch` is the library's name in the file, so that a fix may write torch.x.
bool binds_torch(const File& file);

// `t.cuda() for t in batch`: of the variable what the comprehension runs over; null for other
// names.
const Expr* comprehension_source(const Expr& name);
// Whether both stand for one object: made by the same call, else spelled the same.
bool is_same_object(const Expr* a, const Expr* b);
// Whether the expression is a device or device text that names a GPU.
bool is_gpu_device(const SourceFacts& facts, const Expr* expr);
// `p.requires_grad = False`.
bool freezes_parameter(const Statement& statement);
// Whether the value is a dtype of one of the names without "torch.": {"float16", "half"}.
bool is_dtype(const Value& value, Words names);

// An evaluation of a whole model by its user: not a loop inside a module, whose caller decides, nor
// one over a short range that nothing calls an evaluation, as warm-up and timing are.
bool is_user_evaluation(const SourceFacts& facts, const Loop& loop);
// Whether the call stands in a method of a module.
bool is_inside_module(const Call& call);
// A module with a method that steps an optimizer: a whole model with its training.
bool steps_optimizer(const ClassDef& def);
// Whether the function is the forward of a module or an autograd function, or a helper that only
// such call.
bool runs_in_forward(const FunctionDef* function, int depth = 0);
// Makes output step by step in place of the training path: incremental_forward, beam_search.
bool generates(const FunctionDef& function);

// Code whose numbers must not change for speed: a module or the default dtype in float64,
// second-order derivatives.
bool is_numerically_strict(const SourceFacts& facts, const Program& program);
// Trains an agent in an environment: gym and its relatives.
bool is_reinforcement_learning(const Program& program);
// A framework that does mixed precision, loss scaling and gradient handling on its own:
// accelerate, DeepSpeed, Lightning's and transformers' trainers, fairseq.
bool has_training_framework(const Program& program);
// Whether the program is written for PyTorch 2: torch.compile, torch.amp, set_float32_… are used.
bool shows_pytorch_2(const Program& program);

}  // namespace rooftile::source
