// What a process holds in the memory of a GPU, and whether it fits.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "rooftile/base/units.h"
#include "rooftile/hardware/device.h"
#include "rooftile/workload/workload.h"

namespace rooftile {

// By the expected total against what a process can use: up to nine tenths of it, up to all, more.
enum class Fit { fits, tight, does_not_fit };
std::string_view to_string(Fit fit);

// What the driver and the CUDA context leave of the GPU's memory.
Bytes usable_memory(const Device& device);

// Of a training step, or of an inference pass or decode step with its cache. Ranges cover what the
// workload does not say: whether fp32 copies of 16-bit weights exist, which activations a framework
// keeps, whether the loss holds its logits in fp32, fragmentation.
struct MemoryEstimate {
  Bytes weights;
  // `recurrent_state`: of layers that keep a state of fixed size in place of keys and values.
  Range<Bytes> gradients, optimizer, activations, kv_cache, recurrent_state, workspace;
  Bytes usable;   // of the GPU, by one process
  Bytes library;  // part of `workspace` that every process has, whatever it runs

  Range<Bytes> total() const;
  Fit fit() const { return fit_of(total().expected); }
  Fit fit_of(Bytes expected) const;
  // What sharding spreads over GPUs, and no batch changes.
  Bytes state() const { return weights + gradients.expected + optimizer.expected; }
  // What grows with the batch.
  Bytes growing() const { return total().expected - state() - library; }
  // The share of what grows with the batch that fits beside what does not; 0 where nothing does.
  double share_that_fits(Bytes constant, Bytes growing, Fit worst) const;
};

MemoryEstimate estimate_memory(const Workload& workload, const Device& device);

// The largest batch that fits, with memory to spare or tightly, when everything that grows with the
// batch grows in proportion; 0 where not one sample does; empty where the workload does not state
// its batch.
std::optional<std::int64_t> largest_batch(const Workload& workload, const MemoryEstimate& memory,
                                          Fit worst);

// How a training step keeps its activations. checkpointed: each repeated layer keeps only its input
// and computes the rest once more in the backward pass. chunked_loss: output layer and
// cross-entropy take some tokens at a time, so that logits are never held whole.
struct Keeping {
  bool checkpointed = false, chunked_loss = false;
};

// Expected; empty for inference, and where no layers repeat or nothing makes logits.
std::optional<Bytes> kept_activations(const Workload& workload, const Keeping& keeping);

}  // namespace rooftile
