#include "gpu/cuda/cudnn.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace rooftile::gpu::cuda {
namespace {

// Algorithms that want more are passed over, as PyTorch does when memory is short.
constexpr std::size_t kMostWorkspace = std::size_t{2} << 30;
constexpr int kMostAlgorithms = 8;

Result<void> check(dnn::Status status, const char* doing) {
  if (status == 0) return {};
  return fail(fmt::format("{}: status {}", doing, status));
}

std::vector<int> ints(const Extents& sizes, std::size_t axes, std::int64_t otherwise) {
  std::vector<int> values;
  for (std::size_t i = 0; i < axes; ++i) {
    values.push_back(static_cast<int>(i < sizes.size() ? sizes[i] : otherwise));
  }
  return values;
}

// Sizes n, c, then the axes.
std::vector<int> dims_of(std::int64_t n, std::int64_t c, const Extents& axes) {
  std::vector<int> dims{static_cast<int>(n), static_cast<int>(c)};
  for (const std::int64_t size : axes) dims.push_back(static_cast<int>(size));
  return dims;
}

std::vector<int> strides_of(const std::vector<int>& dims, TensorLayout layout) {
  std::vector<int> strides(dims.size(), 1);
  int step = layout == TensorLayout::nhwc ? dims[1] : 1;
  for (std::size_t axis = dims.size() - 1; axis >= 2; --axis) {
    strides[axis] = step;
    step *= dims[axis];
  }
  if (layout == TensorLayout::nchw) {
    strides[1] = step;
    step *= dims[1];
  }
  strides[0] = step;
  return strides;
}

std::int64_t elements_of(const std::vector<int>& dims) {
  std::int64_t elements = 1;
  for (const int size : dims) elements *= size;
  return elements;
}

std::optional<int> data_type(Dtype dtype) {
  if (dtype == Dtype::fp16) return dnn::kHalf;
  if (dtype == Dtype::bf16) return dnn::kBfloat16;
  if (dtype == Dtype::fp32 || dtype == Dtype::tf32) return dnn::kFloat;
  return std::nullopt;
}

Result<void> check_measurable(const Op& op, const Convolution& conv) {
  if (conv.transposed) return fail("transposed convolutions are not measured");
  if (conv.input.size() < 2) return fail("convolutions over one axis are not measured");
  const bool even =
      ints(conv.pad_begin, conv.input.size(), 0) == ints(conv.pad_end, conv.input.size(), 0);
  if (!even) return fail("convolutions with uneven padding are not measured");
  if (!data_type(op.dtypes.input) || op.dtypes.weight != op.dtypes.input) {
    return fail(fmt::format("convolutions in {} are not measured", to_string(op.dtypes.input)));
  }
  // cuDNN's sizes and strides are 32-bit.
  const double largest =
      static_cast<double>(conv.n) *
      std::max(static_cast<double>(conv.c) * element_count(conv.input),
               static_cast<double>(conv.k) * element_count(output_extents(conv)));
  if (largest > 2147483647.0) return fail("tensors beyond 2^31 elements are not measured");
  return {};
}

}  // namespace

Result<std::shared_ptr<Cudnn>> Cudnn::open(std::shared_ptr<Driver> driver) {
  Result<Library> library = Library::open({"libcudnn.so.9", "libcudnn.so.8"}, "cuDNN");
  if (!library) return tl::unexpected(library.error());
  std::shared_ptr<Cudnn> opened(new Cudnn(std::move(driver), std::move(*library)));
  if (const auto loaded = opened->load(); !loaded) return tl::unexpected(loaded.error());
  if (const auto started = opened->start(); !started) return tl::unexpected(started.error());
  return opened;
}

Result<void> Cudnn::load() {
  library_.load("cudnnGetVersion", get_version);
  library_.load("cudnnCreate", create);
  library_.load("cudnnDestroy", destroy);
  library_.load("cudnnSetStream", set_stream);
  library_.load("cudnnCreateTensorDescriptor", tensor_create);
  library_.load("cudnnDestroyTensorDescriptor", tensor_destroy);
  library_.load("cudnnSetTensorNdDescriptor", tensor_set);
  library_.load("cudnnCreateFilterDescriptor", filter_create);
  library_.load("cudnnDestroyFilterDescriptor", filter_destroy);
  library_.load("cudnnSetFilterNdDescriptor", filter_set);
  library_.load("cudnnCreateConvolutionDescriptor", conv_create);
  library_.load("cudnnDestroyConvolutionDescriptor", conv_destroy);
  library_.load("cudnnSetConvolutionNdDescriptor", conv_set);
  library_.load("cudnnSetConvolutionGroupCount", conv_groups);
  library_.load("cudnnSetConvolutionMathType", conv_math);
  library_.load("cudnnGetConvolutionForwardAlgorithm_v7", forward_heuristic);
  library_.load("cudnnGetConvolutionBackwardDataAlgorithm_v7", dgrad_heuristic);
  library_.load("cudnnGetConvolutionBackwardFilterAlgorithm_v7", wgrad_heuristic);
  library_.load("cudnnConvolutionForward", forward);
  library_.load("cudnnConvolutionBackwardData", dgrad);
  library_.load("cudnnConvolutionBackwardFilter", wgrad);
  return library_.finish();
}

