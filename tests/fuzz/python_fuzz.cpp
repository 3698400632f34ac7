// Any bytes, as a script and as a notebook, give an error or facts whose ranges lie in the text.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "rooftile/readers/python/read_python.h"
#include "rooftile/script/reach/reach.h"
#include "rooftile/workload/source_edits.h"
#include "tests/fuzz/script_hooks.h"

namespace {

using namespace rooftile::source;

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const rooftile::SourceFacts& facts) {
  for (const auto& file : facts.files) {
    for (const Call* call : file->calls) {
      require(call->expr->range.end <= file->text.size());
      require(call->expr->range.begin <= call->expr->range.end);
      require(call->expr->type != nullptr);
      ways_to(facts, *call);
      for (const Argument& argument : call->arguments) {
        require(argument.value != nullptr);
        facts.value(argument.value);
      }
      if (const auto edit = add_argument(*call, "rooftile_fuzz", "1")) {
        require(apply_edits(*file, {*edit}).has_value());
      }
    }
    for (const Statement* statement : file->statements) {
      require(statement->range.end <= file->text.size());
      if (const auto edit = remove_statement(*statement)) {
        require(apply_edits(*file, {*edit}).has_value());
      }
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const std::string_view path : {"train.py", "train.ipynb"}) {
    const auto facts = rooftile::read_python_text(path, bytes);
    if (facts) check(*facts);
    if (!facts && facts.error().message.empty()) std::abort();
  }
  return 0;
}
