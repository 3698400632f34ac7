// Appends operations to a workload: names, dtypes, parameter counts and checks in one place.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/result.h"
#include "rooftile/readers/hf_config/description.h"
#include "rooftile/readers/hf_config/quantization.h"
#include "rooftile/workload/workload.h"

namespace rooftile::hf {

// The name of a tensor; each operation writes one, named like the operation.
using Value = std::string;

struct Linear {
  std::int64_t rows = 0, in = 0, out = 0;
  bool bias = false;
  GemmLayout layout = GemmLayout::nt;
  std::int64_t batch = 1;         // independent products, as for experts
  std::int64_t stored = 1;        // weights that exist: all experts, not only the active ones
  bool counts_parameters = true;  // false where the weight is tied to another
  bool usually_quantized = true;  // false for routers and heads
};

class Emitter {
 public:
  Emitter(Workload& workload, std::string file, Dtype dtype, const Quantization& quantization)
      : workload_(workload), file_(std::move(file)), dtype_(dtype), quantization_(quantization) {}

  // Operations that follow are named `prefix` + module and repeated `count` times; `lookup` is the
  // prefix of one real module, `copies` how many sets of weights exist.
  void enter(std::string prefix, std::string lookup, std::int64_t count = 1,
             std::int64_t copies = 1);
  // They are named as they are, and stand for themselves.
  void leave() { enter({}, {}); }

  // Of what follows only `sets` sets of weights exist, until called without.
  void share_weights(std::optional<std::int64_t> sets) { sets_ = sets; }

  Value linear(const std::string& module, const Value& input, const Linear& shape);
  // out = a·bᵀ of two activations.
  Value product(const std::string& module, std::vector<Value> inputs, const Gemm& gemm);
  Value norm(const std::string& module, const Value& input, const Norm& norm, std::int64_t rows,
             std::int64_t cols);
  Value pointwise(const std::string& module, std::string fn, std::vector<Value> inputs,
                  std::int64_t elements);
  // An operation without weights.
  Value add(const std::string& module, Body body, std::vector<Value> inputs);
  // Over keys and values that are stored as `cache`.
  Value attention(const std::string& module, const Attention& body, std::vector<Value> inputs,
                  Dtype cache);
  // `stored` is their precision in memory, where it is not the model's.
  void add_parameters(double count, std::optional<Dtype> stored = {});
  // Those of a linear layer that does not run, or runs in another form.
  void add_parameters(const Linear& shape, std::optional<Dtype> stored = {});
  // Makes the workload an error: the sizes of `what` are out of range.
  void fail_sizes(const std::string& what, const std::string& problem);

  double parameters() const { return parameters_; }
  double weight_bytes() const { return weight_bytes_; }  // of the parameters, as stored
  const std::optional<Error>& error() const { return error_; }
  Dtype dtype() const { return dtype_; }

 private:
  Value append(const std::string& module, Body body, std::vector<Value> inputs, Dtypes dtypes);

  Workload& workload_;
  std::string file_;
  Dtype dtype_;
  const Quantization& quantization_;
  std::string prefix_, lookup_;
  std::int64_t count_ = 1, copies_ = 1;
  std::optional<std::int64_t> sets_;
  double parameters_ = 0.0, weight_bytes_ = 0.0;
  std::optional<Error> error_;
};

}  // namespace rooftile::hf
