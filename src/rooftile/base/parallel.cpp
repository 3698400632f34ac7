#include "rooftile/base/parallel.h"

#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace rooftile {

void in_threads(std::size_t threads, const std::function<void(std::size_t thread)>& work) {
  std::mutex mutex;
  std::exception_ptr first;
  const auto guarded = [&](std::size_t thread) {
    try {
      work(thread);
    } catch (...) {
      const std::scoped_lock lock(mutex);
      if (!first) first = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> helpers;
    try {
      for (std::size_t i = 1; i < threads; ++i) helpers.emplace_back(guarded, i);
    } catch (const std::system_error&) {
      // No more threads: those that there are do it all.
    }
    guarded(0);
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace rooftile
