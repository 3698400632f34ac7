#include "rooftile/formats/python/tree_cursor.h"

#include <tree_sitter_core/tree.h>

namespace rooftile::python {
namespace {

const Subtree& subtree(const void* node) { return *static_cast<const Subtree*>(node); }

TSSymbol public_symbol(const TSLanguage& language, TSSymbol symbol) {
  return symbol == ts_builtin_sym_error ? symbol : language.public_symbol_map[symbol];
}

// How the grammar renames a child of this production; 0: it does not.
TSSymbol alias_of_child(const TSLanguage& language, const Subtree& parent, std::uint32_t child) {
  const std::uint32_t production = parent.ptr->production_id;
  if (production == 0) return 0;
  return language.alias_sequences[production * language.max_alias_sequence_length + child];
}

}  // namespace

TreeCursor::TreeCursor(const TSTree& tree) : language_(tree.language), node_(&tree.root) {
  symbol_ = public_symbol(*language_, ts_subtree_symbol(tree.root));
  begin_ = ts_subtree_padding(tree.root).bytes;
}

bool TreeCursor::has_children() const { return ts_subtree_visible_child_count(subtree(node_)) > 0; }

std::uint32_t TreeCursor::end() const { return begin_ + ts_subtree_size(subtree(node_)).bytes; }

TSFieldId TreeCursor::field() const {
  for (auto level = levels_.rbegin(); level != levels_.rend(); ++level) {
    if (level->is_extra) return 0;
    const TSFieldMapSlice slice =
        language_->field_map_slices[subtree(level->node).ptr->production_id];
    const TSFieldMapEntry* entries = language_->field_map_entries + slice.index;
    for (const TSFieldMapEntry* entry = entries; entry != entries + slice.length; ++entry) {
      if (!entry->inherited && entry->child_index + 1U == level->structural) return entry->field_id;
    }
    if (!level->is_hidden) return 0;
  }
  return 0;
}

void TreeCursor::to_first_child() {
  levels_.push_back({.node = node_, .position = begin_});
  advance();
}

bool TreeCursor::to_next_sibling() { return !levels_.empty() && advance(); }

bool TreeCursor::leave_children() {
  if (levels_.empty()) return false;
  levels_.pop_back();
  return true;
}

// To the next visible node, through the children of hidden ones.
bool TreeCursor::advance() {
  while (true) {
    Level& level = levels_.back();
    const Subtree& parent = subtree(level.node);
    if (level.children == parent.ptr->child_count) {
      if (!level.is_hidden) return false;
      levels_.pop_back();
      continue;
    }
    const Subtree& child = ts_subtree_children(parent)[level.children];
    // The padding of the first child is its parent's.
    const std::uint32_t padding = level.children == 0 ? 0 : ts_subtree_padding(child).bytes;
    const std::uint32_t begin = level.position + padding;
    level.position = begin + ts_subtree_size(child).bytes;
    ++level.children;
    level.is_extra = ts_subtree_extra(child);
    TSSymbol alias = 0;
    if (!level.is_extra) alias = alias_of_child(*language_, parent, level.structural++);
    if (alias != 0 || ts_subtree_visible(child)) {
      node_ = &child;
      symbol_ = public_symbol(*language_, alias != 0 ? alias : ts_subtree_symbol(child));
      begin_ = begin;
      return true;
    }
    if (ts_subtree_visible_child_count(child) > 0) {
      levels_.push_back({.node = &child, .position = begin, .is_hidden = true});
    }
  }
}

}  // namespace rooftile::python
