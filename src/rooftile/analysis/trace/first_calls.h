// What the host does once: a first call sets a library up, chooses an algorithm, loads a kernel.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "rooftile/analysis/trace/waits.h"

namespace rooftile::trace {

// Times; assumed: set-up takes ten to a thousand times what later calls take.
constexpr Nanoseconds kFarLonger = 5;

// Which launches are the first of their kernel or kind of copy.
class FirstCalls {
 public:
  FirstCalls(const Timeline& timeline, const Links& links);

  bool has_operators() const { return has_operators_; }
  // Whether a long call is what it takes to load or set up: the first of a kernel, or of its name.
  // Another one is the host held up in it.
  bool is_first_call(std::uint32_t call) const;
  // The name of the kernel that the thread launches next after `at`, for the first time and not
  // again and again after about `length`, in a recording that shows CUDA or a library starting; 0
  // where it is no such kernel. Without operators nothing else tells a library's first calls from
  // other work; beside them only Triton's kernels are loaded where no operator is around. The
  // program's own kernels are loaded within calls of the runtime.
  std::uint32_t next_first_kernel(Nanoseconds at, std::uint16_t thread, Nanoseconds length) const;
  // Whether `op`, in a stretch without launches, took until `end` to start a kernel that had not
  // run before, and takes far longer than other calls of its name; or is the first of its shape
  // where the library chooses by shape.
  bool is_one(std::uint32_t op, Nanoseconds start, Nanoseconds end);
  // Whether a library is set up in `op`: cuBLAS once, cuDNN for each shape.
  bool sets_library_up(std::uint32_t op);

  // Whether an allocation is the first of its name, before any launch, and far longer than later
  // ones: it creates CUDA's context.
  bool creates_context(std::uint32_t call) const;

  // The host's time that first calls take: in operators until they launch a kernel, and in the
  // launch itself, that is, the first of the kernel or shape and far longer than later ones are;
  // without later ones, than others are in a recording that shows CUDA or a library starting.
  // What lies in `held` is something else, and must be in order.
  std::vector<HostWait> find(const Cover& held);

 private:
  class UsualTimes;
  struct Launch {
    std::uint32_t call = 0;
    std::uint32_t kernel = 0;                        // name
    Nanoseconds from = 0, called = 0, returned = 0;  // in the operator around it
    Nanoseconds before = 0, in_call = 0;             // without what lies in `held`
    bool is_first = false;                           // of its kernel
  };

  bool is_of_new_shape(const Launch& launch, const UsualTimes& usual);
  Nanoseconds start_of(std::uint32_t call) const { return timeline_.calls.time.start(call); }
  bool recurs(std::uint32_t first, Nanoseconds length) const;
  Nanoseconds time_before(std::uint32_t launch) const;
  bool is_cold() const;
  bool is_first_of_shape(std::uint32_t op);
  Nanoseconds usual(std::uint32_t name);
  std::vector<Launch> kernel_launches(const Cover& held) const;

  const Timeline& timeline_;
  const Links& links_;
  std::vector<std::pair<Nanoseconds, std::uint32_t>> calls_;            // start, call; sorted
  std::map<std::uint32_t, std::uint32_t> kernels_;                      // name by its first launch
  using Launches = std::vector<std::pair<Nanoseconds, std::uint32_t>>;  // by start
  Launches launches_;
  std::vector<Launches> of_thread_, kernels_of_thread_;  // those of kernels alone
  std::vector<std::uint32_t> of_name_;                   // first call of each name; sorted
  bool has_operators_ = false;
  mutable std::optional<bool> is_cold_;
  std::map<std::uint32_t, Nanoseconds> usual_;  // by name
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> first_of_shape_;
};

// Adds them to waits that are disjoint and in order: where those are, the time stays theirs, but
// for other work of the host.
void add_first_calls(const Timeline& timeline, const Links& links, std::vector<HostWait>& waits);

}  // namespace rooftile::trace
