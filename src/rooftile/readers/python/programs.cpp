// Which files run, what belongs to each program, and whether it trains on a GPU.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "rooftile/base/text.h"
#include "rooftile/readers/python/derive.h"
#include "rooftile/workload/source_store.h"
#include "rooftile/workload/source_walks.h"

namespace rooftile::source {
namespace {

bool is_main_guard(const Statement& statement) {
  if (statement.kind != StatementKind::if_) return false;
  return find_inside(statement.value, [](const Expr& expr) {
           return expr.kind == ExprKind::name && expr.word() == "__name__";
         }) != nullptr;
}

bool starts_training(const Call& call) {
  const bool runs = call.method == "fit" || call.method == "train";
  return runs && call.receiver_type().is(TypeKind::trainer);
}

// Whether the function trains, or one that it calls.
bool runs_training_loop(const FunctionDef& function) {
  constexpr int kMaxLevels = 2;
  bool found = false;
  for_functions_below(function, kMaxLevels, [&](const FunctionDef& one) {
    found = found || std::ranges::any_of(one.file->loops, [&](const Loop* loop) {
              return loop->function == &one && loop->role == LoopRole::training_step;
            });
    return !found;
  });
  return found;
}

// `main()` or `trainer.train(loader)` at the top of a file, with no guard.
bool calls_training(const File& file) {
  return std::ranges::any_of(file.calls, [&](const Call* call) {
    return call->function == nullptr && call->target != nullptr &&
           runs_training_loop(*call->target);
  });
}

bool is_entry(const File& file) {
  if (file.is_notebook) return true;
  if (std::ranges::any_of(file.body, [](const Statement* each) { return is_main_guard(*each); })) {
    return true;
  }
  const bool trains = std::ranges::any_of(file.loops, [](const Loop* loop) {
    return loop->function == nullptr && (loop->is_step() || loop->role == LoopRole::epoch);
  });
  return trains || calls_training(file) || std::ranges::any_of(file.calls, [](const Call* call) {
           return call->function == nullptr && starts_training(*call);
         });
}

// `if args.device.startswith("cuda"):` around it: the device decides.
bool asks_for_device(const Call& call) {
  for (const Statement* at = call.statement; at != nullptr; at = at->parent) {
    if (at->kind != StatementKind::if_) continue;
    const std::string_view condition = at->file->slice(at->value->range);
    if (contains_any(condition, {"cuda", "device", "gpu"})) return true;
  }
  return false;
}

// Calls that make no sense without a GPU.
bool is_cuda_call(const Call& call) {
  constexpr std::string_view kNames[] = {
      "torch.cuda.set_device",     "torch.cuda.amp.autocast", "torch.cuda.amp.GradScaler",
      "torch.cuda.synchronize",    "torch.cuda.Stream",       "torch.cuda.current_stream",
      "torch.cuda.current_device", "torch.cuda.Event",        "torch.cuda.empty_cache"};
  return std::ranges::find(kNames, call.name) != std::end(kNames) && !asks_for_device(call);
}

// Runs when the file itself is started, not when another imports it.
bool is_under_main_guard(const Call& call) {
  for (const Statement* at = call.statement; at != nullptr; at = at->parent) {
    if (is_main_guard(*at)) return true;
  }
  return false;
}

// `@click.option("--device", default="cuda")`
bool is_gpu_option(const Call& call) {
  if (call.name != "click.option" && call.name != "typer.Option") return false;
  const Argument* usual = call.argument("default");
  return usual != nullptr && usual->value->kind == ExprKind::text &&
         usual->value->word().starts_with("cuda");
}

// Something of the file surely lives on a GPU; `when_imported`: in a program that imports it.
bool uses_gpu(const File& file, bool when_imported) {
  return std::ranges::any_of(file.calls, [&](const Call* call) {
    if (when_imported && is_under_main_guard(*call)) return false;
    const Type& type = *call->expr->type;
    const bool moves = call->method == "cuda" && call->receiver != nullptr;
    const bool device = type.is(TypeKind::device) && type.on_gpu();
    const bool data = (type.is(TypeKind::tensor) || type.is(TypeKind::module)) && type.on_gpu();
    return moves || device || data || type.is(TypeKind::accelerator) || is_cuda_call(*call) ||
           is_gpu_option(*call) || starts_training(*call);
  });
}

bool is_package(const File& file) { return file.path.ends_with("__init__.py"); }

// Whether the file may only have run because the importer takes a module out of it.
bool is_passed_through(const File& package, const File& importer) {
  const std::string below = package.module + ".";
  return is_package(package) && std::ranges::any_of(importer.imported, [&](const File* one) {
           return one->module.starts_with(below);
         });
}

// Packages that `others` have, and that are only passed through, are left out.
void add_imported(const File& file, Program& program, const FileSet& others = {}) {
  std::vector<const File*> pending{&file};
  while (!pending.empty()) {
    const File* next = pending.back();
    pending.pop_back();
    if (!program.file_set.insert(*next)) continue;
    program.files.push_back(next);
    for (const File* one : next->imported) {
      if (!others.contains(*one) || !is_passed_through(*one, *next)) pending.push_back(one);
    }
  }
}

// The parts of `left`, each of the files that import each other, directly or through others: who
// trains may be outside of the given files, but what has nothing to do with it is no part of it.
std::vector<std::vector<const File*>> parts_of(const std::vector<const File*>& left) {
  std::unordered_map<const File*, std::vector<const File*>> neighbours;
  for (const File* file : left) neighbours[file];
  for (const File* file : left) {
    for (const File* one : file->imported) {
      if (!neighbours.contains(one)) continue;
      neighbours[file].push_back(one);
      neighbours[one].push_back(file);
    }
  }
  FileSet seen;
  std::vector<std::vector<const File*>> parts;
  for (const File* first : left) {
    if (!seen.insert(*first)) continue;
    std::vector<const File*>& part = parts.emplace_back(1, first);
    for (std::size_t next = 0; next < part.size(); ++next) {
      for (const File* one : neighbours.at(part[next])) {
        if (seen.insert(*one)) part.push_back(one);
      }
    }
  }
  return parts;
}

// What no entry imports, with what it imports, as programs without an entry.
void add_libraries(const std::vector<const File*>& left, const FileSet& reached,
                   std::vector<Program>& programs) {
  for (const std::vector<const File*>& part : parts_of(left)) {
    Program library;
    for (const File* file : part) add_imported(*file, library, reached);
    programs.push_back(std::move(library));
  }
}

// What a file adds to its programs, whichever they are.
struct Share {
  bool uses_gpu = false, uses_gpu_when_imported = false;
  bool trains = false;           // by a library, which calls the step
  bool starts_training = false;  // tells the library to
  std::vector<const Loop*> training_loops;
};

Share share_of(const File& file) {
  Share share;
  share.uses_gpu = uses_gpu(file, false);
  share.uses_gpu_when_imported = share.uses_gpu && uses_gpu(file, true);
  share.starts_training =
      std::ranges::any_of(file.calls, [](const Call* call) { return starts_training(*call); });
  share.trains = share.starts_training ||
                 std::ranges::any_of(file.classes, &ClassDef::is_lightning_module) ||
                 std::ranges::any_of(file.functions, &FunctionDef::is_training_step);
  for (const Loop* loop : file.loops) {
    if (loop->role == LoopRole::training_step) share.training_loops.push_back(loop);
  }
  return share;
}

using Shares = std::unordered_map<const File*, Share>;

bool starts_training(const Program& program, const Shares& shares) {
  return std::ranges::any_of(program.files,
                             [&](const File* file) { return shares.at(file).starts_training; });
}

// A script that takes the modules of a training, which another one starts, to run them. `starters`
// are the programs that start one.
bool leaves_starting_to_another(const Program& program, const std::vector<const Program*>& starters,
                                const Shares& shares) {
  if (program.entry == nullptr || std::ranges::find(starters, &program) != starters.end()) {
    return false;
  }
  return std::ranges::all_of(program.files, [&](const File* file) {
    return !shares.at(file).trains ||
           std::ranges::any_of(starters, [&](const Program* other) { return other->has(*file); });
  });
}

bool holds_step(const File& file) {
  return std::ranges::any_of(file.functions, [](const FunctionDef* function) {
    return function->is_training_step || function->is_open_step;
  });
}

bool holds_evaluation_on_gpu(const File& file) {
  return std::ranges::any_of(file.loops, [](const Loop* loop) {
    return loop->role == LoopRole::evaluation_step && loop->on_gpu;
  });
}

void describe(Program& program, const Shares& shares, bool only_runs) {
  bool trains = false;
  bool gpu = false;
  for (const File* file : program.files) {
    const Share& share = shares.at(file);
    gpu = gpu || (file == program.entry ? share.uses_gpu : share.uses_gpu_when_imported);
    trains = trains || (share.trains && !only_runs);
    program.training_loops.insert(program.training_loops.end(), share.training_loops.begin(),
                                  share.training_loops.end());
  }
  program.trains_on_gpu = gpu && (trains || !program.training_loops.empty());
  if (!gpu) return;
  for (const File* file : program.files) {
    for (const Loop* loop : file->loops) const_cast<Loop*>(loop)->on_gpu |= loop->is_step();
  }
  const auto any_file = [&](bool (*asked)(const File&)) {
    return std::ranges::any_of(program.files, [&](const File* file) { return asked(*file); });
  };
  program.infers_on_gpu = program.entry != nullptr && !program.entry->is_test &&
                          !program.trains_on_gpu && !any_file(holds_step) &&
                          any_file(holds_evaluation_on_gpu);
}

// How often `for _ in range(5):` runs, over no loader; empty for other loops.
std::optional<std::int64_t> counted_passes(const Loop& loop) {
  const Call* over = loop.statement->value->call();
  const bool counts = loop.loader == nullptr && over != nullptr && over->name == "range" &&
                      over->arguments.size() == 1;
  return counts ? parse_integer(over->arguments.front().value->word()) : std::nullopt;
}

// `for _ in range(5):` at the top of a file.
bool is_short_trial(const Loop& loop) {
  constexpr int kFewPasses = 100;
  const auto passes = counted_passes(loop);
  return loop.function == nullptr && passes && *passes <= kFewPasses;
}

// `for _ in range(3):` of a loop that nothing goes around: a few steps to see whether it runs.
bool is_smoke_test(const Loop& loop) {
  constexpr int kMostPasses = 3;
  const auto passes = counted_passes(loop);
  const bool is_short = loop.role == LoopRole::training_step && passes && *passes <= kMostPasses;
  if (!is_short || loop_around(loop.statement->parent) != nullptr) return false;
  return loop.function == nullptr || loop.function->callers.empty();
}

// Smoke tests train nothing.
void leave_smoke_tests_out(SourceFacts& facts) {
  for (const auto& file : facts.files) {
    for (const Loop* loop : file->loops) {
      if (is_smoke_test(*loop)) const_cast<Loop*>(loop)->role = LoopRole::other;
    }
  }
}

// A file of modules that tries them out under its main guard.
bool tries_modules_out(const File& file) {
  if (file.is_notebook || std::ranges::none_of(file.classes, &ClassDef::is_module)) return false;
  bool has_trial = false;
  for (const Loop* loop : file.loops) {
    if (loop->role != LoopRole::training_step) continue;
    if (!is_short_trial(*loop)) return false;
    has_trial = true;
  }
  return has_trial;
}

bool trains_by_itself(const Program& program) {
  return std::ranges::any_of(program.files, [](const File* file) {
    return !tries_modules_out(*file) && std::ranges::any_of(file->loops, [](const Loop* loop) {
      return loop->role == LoopRole::training_step;
    });
  });
}

// Trials of modules that another program trains are no programs.
void leave_trials_out(std::vector<Program>& programs) {
  const auto is_trial = [&](const Program& program) {
    const File* entry = program.entry;
    return tries_modules_out(*entry) && std::ranges::any_of(programs, [&](const Program& other) {
             return &other != &program && other.has(*entry) && trains_by_itself(other);
           });
  };
  std::vector<const File*> trials;
  for (const Program& program : programs) {
    if (is_trial(program)) trials.push_back(program.entry);
  }
  for (const File* file : trials) {
    const_cast<File*>(file)->is_entry = false;
    for (const Loop* loop : file->loops) {
      if (loop->role == LoopRole::training_step) const_cast<Loop*>(loop)->role = LoopRole::other;
    }
    std::erase_if(programs, [&](const Program& program) { return program.entry == file; });
  }
}

// Whether it derives from a class of a library other than PyTorch, directly or through own classes.
bool has_unseen_base(const SourceFacts& facts, const ClassDef& def) {
  if (def.is_module || def.is_dataset || def.is_autograd_function) return false;
  const auto is_unseen = [&](const Expr* base) {
    const std::string_view name = base->full_name();
    return contains(name, ".") && !facts.store().classes_by_name.contains(name) &&
           !is_one_of(name.substr(0, name.find('.')), {"torch", "abc", "typing", "enum"});
  };
  return std::ranges::any_of(lineage(facts.store(), &def), [&](const ClassDef* each) {
    return std::ranges::any_of(each->bases, is_unseen);
  });
}

// Whether a call makes one of exactly this class, or a registry, by the decorator above it.
bool is_made_itself(const SourceFacts& facts, const ClassDef& def) {
  return !facts.calls(def.full_name).empty() ||
         std::ranges::any_of(def.decorators, [](const Expr* each) {
           return each->call() != nullptr && contains(lower(each->call()->method), "regist");
         });
}

// The same, or of a class that derives from it.
bool is_made(const SourceFacts& facts, const ClassDef& def) {
  if (is_made_itself(facts, def)) return true;
  return std::ranges::any_of(facts.files, [&](const auto& file) {
    return std::ranges::any_of(file->classes, [&](const ClassDef* other) {
      const std::vector<const ClassDef*> all = lineage(facts.store(), other);
      return std::ranges::find(all, &def) != all.end() && is_made_itself(facts, *other);
    });
  });
}

// run_step() of a trainer that derives from a library's: the loop around it is in the library.
void mark_steps_of_libraries(const SourceFacts& facts) {
  for (const auto& file : facts.files) {
    for (const FunctionDef* function : file->functions) {
      if (!function->is_open_step || function->class_def == nullptr) continue;
      const ClassDef& def = *function->class_def;
      if (!has_unseen_base(facts, def) || !is_made(facts, def)) continue;
      const_cast<FunctionDef*>(function)->is_training_step = true;
    }
  }
}

}  // namespace

void find_programs(SourceFacts& facts) {
  leave_smoke_tests_out(facts);
  FileSet reached;
  for (const auto& file : facts.files) {
    file->is_entry = is_entry(*file);
    if (!file->is_entry) continue;
    Program program;
    program.entry = file.get();
    add_imported(*file, program);
    reached.add(program.file_set);
    facts.programs.push_back(std::move(program));
  }
  leave_trials_out(facts.programs);
  std::vector<const File*> rest;
  for (const auto& file : facts.files) {
    if (reached.contains(*file)) continue;
    rest.push_back(file.get());
    for (const FunctionDef* function : file->functions) {
      const_cast<FunctionDef*>(function)->is_training_step |= function->is_open_step;
    }
  }
  mark_steps_of_libraries(facts);
  add_libraries(rest, reached, facts.programs);
  Shares shares;
  for (const auto& file : facts.files) shares.emplace(file.get(), share_of(*file));
  std::vector<const Program*> starters;
  for (const Program& program : facts.programs) {
    if (program.entry != nullptr && starts_training(program, shares)) starters.push_back(&program);
  }
  std::vector<bool> only_runs;
  for (const Program& program : facts.programs) {
    only_runs.push_back(leaves_starting_to_another(program, starters, shares));
  }
  for (std::size_t i = 0; i < facts.programs.size(); ++i) {
    describe(facts.programs[i], shares, only_runs[i]);
    for (const File* file : facts.programs[i].files) {
      facts.store().programs_by_file[file].push_back(i);
    }
  }
}

}  // namespace rooftile::source
