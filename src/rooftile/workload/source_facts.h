// What the source of a training program says: calls with bound arguments and values, types of
// variables, loops with their roles, and the guards around each statement. Rules read only this.
//
//   for (const Call* call : facts.constructions(TypeKind::loader)) {
//     const Value workers = facts.argument(*call, "num_workers", 5);
//     if (workers.absent() || workers.is(0)) …
//   }
//
// Everything is owned by SourceFacts and lives as long; pointers may be kept and compared.
#pragma once

#include <compare>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "rooftile/workload/source_syntax.h"

namespace rooftile::source {

// How sure a value is.
enum class Certainty : std::uint8_t {
  literal,       // written there
  constant,      // a name that is bound once, to a literal; or arithmetic on such
  configurable,  // default of argparse, a dataclass, a parameter or environment: a run may change
                 // it
  unknown,
};

enum class ValueKind : std::uint8_t {
  absent,   // the argument is not given, and no ** could give it
  unknown,  // given, but not known here
  none,
  boolean,
  integer,
  real,
  text,
  name,  // a full dotted name: torch.float16
  list,  // of a list, tuple or dict; `expr` has the items
};

struct Value {
  ValueKind kind = ValueKind::unknown;
  Certainty certainty = Certainty::unknown;
  bool boolean = false;
  std::int64_t integer = 0;     // also set for a boolean
  double real = 0.0;            // also set for an integer
  std::string_view text;        // of a text, or the dotted name
  const Expr* expr = nullptr;   // what is written as the argument, null when absent
  const Expr* found = nullptr;  // the expression whose value this is; another place when propagated

  bool absent() const { return kind == ValueKind::absent; }
  bool unknown() const { return kind == ValueKind::unknown; }
  // Neither absent nor unknown.
  bool known() const { return !absent() && !unknown(); }
  // Known and not open to a change by a run.
  bool fixed() const { return known() && certainty != Certainty::configurable; }
  // Known to be true, by Python's truth; unknown and absent values are neither true nor false.
  bool is_true() const;
  bool is_false() const;
  bool is(std::int64_t wanted) const { return kind == ValueKind::integer && integer == wanted; }
  bool is(std::string_view wanted) const;  // a text or a dotted name
};

enum class TypeKind : std::uint8_t {
  unknown,
  module,       // an instance of torch.nn.Module or of an own subclass
  loss,         // a loss module or loss function: criterion = nn.CrossEntropyLoss()
  optimizer,    //
  scheduler,    // of learning rates
  loader,       // iterates batches: DataLoader, or an own wrapper of one
  dataset,      //
  sampler,      //
  scaler,       // GradScaler
  tensor,       //
  gradients,    // model.parameters() and the like
  device,       // torch.device, or a string used as one
  dtype,        //
  profiler,     //
  accelerator,  // accelerate.Accelerator, lightning Fabric
  trainer,      // of transformers or Lightning
  array,        // numpy and pandas
  number,       // a Python number or bool
  text,         //
  container,    // list, tuple, dict or set; `element` says of what, where one thing
  function,     // a function of the given files
  class_,       // a class of the given files, not an instance
  host_object,  // surely no tensor and no module: files, paths, loggers, arguments
};

// Where a tensor's or module's data lives. `gpu` also when it falls back to the CPU without a GPU.
enum class Residence : std::uint8_t { unknown, host, gpu };

struct Type {
  TypeKind kind = TypeKind::unknown;
  Residence residence = Residence::unknown;
  // Of modules: wrapped in, or converted by.
  bool data_parallel = false, ddp = false, fsdp = false, compiled = false, frozen = false;
  bool half = false, bfloat16 = false, channels_last = false;
  bool requires_grad = false;           // of tensors: a forward or loss result made with gradients
  std::string_view name;                // "torch.optim.AdamW", "model.Net"; may be empty
  const Call* made_by = nullptr;        // the constructor, under all wrappers
  const ClassDef* class_def = nullptr;  // own class of an instance, or of class_
  // Of an instance of one own class or another, where `class_def` is null; in the order found.
  const std::vector<const ClassDef*>* choices = nullptr;
  const FunctionDef* function = nullptr;
  const Type* element = nullptr;  // of a container or loader
  const Expr* items = nullptr;    // of a container: the tuple, list or dict that is written

