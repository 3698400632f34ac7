// Statements and expressions of a training script, with names resolved, and where each one stands.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rooftile::source {

struct Call;
struct ClassDef;
struct Expr;
struct File;
struct FunctionDef;
struct Loop;
struct Statement;
struct Type;

// Bytes of File::text, end exclusive. For a .py file they are the bytes on disk.
struct ByteRange {
  std::uint32_t begin = 0, end = 0;

  bool operator==(const ByteRange&) const = default;
};

// 1-based. In a notebook `cell` counts code cells and text cells from 1, and `line` counts within
// the cell; elsewhere `cell` is 0. Columns count bytes.
struct Place {
  std::uint32_t line = 0, column = 0, cell = 0;

  bool operator==(const Place&) const = default;
};

// The children listed here are always there, also in broken code. Attributes, calls, lambdas
// and dicts have no others; elsewhere a syntax error between them is one more, of the kind `other`.
enum class ExprKind : std::uint8_t {
  name,           // word
  attribute,      // word is the last part, children: the object
  call,           // call; children: callee, then the values of the arguments as written
  subscript,      // children: object, then one index or more
  slice,          // children: those of start, stop, step that are written
  text,           // word: between the quotes, escapes as written; bytes too
  format,         // an f-string; children: what it interpolates
  integer,        // word: as written
  real,           // word: as written
  boolean,        // word: True or False
  none,           // None
  ellipsis,       // ...
  list,           // children
  tuple,          // children
  set,            // children
  dict,           // children: key, value, key, value; of `**x` an `other` and the starred
  unary,          // word: - + ~ ; children: operand
  binary,         // word: + - * / // % ** @ & | ^ << >>; children: left, right
  comparison,     // word: the first operator (<, ==, in, not in, is, …); children: two or more
  logical,        // word: and, or, not; children: left, right, or the one of not
  conditional,    // children: value if true, condition, value if false
  lambda,         // function: its parameters; children: body
  comprehension,  // children: element (or key, value), then a for_clause, more and conditions
  for_clause,     // of a comprehension; children: target, iterable (several in Python 2)
  starred,        // *x or **x (word); children: x
  await,          // children: what is awaited
  yield,          // children: what is yielded, if anything
  walrus,         // children: target, value
  other,          // a syntax error, or nested too deeply to follow; no children
};

// What a name or attribute leads to.
struct NameOrigin {
  std::string_view full_name;
  const Statement* binding = nullptr;
};

// One line of the cache: to read these from memory is much of what passes over them cost.
struct alignas(64) Expr {
  ExprKind kind = ExprKind::other;

 private:
  std::uint32_t word_size_ : 24 = 0;

 public:
  ByteRange range;

 private:
  std::uint32_t child_count_ = 0;
  union {
    const Expr* child_ = nullptr;  // of a single one
    const Expr* const* children_;
  };
  union {
    const NameOrigin* origin_ = nullptr;
    const Call* call_;             // of a call
    const FunctionDef* function_;  // of a lambda
  };
  const char* word_ = nullptr;

 public:
  const Type* type = nullptr;  // what it evaluates to; never null in finished facts
  const Expr* parent = nullptr;
  const Statement* statement = nullptr;  // the innermost one that holds it; never null

  std::string_view word() const { return {word_, word_size_}; }
  std::span<const Expr* const> children() const {
    return {child_count_ == 1 ? &child_ : children_, child_count_};
  }
  const Call* call() const { return kind == ExprKind::call ? call_ : nullptr; }
  // Of a lambda: its parameters; it has no body and is not among the functions of its file.
  const FunctionDef* function() const { return kind == ExprKind::lambda ? function_ : nullptr; }
  // Of a name or attribute that leads to an import or to a definition of the given files:
  // "torch.nn.functional", "train.Net". Empty for variables and what is unknown.
  std::string_view full_name() const { return has_origin() ? origin_->full_name : ""; }
  // Of a plain variable: the assignment, for, with or import whose value it has as far as the order
  // of the text tells. Null for parameters and for names bound in several branches.
  const Statement* binding() const { return has_origin() ? origin_->binding : nullptr; }

  // For the reader. What is given has to live as long.
  void set_word(std::string_view word);  // of at most 16 MiB: what is more is cut off
  void set_children(std::span<const Expr* const> children);
  void set_call(const Call* call);            // it is of the kind from then on
  void set_function(const FunctionDef* def);  // of a lambda
  void set_origin(const NameOrigin* origin);  // of no call and no lambda

 private:
  bool has_origin() const {
    return kind != ExprKind::call && kind != ExprKind::lambda && origin_ != nullptr;
  }
};
static_assert(sizeof(Expr) == 64);

