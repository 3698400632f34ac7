// Runs the recording again with something changed: the host's calls in their order, the GPU's
// activities in the order of their streams, each when what it waited for is done.
#pragma once

#include <cstdint>
#include <vector>

#include "rooftile/analysis/trace/busy.h"
#include "rooftile/analysis/trace/waits.h"

namespace rooftile::trace {

// What differs from the recording.
struct Change {
  std::vector<Window> removed;       // of the host's time; disjoint and in order
  bool no_synchronization = false;   // waits for the GPU return at once
  bool asynchronous_copies = false;  // so do copies from the host
  bool no_communication = false;     // collectives take no time
  bool no_late_batches = false;      // the loader's workers are as fast as they have to be
  double kernel_time = 1;            // factor of the duration of other kernels
  double copy_time = 1;              // of copies
};

// From the window's start until the host has reached a point and the GPU is done with what was
// launched before.
struct ReplayTimes {
  Nanoseconds first_step = 0, all = 0;
  Nanoseconds last_batch = 0;  // the host has the last batch that came late; 0 = none did
};

class Replay {
 public:
  // `steps` is the window's part on the host: what it launches is run again. Its first step ends
  // at `first_end`.
  Replay(const Timeline& timeline, const Links& links, const GpuTrack& track,
         const BusySplit& split, const std::vector<HostWait>& waits, const Window& steps,
         Nanoseconds first_end);

  ReplayTimes run(const Change& change);
  // What an activity of the recording waited for: another one, before it on its stream or on
  // another; kNone = its launch. Activities by their position in the track.
  struct Origin {
    std::uint32_t activity = kNone;
  };
  Origin origin_of(std::uint32_t position) const { return {activities_[position].waited_for}; }
  // The last activity launched before the wait that was done when it returned; kNone = none.
  std::uint32_t awaited_by(const HostWait& wait) const;
  // The last activity to end by then; kNone = none.
  std::uint32_t last_ended(Nanoseconds at) const;
  // From a launch to its start on an idle GPU.
  Nanoseconds usual_latency() const { return latency_; }
  // Of the activities of a class that are launched in [start, end) of the recording: the sum.
  Nanoseconds time_of(GpuClass kind, const Window& window) const;
  // When the last batch that came late was there; the steps' end where fewer than two did, or
  // little is known by then.
  Nanoseconds last_late_batch() const;

 private:
  // An activity starts `latency` after its launch, `pause` after the one before it on its stream
  // and `lag` after `after`, whichever is latest.
  struct Activity {
    GpuClass kind = GpuClass::compute;
    std::uint16_t stream = 0;
    Nanoseconds duration = 0, latency = 0, pause = 0, lag = 0;
    std::uint32_t after = kNone;       // an activity on another stream
    std::uint32_t waited_for = kNone;  // the one that it began after; kNone = its launch
    Nanoseconds end = 0;               // of this run
  };
  enum class Until : std::uint8_t { never, activity, stream, device, batch };
  // A call that may hold the host. It takes `own`, and ends no earlier than `lag` after what it
  // waits for. Batches of other processes come when they came: who asks earlier waits longer.
  struct Wait {
    Nanoseconds start = 0, end = 0, own = 0, lag = 0;
    IdleCause cause = IdleCause::synchronization;
    Until until = Until::never;
    std::uint32_t activity = kNone;
    Nanoseconds began = 0, removed = 0;  // in this run; of the time before it
  };
  enum class EventKind : std::uint8_t { wait_end, first_step_end, wait_start, launch };
  struct Event {
    Nanoseconds at = 0;
    EventKind kind = EventKind::launch;
    std::uint32_t index = 0;  // of the activity or wait
  };
  struct Run;

  void add_activities(const BusySplit& split);
  void add_waits(const std::vector<HostWait>& waits);
  void add_batches(const std::vector<HostWait>& waits);
  void add_full_queue();
  void add(const Wait& wait);
  Activity activity_of(std::size_t position, std::size_t before) const;
  void wait_for_other_stream(std::size_t position, Activity& activity) const;
  Nanoseconds called(std::size_t position) const;
  Nanoseconds start(std::size_t position) const;
  Nanoseconds end(std::size_t position) const;

  const Timeline& timeline_;
  const Links& links_;
  const GpuTrack& track_;
  Window steps_;
  Nanoseconds latency_ = 0, pause_ = 0;  // usual ones
  std::vector<std::uint32_t> by_end_;    // positions in the track
  std::vector<Activity> activities_;     // by position in the track
  std::vector<Wait> waits_;
  std::vector<Event> events_;
  std::vector<Nanoseconds> ready_;  // by stream, at the window's start
};

}  // namespace rooftile::trace
