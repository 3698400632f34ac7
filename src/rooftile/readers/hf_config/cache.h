// What a decoder keeps between its steps.
#pragma once

#include "rooftile/readers/hf_config/description.h"
#include "rooftile/workload/tensor.h"

namespace rooftile::hf {

// In bytes: of attention, which grows with the positions, and of layers that keep a state instead.
struct DecoderCache {
  double keys_and_values = 0, states = 0;

  DecoderCache& operator+=(const DecoderCache& more) {
    keys_and_values += more.keys_and_values;
    states += more.states;
    return *this;
  }
};

// Of all layers and sequences after the tower has run; 0 where it does not generate.
DecoderCache cache_of(const Tower& tower, std::int64_t batch, Dtype dtype);

// Of one sequence and layer, in elements: the short convolution's last inputs, and the state.
struct RecurrentState {
  double inputs = 0, state = 0;
};
RecurrentState state_of(const DeltaNet& net);
RecurrentState state_of(const Mamba2& mamba);
RecurrentState state_of(const Mamba1& mamba);
RecurrentState state_of(const LightningAttention& attention);

// States are kept in fp32: the kernels of flash-linear-attention and mamba_ssm return them so, and
// configs that name a dtype ("mamba_ssm_dtype") name this one.
inline constexpr Dtype kStateDtype = Dtype::fp32;

}  // namespace rooftile::hf
