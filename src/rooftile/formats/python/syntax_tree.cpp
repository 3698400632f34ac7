#include "rooftile/formats/python/syntax_tree.h"

#include <tree_sitter/api.h>

#include <array>
#include <memory>
#include <utility>

#include "rooftile/formats/python/full_parse_table.h"
#include "rooftile/formats/python/parse_memory.h"
#include "rooftile/formats/python/tree_cursor.h"

namespace rooftile::python {
namespace {

// For the first megabyte; then one for each byte, a tenth of the usual speed.
constexpr std::uint64_t kLeastParseMicroseconds = 1'000'000;
constexpr std::size_t kMaxSymbols = 1024;
constexpr std::size_t kMaxFields = 64;

using K = SyntaxKind;
using F = SyntaxField;

constexpr std::pair<std::string_view, SyntaxKind> kKinds[] = {
    {"ERROR", K::error},
    {"comment", K::comment},
    {"line_continuation", K::continuation},
    {"module", K::module},
    {"identifier", K::identifier},
    {"dotted_name", K::dotted_name},
    {"ellipsis", K::ellipsis},
    {"integer", K::integer},
    {"float", K::float_},
    {"true", K::true_},
    {"false", K::false_},
    {"none", K::none},
    {"string", K::string},
    {"string_start", K::string_start},
    {"string_content", K::string_content},
    {"string_end", K::string_end},
    {"interpolation", K::interpolation},
    {"concatenated_string", K::concatenated_string},
    {"import_statement", K::import_statement},
    {"import_from_statement", K::import_from_statement},
    {"future_import_statement", K::future_import_statement},
    {"aliased_import", K::aliased_import},
    {"wildcard_import", K::wildcard_import},
    {"relative_import", K::relative_import},
    {"import_prefix", K::import_prefix},
    {"print_statement", K::print_statement},
    {"exec_statement", K::exec_statement},
    {"assert_statement", K::assert_statement},
    {"expression_statement", K::expression_statement},
    {"return_statement", K::return_statement},
    {"delete_statement", K::delete_statement},
    {"raise_statement", K::raise_statement},
    {"pass_statement", K::pass_statement},
    {"break_statement", K::break_statement},
    {"continue_statement", K::continue_statement},
    {"if_statement", K::if_statement},
    {"elif_clause", K::elif_clause},
    {"else_clause", K::else_clause},
    {"match_statement", K::match_statement},
    {"case_clause", K::case_clause},
    {"for_statement", K::for_statement},
    {"while_statement", K::while_statement},
    {"try_statement", K::try_statement},
    {"except_clause", K::except_clause},
    {"except_group_clause", K::except_group_clause},
    {"finally_clause", K::finally_clause},
    {"with_statement", K::with_statement},
    {"with_clause", K::with_clause},
    {"with_item", K::with_item},
    {"function_definition", K::function_definition},
    {"class_definition", K::class_definition},
    {"decorated_definition", K::decorated_definition},
    {"decorator", K::decorator},
    {"global_statement", K::global_statement},
    {"nonlocal_statement", K::nonlocal_statement},
    {"type_alias_statement", K::type_alias_statement},
    {"block", K::block},
    {"parameters", K::parameters},
    {"lambda_parameters", K::lambda_parameters},
    {"default_parameter", K::default_parameter},
    {"typed_parameter", K::typed_parameter},
    {"typed_default_parameter", K::typed_default_parameter},
    {"list_splat_pattern", K::list_splat_pattern},
    {"dictionary_splat_pattern", K::dictionary_splat_pattern},
    {"keyword_separator", K::keyword_separator},
    {"positional_separator", K::positional_separator},
    {"named_expression", K::named_expression},
    {"expression_list", K::expression_list},
    {"pattern_list", K::pattern_list},
    {"tuple_pattern", K::tuple_pattern},
    {"list_pattern", K::list_pattern},
    {"as_pattern", K::as_pattern},
    {"as_pattern_target", K::as_pattern_target},
    {"not_operator", K::not_operator},
    {"boolean_operator", K::boolean_operator},
    {"binary_operator", K::binary_operator},
    {"unary_operator", K::unary_operator},
    {"comparison_operator", K::comparison_operator},
    {"lambda", K::lambda},
    {"assignment", K::assignment},
    {"augmented_assignment", K::augmented_assignment},
    {"yield", K::yield},
    {"attribute", K::attribute},
    {"subscript", K::subscript},
    {"slice", K::slice},
    {"call", K::call},
    {"argument_list", K::argument_list},
    {"keyword_argument", K::keyword_argument},
    {"list_splat", K::list_splat},
    {"dictionary_splat", K::dictionary_splat},
    {"parenthesized_list_splat", K::parenthesized_list_splat},
    {"list", K::list},
    {"set", K::set},
    {"tuple", K::tuple},
    {"dictionary", K::dictionary},
    {"pair", K::pair},
    {"list_comprehension", K::list_comprehension},
    {"dictionary_comprehension", K::dictionary_comprehension},
    {"set_comprehension", K::set_comprehension},
    {"generator_expression", K::generator_expression},
    {"for_in_clause", K::for_in_clause},
    {"if_clause", K::if_clause},
    {"parenthesized_expression", K::parenthesized_expression},
    {"conditional_expression", K::conditional_expression},
    {"await", K::await},
    {"type", K::type},
};

constexpr std::pair<std::string_view, SyntaxField> kFields[] = {
    {"alias", F::alias},
    {"alternative", F::alternative},
    {"argument", F::argument},
    {"arguments", F::arguments},
    {"attribute", F::attribute},
    {"body", F::body},
    {"condition", F::condition},
    {"consequence", F::consequence},
    {"definition", F::definition},
    {"function", F::function},
    {"key", F::key},
    {"left", F::left},
    {"module_name", F::module_name},
    {"name", F::name},
    {"object", F::object},
    {"operator", F::operator_},
    {"operators", F::operator_},
    {"parameters", F::parameters},
    {"right", F::right},
    {"subject", F::subject},
    {"subscript", F::subscript},
    {"superclasses", F::superclasses},
    {"type", F::type},
    {"value", F::value},
};

// What the numbers of the grammar mean, looked up once.
struct Grammar {
  const TSLanguage* language = python_language();
  std::array<SyntaxKind, kMaxSymbols> kinds{};
  std::array<bool, kMaxSymbols> named{};
  std::array<bool, kMaxSymbols> operators{};  // what may stand in a field of operators
  std::array<SyntaxField, kMaxFields> fields{};

