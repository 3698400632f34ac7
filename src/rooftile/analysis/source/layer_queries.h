// What layers a program's models are made of, and where advice on a whole program stands.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/analysis/source/model_size.h"
#include "rooftile/analysis/source/size_search.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// The argument's integer where it is written or a name bound once to it; empty when a run may
// change it.
std::optional<std::int64_t> fixed_argument(const SourceFacts& facts, const Call& call,
                                           std::string_view name, int position);
// A width that the author chose: written, or by a name that is not one for classes or outputs.
std::optional<std::int64_t> chosen_argument(const SourceFacts& facts, const Call& call,
                                            std::string_view name, int position);
// The same, the default of an option or parameter included.
std::optional<std::int64_t> known_argument(const SourceFacts& facts, const Call& call,
                                           std::string_view name, int position);

// torch.nn.Conv1d to ConvTranspose3d; Linear is none.
bool is_convolution(const Call& call);
// BatchNorm1d to 3d and SyncBatchNorm of torch.nn.
bool is_batch_norm(const Call& call);
// torch.nn.LSTM, GRU and RNN.
bool is_recurrent_layer(const Call& call);
// torch.nn.LSTMCell, GRUCell and RNNCell.
bool is_recurrent_cell(const Call& call);

// What findings of one class are gathered by: the class it stands in, else the outermost function,
// else the file.
const void* home_of(const Call& call);

// The sizes of a convolution that is no depthwise one and has 16 channels or more on both sides and
// 32 on one; empty for others.
std::optional<LayerSizes> wide_convolution(const SourceFacts& facts, const Program& program,
                                           const Call& call);
// Of what counts the first 2-D or 3-D convolution, not depthwise, that has 16 channels or more on
// both sides and 32 on one, or a convolutional network of a library; a patch embedding is none.
std::optional<SizedLayer> main_convolution(const SourceFacts& facts, const Program& program,
                                           const Accepts& accepts = kAnyCall);
// Whether attention is seen in the program, so that it may be a transformer with few convolutions.
bool has_attention(const Program& program);

// model(x), or model.forward(x), of a model and not of the layers in it.
bool is_forward_call(const Call& call);
// The first call of a model in a training loop of the program, those inside of modules left out;
// null where none is seen.
const Call* forward_call(const SourceFacts& facts, const Program& program);
// Where a program trains: the loop that a default run gets to, and the forward call in it, or
// beside the backward that it calls; null where other programs call that too, or none is seen.
struct TrainingPlace {
  const Loop* loop = nullptr;
  const Call* forward = nullptr;
};
TrainingPlace training_place(const SourceFacts& facts, const Program& program);
// Whether the network that a training loop calls is seen, with a convolution of 32 or more channels
// on both sides, a window of 3 or more and stride 1 in it, as no patch embedding has. Of networks
// to choose from, those that a run with all defaults makes, and none of them with attention.
bool trains_plain_convolution(const SourceFacts& facts, const Program& program);
// Whether the program's entry gets to one of its training loops: it stands there, is called from
// there, or its file is imported there, also through one other. True where a library trains.
bool runs_training(const Program& program);
// Whether a run may take a training step: the entry gets to a training loop by calls, calls what
// trains by its name, or leaves it to a library.
bool takes_steps(const Program& program);
// The training loops that the entry gets to by calls, or that stand in it; all where none does.
std::vector<const Loop*> training_loops_in_reach(const Program& program);
// Whether the program only imports the training that another program calls: a tool beside the
// training script.
bool leaves_training_to_another(const SourceFacts& facts, const Program& program);
// The file of the first training loop, else of the entry; null for a program without both.
const File* training_file(const Program& program);
// The last import of the block at the top of the file: new settings go behind it. Null without one.
const Statement* last_import(const File& file);

}  // namespace rooftile::source
