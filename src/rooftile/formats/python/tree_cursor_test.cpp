#include "rooftile/formats/python/tree_cursor.h"

#include <gtest/gtest.h>
#include <tree_sitter_core/parser.h>

#include <string>
#include <string_view>
#include <vector>

#include "rooftile/formats/python/full_parse_table.h"
#include "rooftile/formats/python/parse_memory.h"

extern "C" const TSLanguage* tree_sitter_python(void);

namespace rooftile::python {
namespace {

struct Seen {
  TSSymbol symbol = 0;
  TSFieldId field = 0;
  std::uint32_t begin = 0, end = 0, depth = 0;
  bool operator==(const Seen&) const = default;
};

void PrintTo(const Seen& seen, std::ostream* out) {
  *out << ts_language_symbol_name(tree_sitter_python(), seen.symbol) << " field " << seen.field
       << " at " << seen.begin << "-" << seen.end << " depth " << seen.depth;
}

std::vector<Seen> seen_by_core(const TSTree* tree) {
  std::vector<Seen> all;
  TSTreeCursor cursor = ts_tree_cursor_new(ts_tree_root_node(tree));
  for (bool goes_on = true; goes_on;) {
    const TSNode node = ts_tree_cursor_current_node(&cursor);
    all.push_back({ts_node_symbol(node), ts_tree_cursor_current_field_id(&cursor),
                   ts_node_start_byte(node), ts_node_end_byte(node),
                   ts_tree_cursor_current_depth(&cursor)});
    goes_on = ts_tree_cursor_goto_first_child(&cursor);
    while (!goes_on && !ts_tree_cursor_goto_next_sibling(&cursor)) {
      if (!ts_tree_cursor_goto_parent(&cursor)) break;
    }
    if (!goes_on) goes_on = ts_tree_cursor_current_depth(&cursor) > 0;
  }
  ts_tree_cursor_delete(&cursor);
  return all;
}

std::vector<Seen> seen_by_own_cursor(const TSTree* tree) {
  std::vector<Seen> all;
  TreeCursor cursor(*tree);
  std::uint32_t depth = 0;
  while (true) {
    all.push_back({cursor.symbol(), cursor.field(), cursor.begin(), cursor.end(), depth});
    if (cursor.has_children()) {
      cursor.to_first_child();
      ++depth;
      continue;
    }
    while (!cursor.to_next_sibling()) {
      if (!cursor.leave_children()) return all;
      --depth;
    }
  }
}

const TSTree* parse(const TSLanguage* language, std::string_view text) {
  TSParser* parser = ts_parser_new();
  ts_parser_set_language(parser, language);
  const TSTree* tree =
      ts_parser_parse_string(parser, nullptr, text.data(), static_cast<std::uint32_t>(text.size()));
  ts_parser_delete(parser);
  return tree;
}

// A core with other structures, or a table unpacked wrongly, would show here.
TEST(TreeCursor, SeesWhatTheCursorOfTheCoreSees) {
  for (const std::string_view text : {
           "",
           "# only a comment\n",
           "import torch.nn as nn, os\nfrom .a import (b as c, d)\nfrom x import *\n",
           "@dec(1)\nclass A(B, metaclass=M):\n  # first\n  x: int = 1\n\n  async def f(self, *a, "
           "k=2, **kw) -> int:\n    return await self.g(*a, **kw)[1:2, ::3].y\n",
           "for i, (j, k) in enumerate(z):\n  if a < b <= c and not d or e:\n    pass\n  elif x:\n "
           "  "
           " break\n  else: continue\nelse:\n  del x\n",
           "with open(f) as g, h():\n  try:\n    raise E from e\n  except (A, B) as c:\n    ...\n  "
           "finally:\n    print >>x, y\n",
           "f'{a!r:>{w}}' 'b' rb'c\\n'\nx = y = [i for i in z if i] if t else {**a, 'b': lambda q: "
           "q @ 1 ** -2 // 3}\n",
           "match x:\n  case [1, *rest] if rest: y = (n := 10)\n  case {'k': v}: pass\n",
           "def f(:\n  x = = 3\n\tfoo(\n",
           "x = 1 \\\n  + 2 # \xC3\xA9\n\"\"\"a\nb\"\"\"\n",
           "print 'old'\nexec code in ns\nglobal a, b\nassert a, 'b'\na += 1; b -= 2\n",
       }) {
    SCOPED_TRACE(std::string(text));
    const ParseMemory memory;
    EXPECT_EQ(seen_by_own_cursor(parse(python_language(), text)),
              seen_by_core(parse(tree_sitter_python(), text)));
  }
}

TEST(FullParseTable, LeadsFromEachStateWhereTheGeneratedOneLeads) {
  const TSLanguage* generated = tree_sitter_python();
  const std::uint32_t states = generated->state_count;
  const std::uint32_t symbols =
      generated->symbol_count;  // without aliases, which the parser never asks for
  std::size_t steps = 0;
  for (std::uint32_t state = 0; state < states; ++state) {
    for (std::uint32_t symbol = 0; symbol < symbols; ++symbol) {
      const TSStateId next = ts_language_next_state(generated, static_cast<TSStateId>(state),
                                                    static_cast<TSSymbol>(symbol));
      ASSERT_EQ(ts_language_next_state(python_language(), static_cast<TSStateId>(state),
                                       static_cast<TSSymbol>(symbol)),
                next);
      if (next != 0) ++steps;
    }
  }
  EXPECT_GT(steps, states);
}

}  // namespace
}  // namespace rooftile::python
