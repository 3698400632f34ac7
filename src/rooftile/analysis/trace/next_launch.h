// From which thread of the host the GPU's next work comes, and what holds that thread up.
#pragma once

#include <cstdint>
#include <vector>

#include "rooftile/analysis/trace/busy.h"
#include "rooftile/analysis/trace/links.h"

namespace rooftile::trace {

// Over time, the thread of the next launch for one GPU. A wait on it holds the launch up. One on
// another thread does so only where the launching thread shows no sign of life meanwhile: no
// operator or call of its own is open, and nothing begins or ends on it. So autograd's thread waits
// for the forward pass, and the main thread for autograd's; a thread that reads results beside the
// program holds nothing up.
class NextLaunches {
 public:
  NextLaunches(const Timeline& timeline, const Links& links, const GpuTrack& track);

  // The parts of `wait` on `thread` that the next launch comes after. All of it where one thread
  // launches everything.
  std::vector<Window> held_up(std::uint16_t thread, const Window& wait) const;

 private:
  struct Launch {
    Nanoseconds at = 0;
    std::uint16_t thread = 0;
  };
  struct Thread {
    Cover open;                      // its operators and calls
    std::vector<Nanoseconds> signs;  // starts and ends of all that it does, sorted
  };
  bool is_dormant(std::uint16_t thread, const Window& part) const;

  std::vector<Launch> launches_;  // by time
  std::vector<Thread> threads_;   // empty where one thread launches everything
};

}  // namespace rooftile::trace
