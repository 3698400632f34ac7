// Functions of training scripts as control-flow graphs in SSA form: every variable of a function is
// assigned once, and where paths meet a phi names what each of them brings.
//
// A module's body, a class body, a function and a lambda are a Function each; comprehensions,
// conditional expressions, `and` and `or` are blocks of the function they stand in. Nothing changes
// after lowering (lower.h). text.h prints functions and reads them back.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rooftile/workload/source_syntax.h"

namespace rooftile::script {

using ValueId = std::uint32_t;  // place in Function::values
using BlockId = std::uint32_t;  // place in Function::blocks
inline constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

// What an instruction gives, by its word and operands.
enum class Op : std::uint8_t {
  undefined,        // a variable before its first assignment, or after `del`
  unknown,          // what cannot be followed: a name that a pattern binds, too large a function
  parameter,        // word: its name
  free,             // word: a name of an outer function, of the module, or a builtin
  constant,         // word: a literal as written
  phi,              // operands: one for each predecessor of its block, in their order
  name,             // word: a name as written; operands: what it stands for here
  attribute,        // word: the attribute; operands: the object
  item,             // operands: the object, then the indices
  call,             // operands: the callee, then the values of the arguments as written
  operation,        // word: the operator; operands
  sequence,         // word: list, tuple, set, dict, slice, comprehension; operands: the items
  format,           // an f-string; operands: what it interpolates
  starred,          // word: * or **; operands: what is unpacked
  element,          // word: the place, or *; operands: what a target of several names unpacks
  iterate,          // an item of a pass of a loop; operands: what is iterated
  enter,            // what `as` gets; operands: the context manager
  closure,          // a function or lambda; word: its name; operands: its defaults
  definition,       // a class; word: its name; operands: its bases
  decorated,        // operands: the decorator, and what it gets
  import,           // word: the full name
  wait,             // word: await or yield; operands
  store_attribute,  // word: the attribute; operands: the object, the value
  store_item,       // operands: the object, the indices, the value
  store_free,       // word: a global or nonlocal name; operands: the value
  result,           // a `return`; operands: the value
};

struct Instruction {
  Op op = Op::undefined;
  BlockId block = kNone;
  std::string_view word;
  std::span<const ValueId> operands;
  const source::Expr* expr = nullptr;  // that it stands for; null for phis and what Python adds
};

// Ends where control goes to `next`; with a condition, there where it is true and to `otherwise`
// where not. A loop's head goes to its body or past it without a condition that has a value. A
// block without `next` leaves the function.
struct Block {
  std::vector<BlockId> predecessors;
  std::vector<ValueId> instructions;  // phis first
  ValueId condition = kNone;
  BlockId next = kNone, otherwise = kNone;
};

// What an assignment gives a name. Of a class or module the value at the end is that of `at_exit`.
struct NamedValue {
  std::string_view name;
  ValueId value = kNone;
};

// The value that an expression has; of a target what it is given.
struct ExprValue {
  const source::Expr* expr = nullptr;
  ValueId value = kNone;
};

enum class FunctionKind : std::uint8_t { module, class_body, function, lambda };

struct Function {
  FunctionKind kind = FunctionKind::module;
  std::string_view name;            // the full name; "lambda" for a lambda
  const Function* outer = nullptr;  // whose names are free ones here
  const source::File* file = nullptr;
  const source::FunctionDef* def = nullptr;  // of a function or lambda
  std::vector<Instruction> values;
  std::vector<Block> blocks;            // the entry first
  std::vector<NamedValue> definitions;  // all that names get, in order of the text
  std::vector<NamedValue> at_exit;      // what each name is when the body has run to its end
  std::vector<ExprValue> places;        // sorted by expression
  std::vector<ValueId> results;         // instructions of `return`
  BlockId end = kNone;                  // that ends without a `return`, and so gives None
  bool is_generator = false;
  std::deque<std::string> words;  // that no script's text holds
  std::vector<ValueId> operands;  // that instructions point to
};

}  // namespace rooftile::script