// What is listed for a kind is never null unless stated, also in broken code.
enum class StatementKind : std::uint8_t {
  expression,  // value
  assignment,  // target, value; word is "=", or "+=" and the like; value null for `x: int`
  return_,     // value, null if there is none
  if_,         // value: the condition; body; otherwise: else, or one if_ for elif
  for_,        // target, value: the iterable; body; otherwise; loop
  while_,      // value: the condition; body; otherwise; loop
  with_,       // items; body
  try_,        // body; otherwise: handler, else and finally statements
  handler,     // except, except*, else or finally (word) of a try; body
  match_,      // value: the subject; body: case_ statements
  case_,       // body
  function,    // function_def; its body is there
  class_,      // class_def; its body is there
  import_,     // imports
  assert_,     // value
  raise_,      // value, null if there is none
  delete_,     // value
  global_,     // also nonlocal
  pass,        //
  break_,      //
  continue_,   //
  print,       // the statement of Python 2; value, a tuple if there are several
  other,       // what the grammar could not read
};

struct WithItem {
  const Expr* context = nullptr;  // never null
  const Expr* target = nullptr;   // after `as`, or null
};

// One name that an import statement binds: "F" and "torch.nn.functional". For `from x import *`
// both are about x: "*" and "x".
struct ImportedName {
  std::string_view local, full_name;
};

struct Statement {
  StatementKind kind = StatementKind::other;
  ByteRange range;  // without the indentation before and the newline after
  std::string_view word;
  const Expr* target = nullptr;
  const Expr* value = nullptr;
  std::span<const WithItem> items;
  std::span<const ImportedName> imports;
  std::span<const Statement*const> body, otherwise;
  // The block it stands in, itself included, and its place there.
  std::span<const Statement* const> block;
  std::uint32_t index = 0;
  const Statement* parent = nullptr;      // null at the top of a module
  const FunctionDef* function = nullptr;  // the function it stands in; null at module level
  const FunctionDef* function_def = nullptr;
  const ClassDef* class_def = nullptr;
  const Loop* loop = nullptr;  // of a for_ or while_
  const File* file = nullptr;  // never null
};

struct Parameter {
  std::string_view name;  // without stars
  const Expr* default_value = nullptr;
  const Expr* annotation = nullptr;
  bool starred = false;         // *args
  bool double_starred = false;  // **kwargs
  const Type* type = nullptr;   // joined over the calls that are seen; never null
};

struct FunctionDef {
  std::string_view name;       // "train_one_epoch"
  std::string_view full_name;  // "engine.train_one_epoch", "model.Net.forward"
  std::span<const Parameter> parameters;
  std::span<const Expr* const> decorators;
  std::span<const Statement* const> body;
  // Of its definition; of a lambda the one that it stands in. Never null.
  const Statement* statement = nullptr;
  const ClassDef* class_def = nullptr;  // of a method
  const FunctionDef* outer = nullptr;   // of a function inside a function
  const File* file = nullptr;
  const Type* returns = nullptr;     // joined over its returns; never null
  std::vector<const Call*> calls;    // made in its own body, in order of the text
  std::vector<const Call*> callers;  // the calls of the given files that lead here
  bool is_async = false;
  // A library calls it on each step: Engine(update) of ignite.
  bool is_training_step = false, is_evaluation_step = false;
  // Runs backward and an optimizer's step, in no loop, and no given file calls it.
  bool is_open_step = false;
};

// One module attribute made in a class body or in __init__: self.conv1 = nn.Conv2d(3, 64, 7).
struct Layer {
  std::string_view attribute;  // "conv1"; within a Sequential or list "features.0"
  // The constructor call; its name is the layer's type. Never null, as is the statement.
  const Call* made_by = nullptr;
  const Statement* statement = nullptr;
  bool conditional = false;  // made under an if, or more than once with different calls
  bool repeated = false;     // made in a loop or comprehension
};

// One use in forward, in order of the text. A Sequential is expanded into its layers.
struct LayerUse {
  const Layer* layer = nullptr;  // null for a call that is not a layer, as F.relu(x)
  const Call* call = nullptr;    // self.conv1(x); for members of a Sequential, its call
  // Whether its only input is what the use before it gave, and nothing else reads that value.
  bool consumes_previous = false;
};

struct ClassDef {
  std::string_view name, full_name;
  std::span<const Expr* const> bases;  // full_name says which
  std::span<const Expr* const> decorators;
  std::span<const Statement* const> body;
  const Statement* statement = nullptr;  // of its definition; never null
  const File* file = nullptr;
  std::vector<const FunctionDef*> methods;
  // Derived, also through bases in the given files.
  bool is_module = false;            // torch.nn.Module
  bool is_lightning_module = false;  // also is_module
  bool is_lightning_callback = false;
  bool is_dataset = false;            // torch.utils.data.Dataset or IterableDataset
  bool is_autograd_function = false;  // torch.autograd.Function
  bool is_hf_trainer = false;         // transformers.Trainer
  bool is_config = false;             // dataclass, or the like: its values are defaults
  std::vector<Layer> layers;          // of a module, in order of __init__
  std::vector<LayerUse> forward;      // of a module

  const FunctionDef* method(std::string_view wanted) const;
  const Layer* layer(std::string_view attribute) const;
};

}  // namespace rooftile::source
