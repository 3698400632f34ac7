// Jupyter notebooks: their code cells joined to one text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/result.h"

namespace rooftile::python {

struct NotebookCell {
  std::uint32_t number = 0;      // among all cells, from 1
  std::uint32_t first_line = 0;  // in the joined text, from 1
  std::uint32_t begin = 0, end = 0;
};

struct Notebook {
  // Lines of magics (%, !, ?) and whole cells of other languages (%%bash) are blank, with the same
  // number of lines. Cells are separated by one newline.
  std::string text;
  std::vector<NotebookCell> cells;  // of code
};

// Notebook formats 3 and 4. Errors: no JSON, no cells, another language than Python.
Result<Notebook> read_notebook(std::string_view bytes);

}  // namespace rooftile::python
