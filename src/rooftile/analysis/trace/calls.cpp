#include "rooftile/analysis/trace/calls.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "rooftile/base/text.h"

namespace rooftile::trace {
namespace {

bool is_allocation(std::string_view name) {
  constexpr std::array<std::string_view, 8> kWords{"Malloc",    "MemAlloc",    "MemCreate",
                                                   "MemMap",    "HostAlloc",   "AddressReserve",
                                                   "SetAccess", "HostRegister"};
  return std::any_of(kWords.begin(), kWords.end(),
                     [&](std::string_view word) { return contains(name, word); });
}

bool is_release(std::string_view name) {
  constexpr std::array<std::string_view, 5> kWords{"MemFree", "MemUnmap", "MemRelease",
                                                   "AddressFree", "HostUnregister"};
  return name == "cudaFree" || name == "hipFree" || contains(name, "FreeHost") ||
         contains(name, "FreeArray") || contains(name, "FreeMipmappedArray") ||
         contains(name, "FreeAsync") || contains(name, "HostFree") ||
         std::any_of(kWords.begin(), kWords.end(),
                     [&](std::string_view word) { return contains(name, word); });
}

// "step", "iteration_5", "Train step #12", "Warm-up Step 2": a word for a step, what kind of step
// it is, and numbers; or anything's "train_step".
bool names_a_step(std::string_view name) {
  constexpr std::array<std::string_view, 8> kSteps{
      "step",         "iteration",      "iter",      "trainstep",
      "trainingstep", "trainiteration", "trainiter", "trainingiteration"};
  constexpr std::array<std::string_view, 13> kKinds{
      "train",     "training", "warm", "up",    "warmup",   "bench",   "benchmark",
      "inference", "eval",     "test", "timed", "measured", "profiled"};
  const auto is_letter = [](unsigned char c) { return std::isalpha(c) != 0; };
  const auto is_one_of = [](const auto& words, std::string_view word) {
    return std::ranges::find(words, word) != words.end();
  };
  const std::string text = lower(name);
  if (text.ends_with("train_step") || text.ends_with("training_step")) return true;
  std::size_t steps = 0;
  for (auto at = text.begin(); at != text.end();) {
    const auto end = std::find_if_not(at, text.end(), is_letter);
    const std::string_view word(at, end);
    if (is_one_of(kSteps, word)) {
      ++steps;
    } else if (!word.empty() && !is_one_of(kKinds, word)) {
      return false;
    }
    at = end == text.end() ? end : std::next(end);
  }
  return steps == 1;
}

// NVRTC and the driver's linker make kernels while the program runs; CUDA loads them, and makes a
// graph ready, at their first use.
bool loads_kernels(std::string_view name) {
  constexpr std::array<std::string_view, 8> kWords{"ModuleLoad", "LibraryLoad",     "ModuleGet",
                                                   "LibraryGet", "LinkCreate",      "LinkAdd",
                                                   "nvrtc",      "GraphInstantiate"};
  return contains(name, "LinkComplete") ||
         std::any_of(kWords.begin(), kWords.end(),
                     [&](std::string_view word) { return contains(name, word); });
}

bool starts_cuda(std::string_view name) {
  return name.starts_with("cuInit") || name.starts_with("cuCtxCreate") ||
         name.starts_with("cuDevicePrimaryCtxRetain") || name == "cuModuleGetLoadingMode";
}

// vLLM: "execute_context_1(128)_generation_4(4)", "execute_32_context_0(…)_generation_32(…)",
// "execute_new_1_cached_4", or only its parts,
// "gpu_model_runner: forward"; SGLang: "step[DECODE bs=32]"; TensorRT-LLM: "[Executor]
// _forward_step 7: 1 ctx reqs, 4 gen reqs".
bool is_engine_step(std::string_view name) {
  const bool names_work = contains(name, "context_") && contains(name, "_generation_");
  return (name.starts_with("execute_") && names_work) || name.starts_with("execute_new_") ||
         name == "gpu_model_runner: forward" || name.starts_with("step[") ||
         contains(name, "_forward_step ");
}

// AddmmBackward0, NativeLayerNormBackward, torch::autograd::AccumulateGrad.
bool is_autograd(std::string_view name) {
  if (name.starts_with("autograd::") || name.starts_with("torch::autograd::")) return true;
  while (!name.empty() && std::isdigit(static_cast<unsigned char>(name.back())) != 0) {
    name.remove_suffix(1);
  }
  return name.ends_with("Backward") && !contains(name, "::");
}

}  // namespace

CallKind call_kind(std::string_view name) {
  if (starts_cuda(name)) return CallKind::start_up;
  if (loads_kernels(name)) return CallKind::load;
  if (contains(name, "GraphLaunch")) return CallKind::graph_launch;
  if (contains(name, "Launch") && !contains(name, "HostFunc")) return CallKind::launch;
  if (contains(name, "DeviceSynchronize") || contains(name, "CtxSynchronize") ||
      contains(name, "ThreadSynchronize")) {
    return CallKind::device_wait;
  }
  if (contains(name, "StreamSynchronize")) return CallKind::stream_wait;
  if (contains(name, "EventSynchronize")) return CallKind::event_wait;
  if (contains(name, "Memcpy") || contains(name, "Memset")) {
    const bool waits = !contains(name, "Async") && contains(name, "Memcpy");
    return waits ? CallKind::blocking_copy : CallKind::copy;
  }
  if (is_release(name)) return CallKind::release;
  return is_allocation(name) ? CallKind::allocation : CallKind::other;
}

namespace {

// "FusionKernelRuntime::compileFusionParallel", "compile_kernel": what compiles says what. A
// "compiled" model or region runs.
bool says_what_it_compiles(std::string_view name) {
  for (const std::string_view word : {"compile", "Compile"}) {
    const auto at = name.find(word);
    if (at == std::string_view::npos) continue;
    const std::string_view what = name.substr(at + word.size());
    if (what.empty()) return contains(name, "::");
    const bool is_word = std::isupper(static_cast<unsigned char>(what.front())) != 0;
    if (is_word) return true;
    for (const std::string_view made : {"_kernel", "_module", "_fusion", "_cubin", "_ptx"}) {
      if (what.starts_with(made)) return true;
    }
  }
  return false;
}

}  // namespace

// The same files of Triton hold what each launch goes through: __getattribute__, launch_metadata,
// the launcher's __call__.
bool is_triton_compiling(std::string_view function) {
  constexpr std::array<std::string_view, 6> kCompiles{"compile",   "make_", "ast_to_",
                                                      "optimize_", "build", "load_binary"};
  return function != "make_backend" && std::ranges::any_of(kCompiles, [&](std::string_view begin) {
           return function.starts_with(begin);
         });
}

// PyTorch ends the ranges of each phase of torch.compile in "(dynamo_timed)". Functions of
// Inductor's compile_fx.py also run the compiled code; those that compile say so.
bool names_a_compiler(std::string_view name) {
  const std::string text = lower(name);
  const std::size_t function = text.find("): ");
  if (contains(text, "_inductor/compile_fx.py") && function != std::string::npos) {
    return contains(text.substr(function), "compile");
  }
  if (function != std::string::npos &&
      (contains(text, "triton/compiler/") || contains(text, "triton/backends/"))) {
    return is_triton_compiling(std::string_view(text).substr(function + 3));
  }
  constexpr std::array<std::string_view, 8> kWords{"(dynamo_timed)",
                                                   "nvrtc",
                                                   "_dynamo/convert_frame.py",
                                                   "compile_fx",
                                                   "torch/utils/cpp_extension.py",
                                                   "cupy/cuda/compiler.py",
                                                   "numba/core/compiler",
                                                   "numba/cuda/compiler"};
  return says_what_it_compiles(name) ||
         std::ranges::any_of(kWords, [&](std::string_view word) { return contains(text, word); });
}

RangeKind range_kind(std::string_view name) {
  if (names_a_compiler(name)) return RangeKind::compilation;
  if (name.starts_with("ProfilerStep")) return RangeKind::step;
  if (name.starts_with("Optimizer.step#")) return RangeKind::optimizer_step;
  if (contains(name, "DataLoader") && contains(name, "__next__")) return RangeKind::loader;
  if (is_engine_step(name)) return RangeKind::engine_step;
  if (is_autograd(name)) return RangeKind::autograd;
  if (name.starts_with("gloo:") || contains(name, "c10d::barrier") ||
      contains(name, "monitored_barrier")) {
    return RangeKind::rank_wait;
  }
  if (contains(name, "::")) return RangeKind::operation;
  if (contains(lower(name), "dataloader")) return RangeKind::loader;
  return names_a_step(name) ? RangeKind::user_step : RangeKind::other;
}

}  // namespace rooftile::trace