  bool guessed = false;  // from nothing but the name of a variable or parameter

  bool is(TypeKind wanted) const { return kind == wanted; }
  bool on_gpu() const { return residence == Residence::gpu; }
  // Own classes that it may be of; none where they are not known.
  std::span<const ClassDef* const> classes() const {
    if (choices != nullptr) return *choices;
    return {&class_def, class_def == nullptr ? 0U : 1U};
  }
  bool operator==(const Type&) const = default;
};

struct Argument {
  std::string_view name;        // empty for a positional one
  std::uint32_t position = 0;   // of a positional one
  const Expr* value = nullptr;  // for `*x` and `**x` the starred expression; never null
  ByteRange range;              // the whole `name=value`
  bool unpacked = false;        // it is `*x` or `**x`
  bool followed = false;        // not written here: an item of the dictionary behind a `**x`
};

struct Call {
  // Full dotted name, in its public spelling: "torch.utils.data.DataLoader",
  // "train.Net" for own classes. A method of a typed receiver has the name of the base class:
  // "torch.Tensor.item", "torch.optim.Optimizer.step", "torch.optim.lr_scheduler.LRScheduler.step",
  // "torch.amp.GradScaler.step", "torch.nn.Module.eval"; and "torch.nn.Module.__call__" for
  // model(x). Deprecated names are kept: "torch.cuda.amp.GradScaler". Empty when unknown.
  std::string_view name;
  std::string_view method;         // the last part as written: "step"
  const Expr* receiver = nullptr;  // what stands before the last dot; null for a plain name
  std::span<const Argument> arguments;
  bool unknown_arguments = false;         // a `*x` or `**x` that could not be followed
  const FunctionDef* target = nullptr;    // own function, method, __init__ or forward that runs
  const Expr* expr = nullptr;             // never null
  const Statement* statement = nullptr;   // of `expr`; never null
  const FunctionDef* function = nullptr;  // the one it stands in; null at module level
  const File* file = nullptr;             // never null
  std::uint32_t open_paren = 0;           // byte of "("
  std::uint32_t close_paren = 0;          // byte of ")"; new arguments go before it

  const Argument* argument(std::string_view name, int position = -1) const;
  const Type& receiver_type() const;  // unknown without a receiver
};

enum class LoopRole : std::uint8_t {
  training_step,    // one pass is one forward and backward, here or in functions it calls
  evaluation_step,  // forward passes without backward
  epoch,            // has a step loop inside, or calls a function that has
  other,
};

struct Loop {
  LoopRole role = LoopRole::other;
  const Statement* statement = nullptr;  // never null
  const FunctionDef* function = nullptr;
  const File* file = nullptr;
  // Of a training loop: the first of each, here or in a called function; null if a framework hides
  // it.
  const Call* backward = nullptr;
  const Call* optimizer_step = nullptr;  // optimizer.step() or scaler.step(optimizer)
  const Call* loader = nullptr;          // the constructor of the loader it iterates
  bool on_gpu = false;                   // its model or its batches are on a GPU

