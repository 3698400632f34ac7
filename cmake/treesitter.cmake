# tree-sitter's core and its Python grammar as TreeSitter::python, as tools/install_dependencies built
# them.
find_path(TREE_SITTER_INCLUDE tree_sitter/api.h REQUIRED)
find_library(TREE_SITTER_PYTHON tree-sitter-python REQUIRED)
add_library(TreeSitter::python STATIC IMPORTED)
set_target_properties(TreeSitter::python PROPERTIES
  IMPORTED_LOCATION ${TREE_SITTER_PYTHON}
  INTERFACE_INCLUDE_DIRECTORIES ${TREE_SITTER_INCLUDE})
