// The contract between judging and telling.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/units.h"
#include "rooftile/findings/evidence.h"
#include "rooftile/workload/op.h"

namespace rooftile {

// error: a wrong result or a crash; warning: time is lost for sure; advice: a gain worth trying;
// info: good to know, hidden by default.
enum class Level { info, advice, warning, error };
std::string_view to_string(Level level);
std::optional<Level> parse_level(std::string_view text);

// What a fix does to the results.
enum class Exactness {
  bit_exact,         // the same bits
  exact_arithmetic,  // the same in real arithmetic; rounding may differ
  changes_numerics,  // another precision
  changes_training,  // another model, batch or data order
  not_applicable,    // nothing to change
};
std::string_view to_string(Exactness exactness);

// One replacement in a source file. Bytes count from 0 in the file as it is on disk, end exclusive;
// an empty range inserts.
struct TextEdit {
  std::string file;
  std::uint32_t begin = 0, end = 0;
  std::string replacement;

  bool operator==(const TextEdit&) const = default;
};

struct Fix {
  std::string text;  // one imperative sentence with the numbers in it
  Exactness exactness = Exactness::not_applicable;
  // What a machine would change, all together or not at all; ranges do not overlap. Empty where a
  // person has to do it, and for notebooks.
  std::vector<TextEdit> edits = {};
  bool safe = false;  // the edits surely keep what the program computes

  bool operator==(const Fix&) const = default;
};

// An operation of the workload as it is once the advice is followed.
struct ChangedOp {
  std::size_t op = 0;  // its index
  Op after;

  bool operator==(const ChangedOp&) const = default;
};

// Where a finding in a script stands, in the text that was parsed.
struct SourceSpot {
  std::int64_t line = 0;    // of a notebook: of its cells joined; 0 for other findings
  std::int64_t column = 0;  // in characters, from 1; 0 in a notebook
  std::string code;         // the line, with single spaces
  std::int64_t cell = 0;    // of a notebook, from 1; Provenance::line then counts within it

  bool operator==(const SourceSpot&) const = default;
};

struct Finding {
  std::string rule;                      // id: gemm/unaligned-row-stride; filled in by the runner
  std::optional<Level> own_level;        // when a rule's finding is weaker or stronger than usual
  Level level = Level::info;             // filled in by the runner: own_level, else the rule's,
                                         // and at most advice when nothing may be saved
  std::string message;                   // one sentence: what, where, how bad
  Provenance location;                   // of the first operation concerned
  std::int64_t count = 1;                // operations (times their repeats) concerned
  std::optional<Range<Seconds>> saving;  // per pass over the workload, all `count` together
  // The pass that the saving shortens, where it is not the report's: a step of another rank.
  std::optional<Seconds> pass;
  Fix fix;
  std::vector<Evidence> evidence;  // facts behind the message
  std::vector<std::size_t> ops;    // indices of the operations concerned
  // What those become, so that the saving can be measured; empty where the advice is not one
  // operation in place of another.
  std::vector<ChangedOp> changes;
  SourceSpot spot;
  // Of a wait for the GPU the training loop in whose steps it is, "train.py:59". What one step
  // waits for is mended together: the gain comes when all of it is gone.
  std::string step;
  std::string covered_by;   // a rule whose finding at the same place includes this change
  std::string fingerprint;  // the same in the next run; filled in by add_fingerprints()

  bool operator==(const Finding&) const = default;
};

// Of the finding's saving; 0 where it states none.
Seconds expected_saving(const Finding& finding);

}  // namespace rooftile