  bool is_step() const {
    return role == LoopRole::training_step || role == LoopRole::evaluation_step;
  }
};

enum class GuardKind : std::uint8_t {
  condition,       // any other `if`; also conditional expressions and `and`
  option,          // a condition that stays the same while the loop runs: args.amp, x is None
  every_n,         // step % n == 0: `interval` is n
  once,            // step == 10, a flag that is set to False inside
  rank_zero,       // rank == 0, is_main_process
  debug,           // a name like debug, verbose, profile
  main,            // __name__ == "__main__"
  never,           // `if False`, `if 0`
  training,        // model.training, phase == "train"
  no_grad,         // torch.no_grad(), also as a decorator
  inference_mode,  // torch.inference_mode(), also as a decorator
  enable_grad,     // torch.enable_grad(), set_grad_enabled(…)
  autocast,        // every spelling of it; `expr` is the call
  no_sync,         // model.no_sync()
  exception,       // in an except handler
  with_other,      // another context manager
  decorator,       // another decorator of the function
};

struct Guard {
  GuardKind kind = GuardKind::condition;
  bool negated = false;                  // the else branch of it
  const Expr* expr = nullptr;            // the condition, context manager or decorator
  const Statement* statement = nullptr;  // null for a decorator or an inline condition
  Value interval;                        // of every_n; absent for others
};

// `# rooftile: allow precision/amp-off, compile/off -- small model`
struct Suppression {
  std::uint32_t line = 0;  // of File::text
  bool own_line = false;   // nothing but the comment is there: it holds for the statement below
  std::vector<std::string_view> rules;
  std::string_view reason;
  std::string problem;  // what is wrong with it; empty when well formed
};

struct Cell {
  std::uint32_t number = 0;      // place in the notebook, from 1
  std::uint32_t first_line = 0;  // in File::text, from 1
  ByteRange range;               // in File::text
};

struct File {
  std::uint32_t number = 0;  // of its own among all files of the facts, from 0 on
  std::string path;
  std::string module;  // "package.train", from the folder layout of the given files
  std::string text;    // as parsed: bytes that are no UTF-8 are '_', magics of notebooks are blank
  bool is_notebook = false;
  bool is_entry = false;  // has a __main__ guard, or trains at module level
  // Of pytest or the like: test_x.py, conftest.py, tests/…, testing/…, x_test.py with tests in it.
  bool is_test = false;
  bool is_configuration = false;  // a YAML file; the text is the assignments it stands for
  bool is_for_gpu = false;        // by the user's word, where the source leaves the device open
  bool has_errors = false;
  std::uint32_t first_error = 0;  // byte of the first part that is no Python
  bool runs_exec = false;  // exec() at module level: a configuration may replace any constant
  std::vector<std::uint32_t> line_starts;
  std::vector<Cell> cells;
  std::vector<Suppression> suppressions;
  std::span<const Statement* const> body;
  std::vector<std::string_view> imports;  // full names of modules and objects, as written
  std::vector<const File*> imported;      // given files among them
  // In order of the text.
  std::vector<const Statement*> statements;
  std::vector<const Call*> calls;
  std::vector<std::string_view> dotted_texts;  // strings that may name something: "models.Net"
  std::vector<const FunctionDef*> functions;
  std::vector<const ClassDef*> classes;
  std::vector<const Loop*> loops;
  std::uint32_t too_deep = 0;  // expressions and blocks that are nested too deeply to follow
  // Answers of mentions() so far for words that the trigrams allow: rules ask for the same ones,
  // one after the other.
  mutable std::map<std::string, bool, std::less<>> mentioned;
  // A bit for each three bytes in a row of the text, by their hash; filled by the first search.
  mutable std::vector<std::uint64_t> trigrams;

  Place place(std::uint32_t byte) const;
  std::string_view slice(ByteRange range) const;
  // Whether the name, or something in it, is imported: "torch", "deepspeed".
  bool imports_from(std::string_view package) const;
};

class FileSet {
 public:
  bool insert(const File& file);  // false where it was there
  bool contains(const File& file) const { return file.number < has_.size() && has_[file.number]; }
  void add(const FileSet& others);

