// The same work in several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace rooftile {

// Runs work(thread) for each thread below `threads`, counted from 0; 0 is the caller's own. Where
// the system starts no more threads, fewer run, so work is taken from a shared counter. What a
// thread throws is thrown here once all have ended.
void in_threads(std::size_t threads, const std::function<void(std::size_t thread)>& work);

}  // namespace rooftile
