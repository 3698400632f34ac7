// Convolutions by cuDNN, with the algorithm its heuristic puts first.
#pragma once

#include <memory>

#include "gpu/cuda/cudnn_abi.h"
#include "gpu/cuda/recipe.h"
#include "rooftile/workload/op.h"

namespace rooftile::gpu::cuda {

class Cudnn {
 public:
  static Result<std::shared_ptr<Cudnn>> open(std::shared_ptr<Driver> driver);
  ~Cudnn();
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;

  std::string version() const;

 private:
  friend class ConvolutionCall;
  template <class Checked>
  friend struct AbiCheck;
  using Heuristic = dnn::Status(dnn::Handle, const void*, const void*, dnn::ConvDesc, const void*,
                                int, int*, dnn::AlgoPerf*);

  Cudnn(std::shared_ptr<Driver> driver, Library library)
      : driver_(std::move(driver)), library_(std::move(library)) {}
  Result<void> load();
  Result<void> start();

  std::shared_ptr<Driver> driver_;
  Library library_;
  dnn::Handle handle_ = nullptr;
  std::size_t (*get_version)() = nullptr;
  dnn::Status (*create)(dnn::Handle*) = nullptr;
  dnn::Status (*destroy)(dnn::Handle) = nullptr;
  dnn::Status (*set_stream)(dnn::Handle, dnn::Stream) = nullptr;
  dnn::Status (*tensor_create)(dnn::TensorDesc*) = nullptr;
  dnn::Status (*tensor_destroy)(dnn::TensorDesc) = nullptr;
  dnn::Status (*tensor_set)(dnn::TensorDesc, int, int, const int*, const int*) = nullptr;
  dnn::Status (*filter_create)(dnn::FilterDesc*) = nullptr;
  dnn::Status (*filter_destroy)(dnn::FilterDesc) = nullptr;
  dnn::Status (*filter_set)(dnn::FilterDesc, int, int, int, const int*) = nullptr;
  dnn::Status (*conv_create)(dnn::ConvDesc*) = nullptr;
  dnn::Status (*conv_destroy)(dnn::ConvDesc) = nullptr;
  dnn::Status (*conv_set)(dnn::ConvDesc, int, const int*, const int*, const int*, int,
                          int) = nullptr;
  dnn::Status (*conv_groups)(dnn::ConvDesc, int) = nullptr;
  dnn::Status (*conv_math)(dnn::ConvDesc, int) = nullptr;
  Heuristic *forward_heuristic = nullptr, *dgrad_heuristic = nullptr, *wgrad_heuristic = nullptr;
  dnn::Status (*forward)(dnn::Handle, const void*, dnn::TensorDesc, const void*, dnn::FilterDesc,
                         const void*, dnn::ConvDesc, int, void*, std::size_t, const void*,
                         dnn::TensorDesc, void*) = nullptr;
  dnn::Status (*dgrad)(dnn::Handle, const void*, dnn::FilterDesc, const void*, dnn::TensorDesc,
                       const void*, dnn::ConvDesc, int, void*, std::size_t, const void*,
                       dnn::TensorDesc, void*) = nullptr;
  dnn::Status (*wgrad)(dnn::Handle, const void*, dnn::TensorDesc, const void*, dnn::TensorDesc,
                       const void*, dnn::ConvDesc, int, void*, std::size_t, const void*,
                       dnn::FilterDesc, void*) = nullptr;
};

// Two and three axes, equal padding at both ends; transposed convolutions are refused.
Result<Recipe> convolution_recipe(const std::shared_ptr<Cudnn>& library, const Op& op);

}  // namespace rooftile::gpu::cuda