Result<void> Cudnn::start() {
  if (const auto done = check(create(&handle_), "cudnnCreate"); !done) return done;
  return check(set_stream(handle_, reinterpret_cast<dnn::Stream>(driver_->stream())),
               "cudnnSetStream");
}

Cudnn::~Cudnn() {
  if (handle_ != nullptr) destroy(handle_);
}

std::string Cudnn::version() const { return fmt::format("{}", get_version()); }

// One convolution in one phase, with its descriptors.
class ConvolutionCall {
 public:
  explicit ConvolutionCall(std::shared_ptr<Cudnn> library) : library_(std::move(library)) {}
  ~ConvolutionCall();
  ConvolutionCall(const ConvolutionCall&) = delete;
  ConvolutionCall& operator=(const ConvolutionCall&) = delete;

  Result<void> describe(const Op& op);
  Result<void> choose();
  Result<void> run(std::span<const DevicePointer> buffers, DevicePointer workspace) const;

  std::vector<KernelLaunch::Buffer> buffers() const;  // x, w, y
  std::size_t workspace_bytes() const { return chosen_.memory; }
  std::string choice() const;

 private:
  Result<void> describe_tensor(dnn::TensorDesc& made, const std::vector<int>& dims) const;
  Result<void> describe_filter(const Convolution& conv);
  Result<void> describe_convolution(const Convolution& conv);
  dnn::Status ask(int* count, dnn::AlgoPerf* found) const;

  std::shared_ptr<Cudnn> library_;
  Phase phase_ = Phase::forward;
  Dtype dtype_ = Dtype::fp16;
  TensorLayout layout_ = TensorLayout::nchw;
  int type_ = 0;
  std::vector<int> x_dims_, w_dims_, y_dims_;
  dnn::TensorDesc x_ = nullptr, y_ = nullptr;
  dnn::FilterDesc w_ = nullptr;
  dnn::ConvDesc conv_ = nullptr;
  dnn::AlgoPerf chosen_{};
};

ConvolutionCall::~ConvolutionCall() {
  for (const dnn::TensorDesc tensor : {x_, y_}) {
    if (tensor != nullptr) library_->tensor_destroy(tensor);
  }
  if (w_ != nullptr) library_->filter_destroy(w_);
  if (conv_ != nullptr) library_->conv_destroy(conv_);
}

Result<void> ConvolutionCall::describe_tensor(dnn::TensorDesc& made,
                                              const std::vector<int>& dims) const {
  const auto created = check(library_->tensor_create(&made), "cudnnCreateTensorDescriptor");
  if (!created) return created;
  return check(library_->tensor_set(made, type_, static_cast<int>(dims.size()), dims.data(),
                                    strides_of(dims, layout_).data()),
               "cudnnSetTensorNdDescriptor");
}

Result<void> ConvolutionCall::describe_filter(const Convolution& conv) {
  w_dims_ = dims_of(conv.k, conv.c / conv.groups, conv.kernel);
  const auto created = check(library_->filter_create(&w_), "cudnnCreateFilterDescriptor");
  if (!created) return created;
  const int format = layout_ == TensorLayout::nhwc ? dnn::kNhwc : dnn::kNchw;
  return check(
      library_->filter_set(w_, type_, format, static_cast<int>(w_dims_.size()), w_dims_.data()),
      "cudnnSetFilterNdDescriptor");
}

Result<void> ConvolutionCall::describe_convolution(const Convolution& conv) {
  const std::size_t axes = conv.input.size();
  const auto created = check(library_->conv_create(&conv_), "cudnnCreateConvolutionDescriptor");
  if (!created) return created;
  const auto set = check(
      library_->conv_set(conv_, static_cast<int>(axes), ints(conv.pad_begin, axes, 0).data(),
                         ints(conv.stride, axes, 1).data(), ints(conv.dilation, axes, 1).data(),
                         dnn::kCrossCorrelation, dnn::kFloat),
      "cudnnSetConvolutionNdDescriptor");
  if (!set) return set;
  const auto grouped = check(library_->conv_groups(conv_, static_cast<int>(conv.groups)),
                             "cudnnSetConvolutionGroupCount");
  if (!grouped) return grouped;
  const int math = type_ == dnn::kFloat ? dnn::kDefaultMath : dnn::kTensorOpMath;
  return check(library_->conv_math(conv_, math), "cudnnSetConvolutionMathType");
}

