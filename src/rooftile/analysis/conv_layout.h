// What the channels_last memory format does to a convolution's time: the published heuristic of
// PyTorch Inductor (torch/_inductor/graph.py, decide_layout_opt).
#pragma once

#include "rooftile/workload/workload.h"

namespace rooftile {

// What the heuristic tells apart: groups of more than one channel, a kernel larger than one that
// leaves half of the channels or fewer, at most 64 channels on both sides.
bool is_grouped(const Convolution& conv);
bool is_shrinking(const Convolution& conv);
bool is_small(const Convolution& conv);

// Mean of channels_last over contiguous time, measured by Inductor's authors on the convolutions
// of a model benchmark in inference; below 1 is faster.
double channels_last_factor(const Convolution& conv);

// True where Inductor would choose channels_last: flop weighted with the factor must not grow. In
// training, one grouped convolution or one that halves its channels is enough to decline, because
// models with them ran slower in its benchmarks (jx_nest_base; pytorch_unet, Background_Matting).
bool channels_last_pays(const Workload& workload);

}  // namespace rooftile
