#include "gpu/cuda/cublaslt.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace rooftile::gpu::cuda {
namespace {

// How cuBLASLt multiplies one of our dtypes.
struct MathKind {
  Dtype dtype;
  int operand, result, compute, scale;
};

constexpr std::array<MathKind, 7> kKinds{{
    {Dtype::fp64, lt::kR64F, lt::kR64F, lt::kCompute64F, lt::kR64F},
    {Dtype::fp32, lt::kR32F, lt::kR32F, lt::kCompute32F, lt::kR32F},
    {Dtype::tf32, lt::kR32F, lt::kR32F, lt::kCompute32FFastTf32, lt::kR32F},
    {Dtype::fp16, lt::kR16F, lt::kR16F, lt::kCompute32F, lt::kR32F},
    {Dtype::bf16, lt::kR16BF, lt::kR16BF, lt::kCompute32F, lt::kR32F},
    {Dtype::fp8, lt::kR8F_E4M3, lt::kR16BF, lt::kCompute32F, lt::kR32F},
    {Dtype::int8, lt::kR8I, lt::kR32I, lt::kCompute32I, lt::kR32I},
}};

const MathKind* kind_of(Dtype dtype) {
  const auto found = std::ranges::find(kKinds, dtype, &MathKind::dtype);
  return found == kKinds.end() ? nullptr : &*found;
}

// The precision in which the result of this kind lies in memory.
Dtype result_dtype(Dtype math) {
  if (math == Dtype::fp8) return Dtype::bf16;
  return math == Dtype::int8 ? Dtype::int32 : math;
}

// Largest power of two up to 256 that divides the offset in bytes: what the heuristic may assume.
std::uint32_t alignment_of(std::int64_t offset, Dtype dtype) {
  const auto bytes = static_cast<std::int64_t>(static_cast<double>(offset) * size_in_bytes(dtype));
  return bytes == 0 ? 256 : static_cast<std::uint32_t>(std::min<std::int64_t>(bytes & -bytes, 256));
}

constexpr std::array<std::string_view, 36> kTileNames{
    "none",   "8x8",    "8x16",    "16x8",    "8x32",    "16x16",   "32x8",    "8x64",   "16x32",
    "32x16",  "64x8",   "32x32",   "32x64",   "64x32",   "32x128",  "64x64",   "128x32", "64x128",
    "128x64", "64x256", "128x128", "256x64",  "64x512",  "128x256", "256x128", "512x64", "64x96",
    "96x64",  "96x128", "128x160", "160x128", "192x128", "128x192", "128x96",  "32x256", "256x32"};

}  // namespace

Result<std::shared_ptr<CublasLt>> CublasLt::open(std::shared_ptr<Driver> driver) {
  Result<Library> library =
      Library::open({"libcublasLt.so.12", "libcublasLt.so.13", "libcublasLt.so.11"}, "cuBLASLt");
  if (!library) return tl::unexpected(library.error());
  std::shared_ptr<CublasLt> opened(new CublasLt(std::move(driver), std::move(*library)));
  if (const auto loaded = opened->load(); !loaded) return tl::unexpected(loaded.error());
  return opened;
}

Result<void> CublasLt::load() {
  library_.load("cublasLtGetVersion", get_version);
  library_.load("cublasLtCreate", create);
  library_.load("cublasLtDestroy", destroy);
  library_.load("cublasLtMatmulDescCreate", desc_create);
  library_.load("cublasLtMatmulDescDestroy", desc_destroy);
  library_.load("cublasLtMatmulDescSetAttribute", desc_set);
  library_.load("cublasLtMatrixLayoutCreate", layout_create);
  library_.load("cublasLtMatrixLayoutDestroy", layout_destroy);
  library_.load("cublasLtMatrixLayoutSetAttribute", layout_set);
  library_.load("cublasLtMatmulPreferenceCreate", pref_create);
  library_.load("cublasLtMatmulPreferenceDestroy", pref_destroy);
  library_.load("cublasLtMatmulPreferenceSetAttribute", pref_set);
  library_.load("cublasLtMatmulAlgoGetHeuristic", heuristic);
  library_.load("cublasLtMatmul", matmul);
  library_.load("cublasLtMatmulAlgoConfigGetAttribute", algo_get);
  if (const auto complete = library_.finish(); !complete) return complete;
  const lt::Status status = create(&handle_);
  if (status != 0) return fail(fmt::format("cublasLtCreate: status {}", status));
  return {};
}

CublasLt::~CublasLt() {
  if (handle_ != nullptr) destroy(handle_);
}

std::string CublasLt::version() const { return fmt::format("{}", get_version()); }

// One product with its descriptors. cuBLAS is column-major: a stored row-major matrix is its
// transpose there, so cᵀ = bᵀ·aᵀ is computed, with b as cuBLAS's first operand.
class Matmul {
 public:
  explicit Matmul(std::shared_ptr<CublasLt> library) : library_(std::move(library)) {}
  ~Matmul();
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;

