#include "rooftile/analysis/trace/calls.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace rooftile::trace {
namespace {

TEST(CallKind, IsToldByTheName) {
  const std::pair<CallKind, std::vector<const char*>> cases[] = {
      {CallKind::start_up,
       {"cuInit", "cuCtxCreate_v2", "cuDevicePrimaryCtxRetain", "cuModuleGetLoadingMode"}},
      {CallKind::load,
       {"cuModuleLoadData", "cuLibraryLoadData", "cuModuleGetFunction", "cuLibraryGetKernel",
        "cuLinkCreate_v2", "cuLinkAddData_v2", "cuLinkComplete", "nvrtcCompileProgram",
        "cudaGraphInstantiateWithFlags"}},
      {CallKind::graph_launch, {"cudaGraphLaunch", "hipGraphLaunch"}},
      {CallKind::launch, {"cudaLaunchKernel", "cuLaunchKernelEx", "cudaLaunchCooperativeKernel"}},
      {CallKind::device_wait,
       {"cudaDeviceSynchronize", "cuCtxSynchronize", "cudaThreadSynchronize"}},
      {CallKind::stream_wait, {"cudaStreamSynchronize"}},
      {CallKind::event_wait, {"cudaEventSynchronize"}},
      {CallKind::copy,
       {"cudaMemcpyAsync", "cudaMemset", "cudaMemsetAsync", "cuMemcpyHtoDAsync_v2"}},
      {CallKind::blocking_copy, {"cudaMemcpy", "cuMemcpyDtoH_v2", "cudaMemcpyToSymbol"}},
      {CallKind::release,
       {"cudaFree", "hipFree", "cudaFreeHost", "cudaFreeArray", "cudaFreeMipmappedArray",
        "cudaFreeAsync", "hipHostFree", "cuMemFree_v2", "cuMemUnmap", "cuMemRelease",
        "cuMemAddressFree", "cudaHostUnregister"}},
      {CallKind::allocation,
       {"cudaMalloc", "cudaMallocAsync", "cuMemAlloc_v2", "cuMemCreate", "cuMemMap",
        "cudaHostAlloc", "cuMemAddressReserve", "cuMemSetAccess", "cudaHostRegister"}},
      {CallKind::other, {"cudaEventRecord", "cudaLaunchHostFunc", "cudaStreamIsCapturing", ""}}};
  for (const auto& [kind, names] : cases) {
    for (const char* name : names) EXPECT_EQ(call_kind(name), kind) << name;
  }
}

TEST(CallKind, WhichStartWorkAndWhichWait) {
  for (const CallKind kind :
       {CallKind::launch, CallKind::graph_launch, CallKind::copy, CallKind::blocking_copy}) {
    EXPECT_TRUE(is_launch(kind));
    EXPECT_FALSE(is_wait(kind));
  }
  for (const CallKind kind : {CallKind::event_wait, CallKind::stream_wait, CallKind::device_wait}) {
    EXPECT_TRUE(is_wait(kind));
    EXPECT_FALSE(is_launch(kind));
  }
  for (const CallKind kind :
       {CallKind::other, CallKind::allocation, CallKind::release, CallKind::load}) {
    EXPECT_FALSE(is_wait(kind) || is_launch(kind));
  }
}

TEST(RangeKind, OfStepsAndEngines) {
  const std::pair<RangeKind, std::vector<const char*>> cases[] = {
      {RangeKind::user_step,
       {"step", "iteration_5", "Train step #12", "Warm-up Step 2", "my_train_step",
        "gpt_training_step", "iter 7", "TrainStep"}},
      {RangeKind::other, {"step of step", "step step", "step encoder", "5", "train", "steps", ""}},
      {RangeKind::engine_step,
       {"execute_32_context_0(0)_generation_32(32)", "execute_new_1_cached_4",
        "gpu_model_runner: forward", "step[DECODE bs=32]",
        "[Executor] _forward_step 7: 1 ctx reqs, 4 gen reqs"}},
      {RangeKind::other, {"execute_context_1", "execute_generation_1", "context_1_generation_2"}}};
  for (const auto& [kind, names] : cases) {
    for (const char* name : names) EXPECT_EQ(range_kind(name), kind) << name;
  }
}

TEST(RangeKind, OfAutogradAndCompilers) {
  const std::pair<RangeKind, std::vector<const char*>> cases[] = {
      {RangeKind::autograd,
       {"AddmmBackward0", "NativeLayerNormBackward", "torch::autograd::AccumulateGrad",
        "autograd::engine::evaluate_function: X"}},
      {RangeKind::operation, {"aten::convolution_backward", "my::MmBackward0"}},
      {RangeKind::other, {"Backward pass", "backward0"}},
      {RangeKind::compilation,
       {"_compile.compile_inner (dynamo_timed)",
        "FusionKernelRuntime::compileFusionParallel",
        "jit::compile",
        "compile_kernel",
        "compile_module_7",
        "compile_fusion",
        "compile_cubin",
        "compile_ptx",
        "NVRTC program",
        "torch/_dynamo/convert_frame.py(100): __call__",
        "torch/utils/cpp_extension.py(80): load",
        "cupy/cuda/compiler.py(9): f",
        "numba/core/compiler.py(9): f",
        "numba/cuda/compiler.py(9): f",
        "torch/_inductor/compile_fx.py(7): compile_fx_inner",
        "triton/compiler/compiler.py(226): make_ir",
        "triton/compiler/compiler.py(9): ast_to_ttir",
        "triton/backends/nvidia/compiler.py(9): optimize_ttgir",
        "triton/backends/nvidia/driver.py(9): build",
        "triton/compiler/compiler.py(9): load_binary"}},
      {RangeKind::other,
       {"Torch-Compiled Region", "compile", "compiled_model", "compile_options",
        "torch/_inductor/compile_fx.py(7): run", "triton/compiler/compiler.py(398): make_backend",
        "triton/compiler/compiler.py(398): launch_metadata"}}};
  for (const auto& [kind, names] : cases) {
    for (const char* name : names) EXPECT_EQ(range_kind(name), kind) << name;
  }
}

TEST(RangeKind, IsToldByTheName) {
  const std::pair<const char*, RangeKind> cases[] = {
      {"ProfilerStep#12", RangeKind::step},
      {"Optimizer.step#AdamW.step", RangeKind::optimizer_step},
      {"Optimizer.zero_grad#AdamW.zero_grad", RangeKind::other},
      {"enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", RangeKind::loader},
      {"my dataloader", RangeKind::loader},
      {"execute_context_2(512)_generation_3(3)", RangeKind::engine_step},
      {"autograd::engine::evaluate_function: MmBackward0", RangeKind::autograd},
      {"gloo:all_reduce", RangeKind::rank_wait},
      {"c10d::barrier", RangeKind::rank_wait},
      {"monitored_barrier", RangeKind::rank_wait},
      {"aten::mm", RangeKind::operation},
      {"train step", RangeKind::user_step},
      {"encoder", RangeKind::other},
  };
  for (const auto& [name, kind] : cases) EXPECT_EQ(range_kind(name), kind) << name;
}

}  // namespace
}  // namespace rooftile::trace