  Grammar() {
    const std::uint32_t symbols = ts_language_symbol_count(language);
    for (std::uint32_t i = 0; i < symbols && i < kMaxSymbols; ++i) {
      const auto symbol = static_cast<TSSymbol>(i);
      named[i] = ts_language_symbol_type(language, symbol) == TSSymbolTypeRegular;
      const std::string_view name = ts_language_symbol_name(language, symbol);
      for (const auto& [known, kind] : kKinds) {
        if (named[i] && name == known) kinds[i] = kind;
      }
      operators[i] = name.find_first_of("()[]{},:;.") == std::string_view::npos && name != "=";
    }
    const std::uint32_t count = ts_language_field_count(language);
    for (std::uint32_t i = 1; i <= count && i < kMaxFields; ++i) {
      const std::string_view name =
          ts_language_field_name_for_id(language, static_cast<TSFieldId>(i));
      for (const auto& [known, field] : kFields) {
        if (name == known) fields[i] = field;
      }
    }
  }

  SyntaxKind kind(TSSymbol symbol) const {
    if (symbol >= kMaxSymbols) return SyntaxKind::error;
    return named[symbol] ? kinds[symbol] : SyntaxKind::token;
  }
  bool is_named(TSSymbol symbol) const { return symbol >= kMaxSymbols || named[symbol]; }
  bool is_operator(TSSymbol symbol) const { return symbol >= kMaxSymbols || operators[symbol]; }
};

const Grammar& grammar() {
  static const Grammar grammar;
  return grammar;
}

struct ParserDeleter {
  void operator()(TSParser* parser) const { ts_parser_delete(parser); }
};

// Walks the tree without recursion: its depth is the input's business.
std::vector<SyntaxNode> flatten(const TSTree& tree, std::size_t bytes) {
  const Grammar& names = grammar();
  std::vector<SyntaxNode> nodes;
  nodes.reserve(bytes / 4 + 16);
  std::vector<std::uint32_t> open;
  constexpr std::uint32_t kDropped = UINT32_MAX;
  TreeCursor cursor(tree);
  while (true) {
    const TSSymbol symbol = cursor.symbol();
    const bool named = names.is_named(symbol);
    const SyntaxKind kind = names.kind(symbol);
    const bool may_have_field = named || names.is_operator(symbol);
    const SyntaxField field = names.fields[may_have_field ? cursor.field() : 0];
    // Leaves of punctuation say nothing that their parents do not; operators do.
    const bool kept = named || field == SyntaxField::operator_;
    open.push_back(kept ? static_cast<std::uint32_t>(nodes.size()) : kDropped);
    if (kept) nodes.push_back({kind, field, cursor.begin(), cursor.end(), 0});
    if (named && kind != SyntaxKind::string_content && cursor.has_children()) {
      cursor.to_first_child();
      continue;
    }
    while (true) {
      if (open.back() != kDropped) {
        nodes[open.back()].after = static_cast<std::uint32_t>(nodes.size());
      }
      open.pop_back();
      if (cursor.to_next_sibling()) break;
      if (!cursor.leave_children()) return nodes;
    }
  }
}

}  // namespace

namespace {

// Through the first children with errors down to the innermost one.
std::uint32_t first_error(const TSTree& tree) {
  TSTreeCursor cursor = ts_tree_cursor_new(ts_tree_root_node(&tree));
  const auto is_wrong = [&] {
    const TSNode node = ts_tree_cursor_current_node(&cursor);
    return ts_node_is_error(node) || ts_node_is_missing(node);
  };
  const auto holds_error = [&] {
    return ts_node_has_error(ts_tree_cursor_current_node(&cursor)) || is_wrong();
  };
  while (!is_wrong() && ts_tree_cursor_goto_first_child(&cursor)) {
    while (!holds_error() && ts_tree_cursor_goto_next_sibling(&cursor)) {
    }
  }
  const std::uint32_t byte = ts_node_start_byte(ts_tree_cursor_current_node(&cursor));
  ts_tree_cursor_delete(&cursor);
  return byte;
}

}  // namespace

Result<SyntaxTree> parse_python(std::string_view text) {
  if (text.size() > kMaxSourceBytes) {
    return fail("is larger than " + std::to_string(kMaxSourceBytes >> 20U) + " MiB");
  }
  const ParseMemory memory;
  const std::unique_ptr<TSParser, ParserDeleter> parser(ts_parser_new());
  ts_parser_set_language(parser.get(), grammar().language);
  ts_parser_set_timeout_micros(parser.get(), kLeastParseMicroseconds + text.size());
  const TSTree* tree = ts_parser_parse_string(parser.get(), nullptr, text.data(),
                                              static_cast<std::uint32_t>(text.size()));
  if (tree == nullptr) return fail("takes too long to parse");
  SyntaxTree result;
  result.has_errors = ts_node_has_error(ts_tree_root_node(tree));
  if (result.has_errors) result.first_error = first_error(*tree);
  result.nodes = flatten(*tree, text.size());
  return result;
}

}  // namespace rooftile::python