  Result<void> describe(const ProductLayout& layout);
  Result<void> choose(std::size_t workspace_bytes);
  Result<void> run(std::span<const DevicePointer> buffers, DevicePointer workspace);

  std::size_t workspace_bytes() const { return chosen_.workspace_bytes; }
  std::string choice() const;

 private:
  static Result<void> check(lt::Status status, const char* doing) {
    if (status == 0) return {};
    return fail(fmt::format("{}: status {}", doing, status));
  }
  Result<void> describe_matrix(lt::MatrixLayout& made, const StoredMatrix& matrix, int type);
  Result<void> describe_operation(const MathKind& kind);
  template <class T>
  Result<void> prefer(lt::Preference preference, int attribute, T value) {
    return check(library_->pref_set(preference, attribute, &value, sizeof(value)),
                 "cublasLtMatmulPreferenceSetAttribute");
  }
  Result<void> ask(lt::Preference preference, std::size_t workspace_bytes);
  int config(int attribute) const;

  std::shared_ptr<CublasLt> library_;
  ProductLayout layout_;
  lt::MatmulDesc desc_ = nullptr;
  lt::MatrixLayout first_ = nullptr, second_ = nullptr, result_ = nullptr;
  lt::HeuristicResult chosen_{};
  bool whole_ = false, double_ = false;  // alpha and beta are int32, or fp64
};

Matmul::~Matmul() {
  for (const lt::MatrixLayout layout : {first_, second_, result_}) {
    if (layout != nullptr) library_->layout_destroy(layout);
  }
  if (desc_ != nullptr) library_->desc_destroy(desc_);
}

Result<void> Matmul::describe_matrix(lt::MatrixLayout& made, const StoredMatrix& matrix, int type) {
  const auto created =
      check(library_->layout_create(&made, type, static_cast<std::uint64_t>(matrix.columns),
                                    static_cast<std::uint64_t>(matrix.rows), matrix.leading),
            "cublasLtMatrixLayoutCreate");
  if (!created || layout_.batch == 1) return created;
  const auto count = static_cast<std::int32_t>(layout_.batch);
  const std::int64_t stride = matrix.extent();
  if (const auto done =
          check(library_->layout_set(made, lt::kLayoutBatchCount, &count, sizeof(count)),
                "cublasLtMatrixLayoutSetAttribute");
      !done) {
    return done;
  }
  return check(library_->layout_set(made, lt::kLayoutBatchStride, &stride, sizeof(stride)),
               "cublasLtMatrixLayoutSetAttribute");
}

Result<void> Matmul::describe_operation(const MathKind& kind) {
  const auto created =
      check(library_->desc_create(&desc_, kind.compute, kind.scale), "cublasLtMatmulDescCreate");
  if (!created) return created;
  const std::int32_t first = layout_.b.transposed ? lt::kTranspose : lt::kNoTranspose;
  const std::int32_t second = layout_.a.transposed ? lt::kTranspose : lt::kNoTranspose;
  for (const auto& [attribute, value] :
       {std::pair(lt::kDescTransA, first), std::pair(lt::kDescTransB, second)}) {
    const auto done = check(library_->desc_set(desc_, attribute, &value, sizeof(value)),
                            "cublasLtMatmulDescSetAttribute");
    if (!done) return done;
  }
  if (!layout_.bias) return {};
  return check(
      library_->desc_set(desc_, lt::kDescEpilogue, &lt::kEpilogueBias, sizeof(lt::kEpilogueBias)),
      "cublasLtMatmulDescSetAttribute");
}

Result<void> Matmul::describe(const ProductLayout& layout) {
  layout_ = layout;
  const MathKind* kind = kind_of(layout.math);
  if (kind == nullptr) {
    return fail(fmt::format("products in {} are not measured", to_string(layout.math)));
  }
  whole_ = kind->scale == lt::kR32I;
  double_ = kind->scale == lt::kR64F;
  if (const auto done = describe_operation(*kind); !done) return done;
  if (const auto done = describe_matrix(first_, layout.b, kind->operand); !done) return done;
  if (const auto done = describe_matrix(second_, layout.a, kind->operand); !done) return done;
  return describe_matrix(result_, layout.c, kind->result);
}

Result<void> Matmul::ask(lt::Preference preference, std::size_t workspace_bytes) {
  if (const auto done = prefer<std::uint64_t>(preference, lt::kPrefWorkspace, workspace_bytes);
      !done) {
    return done;
  }
  const std::uint32_t c = alignment_of(layout_.c.offset, layout_.c.dtype);
  const std::pair<int, std::uint32_t> alignments[] = {
      {lt::kPrefAlignA, alignment_of(layout_.b.offset, layout_.b.dtype)},
      {lt::kPrefAlignB, alignment_of(layout_.a.offset, layout_.a.dtype)},
      {lt::kPrefAlignC, c},
      {lt::kPrefAlignD, c}};
  for (const auto& [attribute, bytes] : alignments) {
    if (const auto done = prefer(preference, attribute, bytes); !done) return done;
  }
  int count = 0;
  const lt::Status status = library_->heuristic(library_->handle_, desc_, first_, second_, result_,
                                                result_, preference, 1, &chosen_, &count);
  if (status != 0 || count < 1 || chosen_.state != 0) {
    return fail(fmt::format("cuBLASLt has no algorithm for this product (status {})", status));
  }
  return {};
}

