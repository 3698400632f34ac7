// What the documents of a project say that its programs are started with.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rooftile/workload/source_store.h"

namespace rooftile::source {

struct Command {
  std::string script;  // "tools/train.py", or the module behind -m
  bool is_module = false;
  bool is_on_one_gpu = false;       // CUDA_VISIBLE_DEVICES=0 stands before it, or is exported above
  bool is_on_several_gpus = false;  // CUDA_VISIBLE_DEVICES=0,1, `--gpus 0,1`
  // As written, "--lr" and "0.1", the value empty for a switch; kUnclear for several values and
  // for what stands for another: "$LR", "<path>".
  std::vector<std::pair<std::string, std::string>> options;
};

// Lines of a readme or shell script that start a Python program: `python train.py --amp`,
// `torchrun --nproc_per_node=8 -m package.train --lr 0.1`, also over several lines.
std::vector<Command> commands_in(std::string_view text);

// Puts what the documented commands give into the options of the programs that they start. The
// documents are the readmes, shell scripts and Makefiles in the folders from a program's own up to
// the root of its project, and in the folders directly in those.
void read_commands(SourceFacts& facts);

}  // namespace rooftile::source
