// A GPU as data: what its data sheet says, in SI units.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rooftile/base/units.h"
#include "rooftile/workload/tensor.h"

namespace rooftile {

// One slice of a GPU in Multi-Instance mode; a memory share holds for size and bandwidth alike.
// Source: NVIDIA Multi-Instance GPU User Guide, "Concepts" and "Supported MIG Profiles".
struct MigProfile {
  int sms = 0;
  double memory_share = 0.0;
  double l2_share = 0.0;
};

// Numbers a file leaves out stay empty; predictions then get wider or abstain.
struct Device {
  std::string id;    // file name without ".json": h100_sxm
  std::string name;  // "H100 SXM5 80 GB"
  std::vector<std::string> aliases;
  std::string architecture;    // pascal volta turing ampere ada hopper blackwell
  int compute_capability = 0;  // 10 · major + minor: 80, 86, 89, 90, 100, 103, 120
  int sms = 0;                 // streaming multiprocessors
  Hertz boost_clock;           // of the Tensor Core peaks, and of all peaks where they agree
  // Set where the FP32, FP64 and FP64 Tensor Core peaks are stated at a higher clock (Hopper,
  // data-centre Blackwell): H100 SXM has 1.83 GHz for Tensor Cores and 1.98 GHz for these.
  std::optional<Hertz> cuda_core_clock;
  std::map<Dtype, FlopPerSecond> tensor_core_peak;  // dense
  std::map<Dtype, FlopPerSecond> cuda_core_peak;
  BytesPerSecond dram_bandwidth;
  Bytes dram_size;
  Bytes l2_size;
  std::optional<Bytes> shared_memory_per_sm;
  std::optional<double> dram_ecc_share;  // of the DRAM that ECC bits take among the data (GDDR)
  // Of the memory, what firmware and an idle operating system keep, where the CPU has the same one.
  std::optional<double> dram_cpu_share;
  std::optional<Watts> power_limit;
  std::optional<BytesPerSecond> nvlink_bandwidth;  // one direction
  std::optional<BytesPerSecond> pcie_bandwidth;    // one direction
  std::map<std::string, MigProfile> mig_profiles;  // by name: 3g.40gb
  // Constants measured on this very GPU: a JSON object for analysis/time; empty where there are
  // none.
  std::string time_model;

  // Dense peak for products of this dtype: Tensor Cores where they take it, else CUDA cores. Where
  // neither takes tf32, fp16 or bf16 it is the FP32 rate, since libraries then multiply in FP32.
  std::optional<FlopPerSecond> peak(Dtype dtype) const;
  bool has_tensor_cores(Dtype dtype) const { return tensor_core_peak.contains(dtype); }
  // Arithmetic intensity above which products of this dtype are math-bound.
  std::optional<FlopPerByte> ridge(Dtype dtype) const;
};

}  // namespace rooftile
