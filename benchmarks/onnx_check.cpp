// Start-up, the time of `rooftile check` on a large graph against the ONNX library's own parse and
// shape inference of the same file, and peak memory with 10 GB of external weights; in one run.
#include <fcntl.h>
#include <fmt/core.h>
#include <onnx/defs/operator_sets.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <vector>

#include "large_graph.h"

namespace {

namespace fs = std::filesystem;
using rooftile::benchmarks::LargeGraph;

constexpr int kRuns = 15;
constexpr double kMaxStartUp = 0.020;
constexpr double kMaxCheck = 0.5;
constexpr double kMaxRatio = 1.5;
// Of a run without a model, plus a few tens of MB beside the file itself.
constexpr double kMaxExtraMemory = 64e6;

double seconds_of(const std::function<void()>& action) {
  const auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + kRuns / 2, values.end());
  return values[kRuns / 2];
}

// Runs the program with its output thrown away; returns its peak memory in bytes.
double run_program(const std::vector<std::string>& arguments) {
  std::vector<char*> raw;
  for (const std::string& argument : arguments) raw.push_back(const_cast<char*>(argument.c_str()));
  raw.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const int null = open("/dev/null", O_WRONLY);
    dup2(null, 1);
    dup2(null, 2);
    execv(raw[0], raw.data());
    _exit(127);
  }
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  if (!WIFEXITED(status) || WEXITSTATUS(status) > 1) {
    fmt::print(stderr, "{} {} failed with status {}\n", arguments[0], arguments[1], status);
    std::exit(2);
  }
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

void write_file(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// What a program that only uses the library does; runs as a process of its own, as rooftile does.
int infer_with_library(const fs::path& path) {
  onnx::RegisterOnnxOperatorSetSchema();
  std::ifstream file(path, std::ios::binary);
  onnx::ModelProto model;
  if (!model.ParseFromIstream(&file)) return 2;
  onnx::shape_inference::InferShapes(model);
  return 0;
}

// A line of the table; returns whether the limit holds.
bool report(const std::string& what, double value, double limit, const std::string& unit) {
  fmt::print("{:<52} {:>9.2f} {:<3} limit {:>7.2f}  {}\n", what, value, unit, limit,
             value <= limit ? "ok" : "MISSED");
  return value <= limit;
}

bool compare_times(const std::string& binary, const fs::path& model) {
  std::vector<double> start_up, ours, library;
  for (int i = 0; i < kRuns; ++i) {  // in turns, so that all see the same machine
    start_up.push_back(seconds_of([&] { run_program({binary, "--version"}); }));
    ours.push_back(seconds_of([&] { run_program({binary, "check", model, "--gpu", "h100"}); }));
    library.push_back(seconds_of([&] { run_program({"/proc/self/exe", "--library", model}); }));
  }
  fmt::print("{:<52} {:>9.2f} ms\n", "ONNX library alone: parse and shape inference",
             median(library) * 1e3);
  bool ok = report("start-up", median(start_up) * 1e3, kMaxStartUp * 1e3, "ms");
  ok &= report("rooftile check, start-up included", median(ours) * 1e3, kMaxCheck * 1e3, "ms");
  return report("… as a multiple of the library", median(ours) / median(library), kMaxRatio, "") &&
         ok;
}

bool measure_memory(const std::string& binary, const fs::path& folder) {
  LargeGraph options{.nodes = 1000, .width = 2448, .weight_file = "weights.bin"};
  const fs::path model = folder / "external.onnx";
  write_file(model, rooftile::benchmarks::large_graph(options));
  write_file(folder / options.weight_file, "");
  const std::int64_t weights = rooftile::benchmarks::weight_bytes(options);
  fs::resize_file(folder / options.weight_file, static_cast<std::uintmax_t>(weights));
  const double peak = run_program({binary, "check", model, "--gpu", "h100"});
  const double file = static_cast<double>(fs::file_size(model));
  return report(fmt::format("peak memory with {:.0f} GB of external weights",
                            static_cast<double>(weights) / 1e9),
                peak / 1e6, (file + kMaxExtraMemory) / 1e6, "MB");
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 2 && std::string(arguments[1]) == "--library")
    return infer_with_library(arguments[2]);
  const std::string binary = count > 1 ? arguments[1] : ROOFTILE_BINARY;
  const fs::path folder = fs::temp_directory_path() / fmt::format("rooftile_{}", getpid());
  fs::create_directories(folder);
  const std::string bytes = rooftile::benchmarks::large_graph({});
  write_file(folder / "large.onnx", bytes);
  fmt::print("large graph: {:.1f} MB without weights; medians of {} runs\n",
             static_cast<double>(bytes.size()) / 1e6, kRuns);
  bool ok = compare_times(binary, folder / "large.onnx");
  ok &= measure_memory(binary, folder);
  fs::remove_all(folder);
  return ok ? 0 : 1;
}
