// Conditions whose truth needs no value of the GPU, or not on each pass.
#pragma once

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// x.is_floating_point(), model.has_embedding(), model.cache_enabled(): no tensor answers.
bool knows_without_gpu(const Call& call);
// `if epoch > self.epoch and …: self.epoch = epoch`: what follows is asked once per epoch.
bool is_met_once(const Statement& statement, const Expr& operand);
// `if kl:` of a variable that some branch of the function sets to None asks whether there is one.
bool may_be_none(const Expr& expr);
// `mask == "auto"`, `flow != None`: no tensor is equal to a text or to None.
bool compares_with_other(const Expr& expr);
// `if self.criterion: loss = self.criterion(x)` asks whether there is one.
bool is_called_inside(const Statement& statement, const Expr& expr);
// batch["file_names"], batch["path"][0]: the texts of a batch stay on the host.
bool is_text_item(const Expr& expr);

}  // namespace rooftile::source
