// What an event of a PyTorch trace is, by its category, in all spellings since 2021.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "rooftile/formats/kineto/kineto_stream.h"

namespace rooftile {

enum class EventClass : std::uint8_t {
  op,
  annotation,
  python,
  call,          // CUDA runtime or driver
  foreign_call,  // of another maker's runtime
  kernel,
  copy,
  fill,
  memory,
  overhead,  // of the profiler
  unused,    // repeats what other events say: flows, metadata, spans
  unknown,   // a category that this reader does not know
};

// By category, phase and, where the category does not tell, name, process and arguments.
EventClass class_of(const KinetoEvent& event);

// ProfilerStep#3, Optimizer.step#SGD.step, enumerate(DataLoader)#…: operators in old traces.
bool is_annotation_name(std::string_view name);
// Names that only another maker's accelerator has: Tensile's kernels, calls of HIP.
bool is_foreign_kernel(std::string_view name);
bool is_foreign_device(std::string_view name);

}  // namespace rooftile
