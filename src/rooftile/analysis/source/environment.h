// Environment variables that a script sets for itself.
#pragma once

#include <string_view>
#include <vector>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

struct EnvironmentSetting {
  const Statement* statement = nullptr;
  const Expr* value = nullptr;
};

// `os.environ[name] = value`, setdefault and putenv, in programs that train on a GPU, where a run
// gets with all options at their defaults.
std::vector<EnvironmentSetting> environment_settings(const SourceFacts& facts,
                                                     std::string_view name);

// `CUDA_VISIBLE_DEVICES=0 python train.py` in all that the documents say of the programs that train
// with the file.
bool is_started_on_one_gpu(const SourceFacts& facts, const File& file);
// Whether a documented command starts one of them on several GPUs.
bool is_started_on_several_gpus(const SourceFacts& facts, const File& file);

}  // namespace rooftile::source
