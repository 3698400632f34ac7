// The arguments of events that repeat: shapes of operators, launches, copies, collectives.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/readers/kineto/tables.h"
#include "rooftile/workload/timeline.h"

namespace rooftile {

// Arguments of an event as written; empty where it has none of that name.
struct KnownArgs {
  std::string_view external_id, correlation, device, stream, bytes, kind;
  std::string_view dims, types, strides, values;  // of operators
  std::string_view sequence, call_stack, module;
  std::string_view grid, block, registers, shared_memory;
  std::string_view collective, in_elements, out_elements, dtype, group_size, group;
  std::string_view device_id, device_type, allocated, reserved;  // of memory events
};

KnownArgs known_args(const KinetoEvent& event);

// "Input Dims", "Input type", "Input Strides" and "Concrete Inputs"; lists of tensors give empty
// dims and strides, and their sizes as values.
OpArguments op_arguments_in(const KnownArgs& args);
LaunchShape launch_shape_in(const KnownArgs& args);
CollectiveShape collective_shape_in(const KnownArgs& args);
// From the name, "Memcpy HtoD (Pageable -> Device)", or from ROCm's `kind`.
CopyShape copy_shape_in(std::string_view name, const KnownArgs& args);

// Rows of the timeline's tables of distinct values, found by the text of the event.
class ArgumentTables {
 public:
  explicit ArgumentTables(Timeline& timeline) : timeline_(timeline) {}

  std::uint32_t arguments_of(const KnownArgs& args, SkippedRecords& skipped);
  std::uint32_t launch_of(const KnownArgs& args, SkippedRecords& skipped);
  std::uint32_t copy_of(std::string_view name, const KnownArgs& args, SkippedRecords& skipped);
  std::uint32_t collective_of(const KnownArgs& args);
  std::uint32_t row_of(const LaunchShape& launch);

 private:
  Timeline& timeline_;
  std::string key_;
  TextCache arguments_{std::size_t{32} << 20U};
  TextCache launches_{std::size_t{32} << 20U};
  std::map<OpArguments, std::uint32_t> argument_rows_;
  std::map<LaunchShape, std::uint32_t> launch_rows_;
  std::map<CollectiveShape, std::uint32_t> collective_rows_;
  std::map<CopyShape, std::uint32_t> copy_rows_;
};

}  // namespace rooftile
