#include "rooftile/analysis/source/program_queries.h"

#include <algorithm>

#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/time_loop.h"
#include "rooftile/base/text.h"

namespace rooftile::source {
bool ProgramQuestion::holds(const Program& program) {
  const auto [known, is_new] = known_.try_emplace(&program, false);
  if (is_new) known->second = judge_(program);
  return known->second;
}

bool ProgramQuestion::holds_for(const SourceFacts& facts, const File& file) {
  return std::ranges::any_of(training_programs_of(facts, file),
                             [&](const Program* program) { return holds(*program); });
}

bool has_yield(std::span<const Statement* const> block) {
  return any_statement(block, [](const Statement& each) {
    return each.value != nullptr && each.value->kind == ExprKind::yield;
  });
}

bool is_for_a_while(const Statement& statement) {
  const FunctionDef* function = statement.function;
  if (function == nullptr) return false;
  if (function->class_def != nullptr && function->class_def->method("__exit__") != nullptr) {
    return true;
  }
  return has_yield(function->body);
}

std::vector<const Call*> training_calls(const SourceFacts& facts, Words full_names) {
  std::vector<const Call*> calls = facts.calls(full_names);
  std::erase_if(calls, [&](const Call* call) {
    return !trains_on_gpu(facts, *call->file) || !is_reached_by_default(facts, *call);
  });
  return calls;
}

namespace {

std::vector<const Call*> without_tests(std::vector<const Call*> calls) {
  std::erase_if(calls, [](const Call* call) { return call->file->is_test; });
  return calls;
}

}  // namespace

std::vector<const Call*> calls_in(const SourceFacts& facts, const Program& program,
                                  Words full_names) {
  return without_tests(facts.calls_in(program, full_names));
}

std::vector<const Call*> constructions_in(const SourceFacts& facts, const Program& program,
                                          TypeKind kind) {
  return without_tests(facts.constructions_in(program, kind));
}

bool binds_torch(const File& file) {
  return std::any_of(file.body.begin(), file.body.end(), [](const Statement* statement) {
    return std::any_of(statement->imports.begin(), statement->imports.end(),
                       [](const ImportedName& name) {
                         return name.local == "torch" && name.full_name == "torch";
                       });
  });
}

const Expr* comprehension_source(const Expr& name) {
  for (const Expr* outer = name.parent; outer != nullptr; outer = outer->parent) {
    if (outer->kind != ExprKind::comprehension) continue;
    for (const Expr* clause : outer->children()) {
      if (clause->kind != ExprKind::for_clause) continue;
      if (uses_variable(clause->children()[0], name.word())) return clause->children()[1];
    }
  }
  return nullptr;
}

bool is_same_object(const Expr* a, const Expr* b) {
  if (a == nullptr || b == nullptr) return false;
  const Call* made_a = a->type->made_by;
  const Call* made_b = b->type->made_by;
  if (made_a != nullptr && made_b != nullptr) return made_a == made_b;
  return !last_name(a).empty() && last_name(a) == last_name(b);
}

bool is_gpu_device(const SourceFacts& facts, const Expr* expr) {
  if (expr == nullptr) return false;
  if (expr->type->is(TypeKind::device)) return expr->type->on_gpu();
  const Value value = facts.value(expr);
  return value.kind == ValueKind::text && value.text.starts_with("cuda");
}

bool freezes_parameter(const Statement& statement) {
  return statement.kind == StatementKind::assignment &&
         last_name(statement.target) == "requires_grad" && statement.value != nullptr &&
         statement.value->word() == "False";
}

bool is_dtype(const Value& value, Words names) {
  if (value.kind != ValueKind::name && value.kind != ValueKind::text) return false;
  std::string_view name = value.text;
  if (const std::size_t dot = name.rfind('.'); dot != std::string_view::npos) {
    name.remove_prefix(dot + 1);
  }
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool steps_optimizer(const ClassDef& def) {
  return std::ranges::any_of(def.methods, [](const FunctionDef* method) {
    return std::ranges::any_of(method->calls, [](const Call* call) {
      return call->method == "step" && call->receiver != nullptr &&
             call->receiver_type().is(TypeKind::optimizer);
    });
  });
}

// A few passes that evaluate all the same: something says so, and nothing warms up or times (a
// clock, an event or a wait for the GPU beside the loop, or a word for it).
bool is_short_evaluation(const Loop& loop) {
  const auto times = [](const Call* call) {
    return call->name.starts_with("time.") ||
           is_one_of(call->method, {"synchronize", "Event", "elapsed_time"});
  };
  const auto& calls = loop.function != nullptr ? loop.function->calls : loop.file->calls;
  const std::string name = lower(loop.function != nullptr ? loop.function->name : loop.file->path);
  if (std::ranges::any_of(calls, times) ||
      contains_any(name,
                   {"bench", "time", "timing", "speed", "warm", "profil", "fps", "latency"})) {
    return false;
  }
  const std::string over = lower(loop.file->slice(loop.statement->value->range));
  return contains_any(loop.function == nullptr ? over : name,
                      {"eval", "val", "test", "infer", "predict", "sampl", "generat"}) ||
         std::ranges::any_of(calls, [](const Call* call) { return call->method == "eval"; });
}

bool is_user_evaluation(const SourceFacts& facts, const Loop& loop) {
  const ClassDef* def = loop.function == nullptr ? nullptr : loop.function->class_def;
  const bool is_layer = def != nullptr && def->is_module && !steps_optimizer(*def);
  if (loop.role != LoopRole::evaluation_step || is_layer) return false;
  const Call* range = loop.statement->value->call();
  if (range == nullptr || range->method != "range" || range->arguments.empty()) return true;
  constexpr std::int64_t kTimedPasses = 1000;
  const std::size_t stop = range->arguments.size() == 1 ? 0 : 1;  // before it: the start
  const Value passes = facts.value(range->arguments[stop].value);
  return passes.kind != ValueKind::integer || passes.integer > kTimedPasses || feeds_itself(loop) ||
         is_short_evaluation(loop);
}

bool is_inside_module(const Call& call) {
  const ClassDef* def = call.function == nullptr ? nullptr : call.function->class_def;
  return def != nullptr && def->is_module &&
         (call.function->name == "forward" || !steps_optimizer(*def));
}

bool generates(const FunctionDef& function) {
  return contains_any(
      function.name, {"incremental", "generate", "infer", "beam", "greedy", "non_max_suppression"});
}

namespace {

// `model.predict(images, mode="train")` in the step loop, a method that runs layers of its module:
// a forward by another name.
bool stands_for_forward(const FunctionDef& function) {
  const bool is_called = std::ranges::any_of(function.callers, [](const Call* call) {
    return call->receiver != nullptr && call->receiver->type->is(TypeKind::module) &&
           training_loop_around(*call->statement) != nullptr;
  });
  return is_called && std::ranges::any_of(function.calls, [](const Call* call) {
           const Expr& layer = *call->expr->children()[0];
           return call->name == "torch.nn.Module.__call__" && layer.kind == ExprKind::attribute &&
                  last_name(layer.children()[0]) == "self";
         });
}

}  // namespace

bool runs_in_forward(const FunctionDef* function, int depth) {
  constexpr std::size_t kFewCallers = 8;  // callers of callers multiply
  if (function == nullptr || depth > kMaxCallDepth) return false;
  if (generates(*function)) return false;
  const ClassDef* def = function->class_def;
  if (def != nullptr && (def->is_module || def->is_autograd_function)) {
    if (function->name == "forward") return true;
    if (def->is_module && stands_for_forward(*function)) return true;
  }
  const std::size_t callers = function->callers.size();
  if (callers == 0 || callers > kFewCallers) return false;
  return std::ranges::all_of(function->callers, [&](const Call* call) {
    return runs_in_forward(call->function, depth + 1);
  });
}

namespace {

// `obs, reward, done, info = self.envs.step(actions)`
bool steps_environment(const Call& call) {
  if (call.method != "step" || call.receiver == nullptr) return false;
  const std::string name = lower(last_name(call.receiver));
  const Expr* target = call.statement->target;
  const bool is_environment = is_one_of(name, {"env", "envs", "environment"}) ||
                              name.ends_with("_env") || name.ends_with("_envs");
  if (!is_environment || target == nullptr || target->children().size() < 3) return false;
  return std::ranges::any_of(target->children(), [](const Expr* part) {
    return contains_any(lower(last_name(part)), {"reward", "done", "terminat", "truncat"});
  });
}

}  // namespace

bool is_reinforcement_learning(const Program& program) {
  return std::any_of(program.files.begin(), program.files.end(), [](const File* file) {
    if (std::ranges::any_of(file->calls, [](auto* call) { return steps_environment(*call); })) {
      return true;
    }
    return std::ranges::any_of(
        std::initializer_list<std::string_view>{
            "gym", "gymnasium", "dm_control", "pettingzoo", "procgen", "stable_baselines3",
            "atari_py", "minigrid", "ray.rllib", "tianshou", "torchrl", "rlpyt", "ale_py",
            "vizdoom", "mujoco_py", "dmc2gym", "metaworld"},
        [&](std::string_view package) { return file->imports_from(package); });
  });
}

bool has_training_framework(const Program& program) {
  const bool has_own_trainer =
      std::any_of(program.files.begin(), program.files.end(), [](const File* file) {
        return std::any_of(file->classes.begin(), file->classes.end(), [](const ClassDef* def) {
          return def->name == "Trainer" && !def->is_hf_trainer;
        });
      });
  if (!has_own_trainer && mentions(program, {"Trainer"})) return true;
  // "modified from fairseq's" in the text of a copied file brings no framework.
  const auto imports_one = [](const File* file) {
    return std::ranges::any_of(
        std::initializer_list<std::string_view>{"fairseq", "mmcv", "mmengine", "fastai", "ignite",
                                                "composer", "lightning", "pytorch_lightning"},
        [&](std::string_view package) { return file->imports_from(package); });
  };
  return std::ranges::any_of(program.files, imports_one) ||
         mentions(program, {"accelerate", "Accelerator", "deepspeed", "LightningModule",
                            "Seq2SeqTrainer", "Fabric"});
}

bool shows_pytorch_2(const Program& program) {
  return mentions(program,
                  {"torch.compile", "torch.amp.", "torch.autocast", "scaled_dot_product_attention",
                   "set_float32_matmul_precision", "torch._dynamo", "torchrun", "fully_shard",
                   "fused=", "torch.func", "set_default_device"});
}

}  // namespace rooftile::source
