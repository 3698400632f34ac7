// Memory of a parse. tree-sitter makes and drops a small part for every token: here they come from
// blocks that the thread's next parse uses again, and all of them are given back at once.
#pragma once

namespace rooftile::python {

// What tree-sitter allocates in this thread while this object lives; without one it cannot work.
// One at a time in a thread.
class ParseMemory {
 public:
  ParseMemory();
  ParseMemory(const ParseMemory&) = delete;
  ParseMemory& operator=(const ParseMemory&) = delete;
  ~ParseMemory();
};

}  // namespace rooftile::python
