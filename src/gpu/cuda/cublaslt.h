// Matrix products by cuBLASLt, with the algorithm its heuristic puts first: what PyTorch runs.
#pragma once

#include <memory>

#include "gpu/cuda/cublaslt_abi.h"
#include "gpu/cuda/recipe.h"
#include "gpu/product_layout.h"

namespace rooftile::gpu::cuda {

class CublasLt {
 public:
  static Result<std::shared_ptr<CublasLt>> open(std::shared_ptr<Driver> driver);
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  std::string version() const;

 private:
  friend class Matmul;
  template <class Checked>
  friend struct AbiCheck;

  CublasLt(std::shared_ptr<Driver> driver, Library library)
      : driver_(std::move(driver)), library_(std::move(library)) {}
  Result<void> load();

  std::shared_ptr<Driver> driver_;
  Library library_;
  lt::Handle handle_ = nullptr;
  std::size_t (*get_version)() = nullptr;
  lt::Status (*create)(lt::Handle*) = nullptr;
  lt::Status (*destroy)(lt::Handle) = nullptr;
  lt::Status (*desc_create)(lt::MatmulDesc*, int, int) = nullptr;
  lt::Status (*desc_destroy)(lt::MatmulDesc) = nullptr;
  lt::Status (*desc_set)(lt::MatmulDesc, int, const void*, std::size_t) = nullptr;
  lt::Status (*layout_create)(lt::MatrixLayout*, int, std::uint64_t, std::uint64_t,
                              std::int64_t) = nullptr;
  lt::Status (*layout_destroy)(lt::MatrixLayout) = nullptr;
  lt::Status (*layout_set)(lt::MatrixLayout, int, const void*, std::size_t) = nullptr;
  lt::Status (*pref_create)(lt::Preference*) = nullptr;
  lt::Status (*pref_destroy)(lt::Preference) = nullptr;
  lt::Status (*pref_set)(lt::Preference, int, const void*, std::size_t) = nullptr;
  lt::Status (*heuristic)(lt::Handle, lt::MatmulDesc, lt::MatrixLayout, lt::MatrixLayout,
                          lt::MatrixLayout, lt::MatrixLayout, lt::Preference, int,
                          lt::HeuristicResult*, int*) = nullptr;
  lt::Status (*matmul)(lt::Handle, lt::MatmulDesc, const void*, const void*, lt::MatrixLayout,
                       const void*, lt::MatrixLayout, const void*, const void*, lt::MatrixLayout,
                       void*, lt::MatrixLayout, const lt::Algo*, void*, std::size_t,
                       lt::Stream) = nullptr;
  lt::Status (*algo_get)(const lt::Algo*, int, void*, std::size_t, std::size_t*) = nullptr;
};

// `workspace_bytes` is the most an algorithm may ask for.
Result<Recipe> product_recipe(const std::shared_ptr<CublasLt>& library, const ProductLayout& layout,
                              std::size_t workspace_bytes);

// What PyTorch gives cuBLAS and cuBLASLt: 32 MiB from Hopper on; before, 1 MiB for products with a
// bias (cuBLASLt) and 8.125 MiB for others (cuBLAS, two of 4 MiB and eight of 16 KiB).
std::size_t pytorch_workspace(int compute_capability, bool bias);

}  // namespace rooftile::gpu::cuda
