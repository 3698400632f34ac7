// Which programs a file belongs to, and what each of them runs.
#pragma once

#include <optional>
#include <vector>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// The programs that train on a GPU and are no tests; the only ones rules speak about.
std::vector<const Program*> training_programs(const SourceFacts& facts);
// False where every way there is through the main guard of a file that the program only imports.
bool runs_in(const SourceFacts& facts, const Program& program, const Statement& statement);
// Whether the file belongs to such a program and is no test itself.
bool trains_on_gpu(const SourceFacts& facts, const File& file);
// Whether the file belongs to a program that trains or infers on a GPU and is no test itself.
bool works_on_gpu(const SourceFacts& facts, const File& file);
// By its name the script measures a network, "test.py", "eval_coco.py": it runs once in a while.
bool is_evaluation_script(const File& file);
// The training programs that a file belongs to; empty for tests.
std::vector<const Program*> training_programs_of(const SourceFacts& facts, const File& file);

// What a test of the device says where there is a GPU: `torch.cuda.is_available()`,
// `device.type == "cuda"`, `device != "cpu"`, a variable set to that. Empty for other conditions.
std::optional<bool> truth_on_gpu(const Expr* condition, int depth = 0);
// Whether a run on a GPU gets there with all options at their defaults: not in `if False`, in
// `if args.debug` (off by default) or in the else of a switch that is on.
bool is_reached_by_default(const SourceFacts& facts, const Call& call);
bool is_reached_by_default(const SourceFacts& facts, const Statement& statement);

}  // namespace rooftile::source
