// Python source as a flat syntax tree, parsed by tree-sitter. Errors stay local: what the grammar
// cannot read is an `error` node among the others.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/result.h"

namespace rooftile::python {

// The grammar's named nodes that matter to us, by the grammar's own names; `other` for the rest,
// `token` for operators.
enum class SyntaxKind : std::uint8_t {
  other,
  error,
  token,
  comment,
  continuation,  // a backslash at the end of a line
  module,
  // names and literals
  identifier,
  dotted_name,
  ellipsis,
  integer,
  float_,
  true_,
  false_,
  none,
  string,
  string_start,
  string_content,
  string_end,
  interpolation,
  concatenated_string,
  // statements
  import_statement,
  import_from_statement,
  future_import_statement,
  aliased_import,
  wildcard_import,
  relative_import,
  import_prefix,
  print_statement,
  exec_statement,
  assert_statement,
  expression_statement,
  return_statement,
  delete_statement,
  raise_statement,
  pass_statement,
  break_statement,
  continue_statement,
  if_statement,
  elif_clause,
  else_clause,
  match_statement,
  case_clause,
  for_statement,
  while_statement,
  try_statement,
  except_clause,
  except_group_clause,
  finally_clause,
  with_statement,
  with_clause,
  with_item,
  function_definition,
  class_definition,
  decorated_definition,
  decorator,
  global_statement,
  nonlocal_statement,
  type_alias_statement,
  block,
  // parameters
  parameters,
  lambda_parameters,
  default_parameter,
  typed_parameter,
  typed_default_parameter,
  list_splat_pattern,
  dictionary_splat_pattern,
  keyword_separator,
  positional_separator,
  // expressions
  named_expression,
  expression_list,
  pattern_list,
  tuple_pattern,
  list_pattern,
  as_pattern,
  as_pattern_target,
  not_operator,
  boolean_operator,
  binary_operator,
  unary_operator,
  comparison_operator,
  lambda,
  assignment,
  augmented_assignment,
  yield,
  attribute,
  subscript,
  slice,
  call,
  argument_list,
  keyword_argument,
  list_splat,
  dictionary_splat,
  parenthesized_list_splat,
  list,
  set,
  tuple,
  dictionary,
  pair,
  list_comprehension,
  dictionary_comprehension,
  set_comprehension,
  generator_expression,
  for_in_clause,
  if_clause,
  parenthesized_expression,
  conditional_expression,
  await,
  type,
};

// The grammar's fields that tell apart children of one kind.
enum class SyntaxField : std::uint8_t {
  none,
  alias,
  alternative,
  argument,
  arguments,
  attribute,
  body,
  condition,
  consequence,
  definition,
  function,
  key,
  left,
  module_name,
  name,
  object,
  operator_,
  parameters,
  right,
  subject,
  subscript,
  superclasses,
  type,
  value,
};

struct SyntaxNode {
  SyntaxKind kind = SyntaxKind::other;
  SyntaxField field = SyntaxField::none;
  std::uint32_t begin = 0, end = 0;  // bytes
  std::uint32_t after = 0;           // index of the node behind the whole subtree
};

// Nodes in preorder: the first child of node i, if it has one, is i + 1; the next sibling of a node
// is its `after`, as long as that lies before its parent's.
struct SyntaxTree {
  std::vector<SyntaxNode> nodes;
  bool has_errors = false;
  std::uint32_t first_error = 0;  // byte of the first part that is no Python
};

inline constexpr std::size_t kMaxSourceBytes = std::size_t{4} << 20U;

// Errors: the text is too large, or takes far longer than text of its size does.
Result<SyntaxTree> parse_python(std::string_view text);

}  // namespace rooftile::python
