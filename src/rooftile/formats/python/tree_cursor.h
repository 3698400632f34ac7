// A walk over a syntax tree of tree-sitter, by the structures of its core. The core's own cursor
// keeps what editors need (rows and columns, the way back, numbers of descendants) and takes three
// times as long.
#pragma once

#include <tree_sitter/api.h>

#include <cstdint>
#include <vector>

namespace rooftile::python {

class TreeCursor {
 public:
  // At the root. The tree has to outlive the cursor.
  explicit TreeCursor(const TSTree& tree);

  TSSymbol symbol() const { return symbol_; }  // as ts_node_symbol() has it
  bool has_children() const;                   // that are visible
  std::uint32_t begin() const { return begin_; }
  std::uint32_t end() const;
  TSFieldId field() const;  // 0: none

  // Only where there are children.
  void to_first_child();
  bool to_next_sibling();
  // Back in the parent, from which only its next sibling and its own parent can be reached. False
  // at the root.
  bool leave_children();

 private:
  // The children of one node, visible or not, and how many of them are behind us.
  struct Level {
    const void* node = nullptr;    // of the core: the parent
    std::uint32_t children = 0;    // taken
    std::uint32_t structural = 0;  // taken, without extras such as comments
    std::uint32_t position = 0;    // byte where the last one taken ends
    bool is_hidden = false;        // the parent is no node of its own
    bool is_extra = false;         // the last one taken
  };

  bool advance();

  const TSLanguage* language_;
  const void* node_;  // the current one
  TSSymbol symbol_ = 0;
  std::uint32_t begin_ = 0;
  std::vector<Level> levels_;
};

}  // namespace rooftile::python
