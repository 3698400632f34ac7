// Reads a trace into a timeline, and says how long that took. Usage: rooftile_trace_read TRACE
#include <fmt/format.h>

#include <chrono>
#include <cstdio>

#include "rooftile/readers/kineto/kineto_reader.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto start = std::chrono::steady_clock::now();
  const auto timeline = rooftile::read_kineto(argv[1]);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  if (!timeline) {
    fmt::print(stderr, "{}\n", rooftile::to_string(timeline.error()));
    return 2;
  }
  const std::size_t rows = timeline->ops.time.size() + timeline->python.time.size() +
                           timeline->calls.time.size() + timeline->gpu.time.size() +
                           timeline->memory.at.size();
  fmt::print("rows {} total_s {:.3f}\n", rows, time.count());
  for (const auto& [name, count] : timeline->skipped) fmt::print("skipped {}: {}\n", name, count);
  return 0;
}
