// Kernels of a recorded program, gathered by the operator and shape that started them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rooftile/workload/trace_summary.h"

namespace rooftile {

// `use` is null for a kernel that no operator is known for.
using KernelTest = std::function<bool(const OpUse* use, const KernelUse& kernel)>;

// Kernels of one operator and shape, wherever it is called.
struct UseGroup {
  std::string name;                   // aten::addmm; empty where no operator is known
  std::string shape;                  // "4096x768, 768x3072"; empty where not recorded
  std::vector<const OpUse*> uses;     // largest first
  const KernelUse* kernel = nullptr;  // one of those whose name takes most of the time
  std::size_t names = 0;              // of different kernels
  double kernel_share = 0;            // of the time, what all of that kernel's name take
  std::int64_t kernels = 0;           // of the whole recording
  double window_part = 1;             // of the recorded times, the window's
  Seconds time;                       // of the window: sum over the kernels
};

// Groups of the kernels that `wanted` accepts, largest time first.
std::vector<UseGroup> group_by_shape(const TraceSummary& trace, const KernelTest& wanted);

// Time of the window: sum over all kernels that `wanted` accepts, those without an operator
// included.
Seconds time_of_kernels(const TraceSummary& trace, const KernelTest& wanted);

// Products on Tensor Cores or CUDA cores: matrix products and convolutions.
bool is_matrix_kernel(const KernelUse& kernel);

// Whether PyTorch ran the program, by its operators or its kernels.
bool uses_torch(const TraceSummary& trace);

// Whether the runtime of OpenMP launches the kernels (target regions) and waits for them.
bool uses_openmp(const TraceSummary& trace);

// Whether a range is around what torch.compile made: its own time is guards, compiling and
// recording.
bool is_compiled_range(std::string_view name);

// Whether parts of the program are compiled by torch.compile, on its critical path.
bool uses_compiler(const TraceSummary& trace);

// A kernel that the program brings: one of a name that no library has, or a plain function, as
// those of Triton and C are. Inductor's begin with "triton_".
bool is_own_kernel(const KernelUse& kernel);

// Whether the recorder slows the host for several times what launching costs: Python stacks, or a
// range of Nsight Systems for each operator (torch.autograd.profiler.emit_nvtx).
bool slows_host(const TraceSummary& trace);

// One row or column: matrix-vector products read every weight once and gain nothing from Tensor
// Cores. By the kernel's name, for where no shape is recorded.
bool is_vector_kernel(const KernelUse& kernel);

// What the kernel multiplies: by its name, else by the operator's first floating-point argument.
std::optional<Dtype> operand_dtype(const OpUse* use, const KernelUse& kernel);

// Sizes of the arguments that are tensors of more than one element, at most three.
std::string shape_text(const OpArguments& arguments);

// "kernel 'gemm'"; of several, "5 kernels, the longest 'gemm' (31 %)".
std::string kernels_text(const UseGroup& group);

// "ampere_sgemm_128x64_nn", without template arguments and at most 60 characters.
std::string short_kernel_name(std::string_view name);

}  // namespace rooftile