Result<void> ConvolutionCall::describe(const Op& op) {
  const auto& conv = std::get<Convolution>(op.body);
  phase_ = op.phase;
  dtype_ = op.dtypes.input;
  layout_ = conv.layout;
  type_ = data_type(dtype_).value_or(dnn::kHalf);
  x_dims_ = dims_of(conv.n, conv.c, conv.input);
  y_dims_ = dims_of(conv.n, conv.k, output_extents(conv));
  if (const auto done = describe_tensor(x_, x_dims_); !done) return done;
  if (const auto done = describe_tensor(y_, y_dims_); !done) return done;
  if (const auto done = describe_filter(conv); !done) return done;
  return describe_convolution(conv);
}

dnn::Status ConvolutionCall::ask(int* count, dnn::AlgoPerf* found) const {
  const dnn::Handle handle = library_->handle_;
  switch (phase_) {
    case Phase::dgrad:
      return library_->dgrad_heuristic(handle, w_, y_, conv_, x_, kMostAlgorithms, count, found);
    case Phase::wgrad:
      return library_->wgrad_heuristic(handle, x_, y_, conv_, w_, kMostAlgorithms, count, found);
    default:
      return library_->forward_heuristic(handle, x_, w_, conv_, y_, kMostAlgorithms, count, found);
  }
}

Result<void> ConvolutionCall::choose() {
  std::array<dnn::AlgoPerf, kMostAlgorithms> found{};
  int count = 0;
  const auto asked = check(ask(&count, found.data()), "cudnnGetConvolutionAlgorithm_v7");
  if (!asked) return asked;
  for (int i = 0; i < count && i < kMostAlgorithms; ++i) {
    const dnn::AlgoPerf& algorithm = found[static_cast<std::size_t>(i)];
    if (algorithm.status != 0 || algorithm.memory > kMostWorkspace) continue;
    chosen_ = algorithm;
    return check(library_->conv_math(conv_, chosen_.math_type), "cudnnSetConvolutionMathType");
  }
  return fail("cuDNN has no algorithm for this convolution");
}

std::vector<KernelLaunch::Buffer> ConvolutionCall::buffers() const {
  return {{elements_of(x_dims_), dtype_, 0},
          {elements_of(w_dims_), dtype_, 0},
          {elements_of(y_dims_), dtype_, 0}};
}

std::string ConvolutionCall::choice() const {
  return fmt::format("cudnn algo {} math {}", chosen_.algo, chosen_.math_type);
}

Result<void> ConvolutionCall::run(std::span<const DevicePointer> buffers,
                                  DevicePointer workspace) const {
  const float one = 1, zero = 0;
  const auto at = [&](std::size_t i) { return as_pointer(buffers[i]); };
  void* scratch = as_pointer(workspace);
  const dnn::Handle handle = library_->handle_;
  switch (phase_) {
    case Phase::dgrad:
      return check(library_->dgrad(handle, &one, w_, at(1), y_, at(2), conv_, chosen_.algo, scratch,
                                   chosen_.memory, &zero, x_, at(0)),
                   "cudnnConvolutionBackwardData");
    case Phase::wgrad:
      return check(library_->wgrad(handle, &one, x_, at(0), y_, at(2), conv_, chosen_.algo, scratch,
                                   chosen_.memory, &zero, w_, at(1)),
                   "cudnnConvolutionBackwardFilter");
    default:
      return check(library_->forward(handle, &one, x_, at(0), w_, at(1), conv_, chosen_.algo,
                                     scratch, chosen_.memory, &zero, y_, at(2)),
                   "cudnnConvolutionForward");
  }
}

Result<Recipe> convolution_recipe(const std::shared_ptr<Cudnn>& library, const Op& op) {
  if (const auto can = check_measurable(op, std::get<Convolution>(op.body)); !can) {
    return tl::unexpected(can.error());
  }
  auto call = std::make_shared<ConvolutionCall>(library);
  if (const auto done = call->describe(op); !done) return tl::unexpected(done.error());
  if (const auto done = call->choose(); !done) return tl::unexpected(done.error());
  Recipe recipe;
  recipe.buffers = call->buffers();
  recipe.workspace_bytes = call->workspace_bytes();
  recipe.choice = call->choice();
  recipe.launch = [call](std::span<const DevicePointer> buffers, DevicePointer workspace) {
    return call->run(buffers, workspace);
  };
  return recipe;
}

}  // namespace rooftile::gpu::cuda