 private:
  std::vector<bool> has_;  // by File::number
};

// A file that runs, and the given files that it imports, also through others. What no entry
// imports is a program without entry, one for all.
struct Program {
  const File* entry = nullptr;
  std::vector<const File*> files;  // the entry first
  bool trains_on_gpu = false;      // a training loop or trainer, and something on a GPU
  bool infers_on_gpu = false;      // a network for one input after the other, and no training
  std::vector<const Loop*> training_loops;
  FileSet file_set;  // the files, to be asked

  bool has(const File& file) const { return file_set.contains(file); }
};

struct TorchVersion {
  int major = 0, minor = 0;

  auto operator<=>(const TorchVersion&) const = default;
};

struct SkippedFile {
  std::string path, reason;
};

struct Store;

class SourceFacts {
 public:
  SourceFacts();
  SourceFacts(SourceFacts&&) noexcept;
  SourceFacts& operator=(SourceFacts&&) noexcept;
  ~SourceFacts();

  std::vector<std::unique_ptr<File>> files;  // those that can matter, sorted by path
  std::vector<Program> programs;
  std::vector<SkippedFile> skipped;         // unreadable, too large, not text
  std::vector<std::string> not_relevant;    // the pre-scan found no word of ours
  std::optional<TorchVersion> least_torch;  // that the project says it runs on, where it does

  // Whether the project says that it runs on versions before this one.
  bool runs_before(TorchVersion version) const { return least_torch && *least_torch < version; }

  // Calls of exactly this full name, or of all below it for "torch.optim.*"; by file and text.
  const std::vector<const Call*>& calls(std::string_view full_name) const;
  std::vector<const Call*> calls(std::initializer_list<std::string_view> full_names) const;
  // Calls written `x.method(…)` or `method(…)`, whatever x is.
  const std::vector<const Call*>& method_calls(std::string_view method) const;
  // Calls that make such an object: every spelling of DataLoader, GradScaler, optimizers, …
  const std::vector<const Call*>& constructions(TypeKind kind) const;
  // Those of them in the files of one program.
  std::vector<const Call*> calls_in(const Program& program,
                                    std::initializer_list<std::string_view> full_names) const;
  std::vector<const Call*> constructions_in(const Program& program, TypeKind kind) const;
  std::vector<const Loop*> loops(LoopRole role) const;
  // Own classes that are modules.
  std::vector<const ClassDef*> modules() const;
  // Assignments to a dotted name: "torch.backends.cudnn.benchmark".
  std::vector<const Statement*> assignments(std::string_view full_name) const;

  // What an expression evaluates to, constants followed.
  Value value(const Expr* expr) const;
  // What the parameter gets: by keyword, by position (from 0; -1: keyword only), or absent.
  Value argument(const Call& call, std::string_view name, int position = -1) const;
  // The programs a file belongs to.
  std::vector<const Program*> programs_of(const File& file) const;

  // For the reader that fills this in.
  Store& store() { return *store_; }
  const Store& store() const { return *store_; }

 private:
  std::unique_ptr<Store> store_;
};

// The statements that follow in the same block.
std::span<const Statement* const> after(const Statement& statement);
std::span<const Statement* const> before(const Statement& statement);
// Whether `inner` is `outer` or stands inside of it.
bool is_within(const Statement& inner, const Statement& outer);
// The innermost loop of its function around a statement, or the statement itself; null for none.
const Statement* loop_around(const Statement* statement);
// Whether the expression is, or has inside, what `test` looks for; the first such, in text order.
const Expr* find_inside(const Expr* expr, bool (*test)(const Expr&));
// The calls inside a statement and all below it, without nested functions, in text order.
std::vector<const Call*> calls_inside(const Statement& statement);

// What the call passes for a parameter of the function that it leads to, by name or position; null
// where it passes none, or only in `*` and `**`, and for `*args` and `**kwargs` themselves.
const Argument* passed_argument(const Call& call, const FunctionDef& function,
                                std::string_view parameter);
}  // namespace rooftile::source

namespace rooftile {
using SourceFacts = source::SourceFacts;
}  // namespace rooftile
