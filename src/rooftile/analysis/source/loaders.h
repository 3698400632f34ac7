// Loaders of batches: what they read, and which values of a program come out of them.
#pragma once

#include <vector>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Whether the call makes a DataLoader of PyTorch or of torch_geometric.
bool is_torch_loader(const Call& call);
// Those of programs that train on a GPU, reached by default, tests left out.
std::vector<const Call*> training_loaders(const SourceFacts& facts);

// `loader = DataLoader(data)` for nothing, for len(loader) or for one batch.
bool is_hardly_read(const SourceFacts& facts, const Call& loader);

// The loader that a value comes out of: a batch or a part of one, an iterator; null where that is
// not seen.
const Call* loader_of(const SourceFacts& facts, const Expr* value);
// `next(x)`, `x.next()`, `x.__next__()`: x; null for other calls.
const Expr* stepped_iterator(const Call& call);
// Loops of any role over the loader, `for`, or `while` with next() inside.
std::vector<const Loop*> loops_over(const SourceFacts& facts, const Call& loader);
// Whether a training loop, but no other, reads it; or its names speak of training.
bool is_for_training(const SourceFacts& facts, const Call& loader);
// By names: val, test, eval and the like; or evaluation loops alone read it.
bool is_for_evaluation(const SourceFacts& facts, const Call& loader);

// The dataset argument, followed to what made it.
const Expr* dataset_of(const Call& loader);
// Nothing to do for a worker: TensorDataset, lists and tensors, splits of these, own classes whose
// __getitem__ only indexes, IterableDataset, batch_size=None, samples on the GPU.
bool needs_no_workers(const SourceFacts& facts, const Call& loader);
// Its collate functions of the project: several where it is a method of one of several data sets.
std::vector<const FunctionDef*> collate_functions(const Call& loader);
// The call in the function that copies something to a GPU, or leads to such a copy over one or two
// functions of the project; null without one.
const Call* copy_below(const SourceFacts& facts, const FunctionDef& function, int depth = 0);
// Its collate functions give NumPy arrays, which a loader leaves in pageable memory.
bool collates_to_arrays(const Call& loader);
// Its collate function, one of the project, copies to a GPU: no host memory is left to pin.
bool collates_on_gpu(const SourceFacts& facts, const Call& loader);
// The dataset's tensors live on a GPU already, or its collate function puts them there.
bool has_gpu_samples(const SourceFacts& facts, const Call& loader);

// A copy to the GPU: `.cuda()`, `.to(device)`; device known or by its name.
bool copies_to_device(const SourceFacts& facts, const Call& call);
// Whether a loop of the program moves what it iterates to the GPU, or Lightning does.
bool moves_batches(const SourceFacts& facts, const Call& loader);
// True, or an option that says whether there is a GPU.
bool is_set_by_default(const Value& value);
// A framework takes the loader over and moves its batches on its own: accelerate, transformers.
bool is_taken_over(const SourceFacts& facts, const File& file);

}  // namespace rooftile::source
