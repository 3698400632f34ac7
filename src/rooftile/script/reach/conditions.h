// What a condition comes to: by what a call passes, and in a run with all options at their
// defaults.
#pragma once

#include <optional>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Whether the condition holds by what the call passes to the function that it stands in, and by
// what is written: `if with_hidden:`, `if z is None:`. Empty where that does not tell.
std::optional<bool> holds_when_called(const SourceFacts& facts, const Call& by, const Guard& guard);
// A switch that the call may pass among keywords that are not seen: `loss(x, y, **kwargs)` is taken
// to leave it as it is. Empty for other conditions.
std::optional<bool> left_as_it_is(const Call& by, const Expr& condition);
// `if loose:` for a parameter that the caller gives as self.loose, `if writer:` for a writer that
// is made before the loop: the same in each pass.
bool is_setting_of_caller(const SourceFacts& facts, const Call& by, const Guard& guard);

// Whether the guard is a choice between runs of the program: `if args.do_train:`, `elif mode ==
// "test":`, `if args.finetune: finetune(config) else: pretrain(config)`.
bool is_choice_of_run(const SourceFacts& facts, const Guard& guard);
// `if args.finetune: runner.finetune()` of a program that no default run trains with: who runs it
// gives what leads to training.
bool leads_to_only_training(const SourceFacts& facts, const Guard& guard);
// Whether the defaults, or the tests of the device that a run on a GPU meets, decide the guard.
bool is_known_by_default(const SourceFacts& facts, const Guard& guard);
// Whether the defaults pick another branch: `if joining == "concat":` of an option that is "last".
bool is_other_by_default(const SourceFacts& facts, const Guard& guard);

// Whether a run on a GPU with all options at their defaults stops at the guard: `if False`,
// `if args.debug` (off by default), the else of a switch that is on. No choice between runs, as
// `if args.do_train`, does. `by`: the call that the function is entered by, or null.
bool is_shut_by_default(const SourceFacts& facts, const Guard& guard, const Call* by);

}  // namespace rooftile::source