Result<void> Matmul::choose(std::size_t workspace_bytes) {
  lt::Preference preference = nullptr;
  const auto created = check(library_->pref_create(&preference), "cublasLtMatmulPreferenceCreate");
  if (!created) return created;
  const Result<void> chosen = ask(preference, workspace_bytes);
  library_->pref_destroy(preference);
  return chosen;
}

int Matmul::config(int attribute) const {
  std::uint32_t value = 0;
  std::size_t written = 0;
  // The cluster shape is a 16-bit number, the others are 32-bit.
  const std::size_t size = attribute == lt::kAlgoCluster ? 2 : 4;
  const lt::Status status = library_->algo_get(&chosen_.algo, attribute, &value, size, &written);
  return status == 0 ? static_cast<int>(value) : -1;
}

std::string Matmul::choice() const {
  const int tile = config(lt::kAlgoTile);
  const std::string name = tile >= 0 && tile < static_cast<int>(kTileNames.size())
                               ? std::string(kTileNames[static_cast<std::size_t>(tile)])
                               : fmt::format("id {}", tile);
  return fmt::format(
      "cublasLt algo {} tile {} stages id {} split_k {} swizzle {} cluster id {} "
      "waves {:.3g}",
      config(lt::kAlgoId), name, config(lt::kAlgoStages), config(lt::kAlgoSplitK),
      config(lt::kAlgoSwizzle), config(lt::kAlgoCluster), chosen_.waves);
}

Result<void> Matmul::run(std::span<const DevicePointer> buffers, DevicePointer workspace) {
  const auto at = [&](std::size_t buffer, const StoredMatrix& matrix) {
    const double bytes = static_cast<double>(matrix.offset) * size_in_bytes(matrix.dtype);
    return as_pointer(buffers[buffer] + static_cast<DevicePointer>(bytes));
  };
  if (layout_.bias) {
    const DevicePointer bias = buffers[3];
    const auto set = check(library_->desc_set(desc_, lt::kDescBiasPointer, &bias, sizeof(bias)),
                           "cublasLtMatmulDescSetAttribute");
    if (!set) return set;
  }
  const float one = 1, zero = 0;
  const double one_double = 1, zero_double = 0;
  const std::int32_t one_whole = 1, zero_whole = 0;
  const void* alpha = whole_    ? static_cast<const void*>(&one_whole)
                      : double_ ? static_cast<const void*>(&one_double)
                                : &one;
  const void* beta = whole_    ? static_cast<const void*>(&zero_whole)
                     : double_ ? static_cast<const void*>(&zero_double)
                               : &zero;
  void* c = at(2, layout_.c);
  return check(library_->matmul(library_->handle_, desc_, alpha, at(1, layout_.b), first_,
                                at(0, layout_.a), second_, beta, c, result_, c, result_,
                                &chosen_.algo, as_pointer(workspace), chosen_.workspace_bytes,
                                reinterpret_cast<lt::Stream>(library_->driver_->stream())),
               "cublasLtMatmul");
}

namespace {

KernelLaunch::Buffer buffer_of(const StoredMatrix& matrix, std::int64_t batch) {
  return {matrix.extent() * batch + matrix.offset, matrix.dtype, 0};
}

}  // namespace

Result<Recipe> product_recipe(const std::shared_ptr<CublasLt>& library, const ProductLayout& given,
                              std::size_t workspace_bytes) {
  ProductLayout layout = given;
  layout.a.dtype = layout.b.dtype = layout.math;
  layout.c.dtype = result_dtype(layout.math);
  auto matmul = std::make_shared<Matmul>(library);
  if (const auto done = matmul->describe(layout); !done) return tl::unexpected(done.error());
  if (const auto done = matmul->choose(workspace_bytes); !done) {
    return tl::unexpected(done.error());
  }
  Recipe recipe;
  recipe.buffers = {buffer_of(layout.a, layout.batch), buffer_of(layout.b, layout.batch),
                    buffer_of(layout.c, layout.batch)};
  if (layout.bias) recipe.buffers.push_back({layout.n, layout.c.dtype, 0});
  recipe.workspace_bytes = matmul->workspace_bytes();
  recipe.choice = matmul->choice();
  recipe.launch = [matmul](std::span<const DevicePointer> buffers, DevicePointer workspace) {
    return matmul->run(buffers, workspace);
  };
  return recipe;
}

std::size_t pytorch_workspace(int compute_capability, bool bias) {
  constexpr std::size_t kKiB = 1024;
  if (compute_capability >= 90) return 32 * 1024UL * kKiB;
  return bias ? 1024 * kKiB : (2 * 4096UL + 8 * 16UL) * kKiB;
}

}  // namespace rooftile::gpu::cuda
