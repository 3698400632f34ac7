// Predicts the rows of a file again and again, each time with other constants: what the fitting
// tools call.
//
//   rooftile_predict GPU ROWS [features|savings]
//
// ROWS holds one operation a line in text form. Each line on standard input is a JSON object of
// calibration sections ({} for the built-in ones); the answer is one line "ok COUNT SECONDS",
// with the time that predicting took, followed by COUNT * 4 little-endian doubles (expected, low,
// high in seconds, and the bound as its enumerator), or one line "error TEXT". With "features" it
// prints what the learned correction of matrix products reads, in the order of kResidualFeatures:
// one line of numbers a row. With "savings" standard input holds lines "BEFORE AFTER TIMES", two
// rows by their places from 0: the answer to each are three doubles (low, expected, high in
// seconds), what running AFTER TIMES times saves of running BEFORE once.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/analysis/time/cuda_core_gemm.h"
#include "rooftile/analysis/time/product_time.h"
#include "rooftile/rooftile.h"

namespace rooftile {
namespace {

std::vector<double> predict(const std::vector<Op>& ops, const TimeModel& model) {
  std::vector<double> answer;
  answer.reserve(4 * ops.size());
  for (const Op& op : ops) {
    const auto estimate = model.estimate(op);
    const Range<Seconds> time = estimate ? estimate->time : Range<Seconds>{};
    for (const Seconds seconds : {time.expected, time.low, time.high}) {
      answer.push_back(seconds.value());
    }
    answer.push_back(static_cast<double>(estimate ? estimate->regime.value_or(estimate->bound)
                                                  : Bound::unknown));
  }
  return answer;
}

int serve(Device device, const std::vector<Op>& ops) {
  std::string line;
  while (std::getline(std::cin, line)) {
    device.time_model = line == "{}" ? "" : line;
    const auto model = TimeModel::create(device);
    if (!model) {
      fmt::print("error {}\n", to_string(model.error()));
    } else {
      const auto started = std::chrono::steady_clock::now();
      const std::vector<double> answer = predict(ops, *model);
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - started;
      fmt::print("ok {} {}\n", ops.size(), taken.count());
      std::fwrite(answer.data(), sizeof(double), answer.size(), stdout);
    }
    std::fflush(stdout);
  }
  return 0;
}

// Of fp32 products on CUDA cores.
ResidualFeatures fp32_features_of(const MatrixProduct& product, const Calibration& calibration,
                                  const Device& device) {
  const GemmWork work = gemm_work(product, math_unit(device, product.math), {});
  const bool nt = product.b.contiguous == product.k;
  const auto constants = scale_constants(calibration.cuda_gemm.constants, device);
  return residual_features(work, cuda_core_parts(work, nt, constants, device), device.sms);
}

// Features of a Linear layer, quantized where its weights are fp8, or of fp32 products.
ResidualFeatures features_of(const Op& op, const Calibration& calibration, const Device& device) {
  MatrixProduct product = matrix_products(op).front();
  if (product.math == Dtype::fp32) return fp32_features_of(product, calibration, device);
  ProductTraits traits;
  if (op.dtypes.weight == Dtype::fp8) {
    traits.quantized_from_bytes = size_in_bytes(product.a.dtype);
    product.a.dtype = product.math = Dtype::fp8;
  }
  const auto& section =
      traits.quantized_from_bytes ? calibration.fp8_gemm : calibration.tensor_gemm;
  const GemmConstants constants = scale_constants(section.constants, device);
  const GemmWork work = gemm_work(product, math_unit(device, product.math), constants);
  return residual_features(work, product_parts(work, traits, constants, device), device.sms);
}

int print_features(const Device& device, const std::vector<Op>& ops) {
  const auto calibration = calibration_for(device);
  if (!calibration) return 2;
  for (const Op& op : ops) {
    fmt::print("{}\n", fmt::join(features_of(op, **calibration, device), " "));
  }
  return 0;
}

int print_savings(const Device& device, const std::vector<Op>& ops) {
  const auto model = TimeModel::create(device);
  if (!model) return 2;
  std::vector<std::optional<TimeEstimate>> estimates;
  for (const Op& op : ops) estimates.push_back(model->estimate(op));
  std::size_t before = 0, after = 0;
  double times = 1;
  while (std::cin >> before >> after >> times) {
    if (std::max(before, after) >= ops.size() || !estimates[before] || !estimates[after]) return 2;
    const Range<Seconds> saving = estimate_saving(*estimates[before], *estimates[after] * times);
    const double answer[] = {saving.low.value(), saving.expected.value(), saving.high.value()};
    std::fwrite(answer, sizeof(double), std::size(answer), stdout);
  }
  return 0;
}

int run(const std::string& gpu, const std::string& rows, std::string_view mode) {
  auto device = gpu.ends_with(".json") ? read_device_file(gpu) : find_device(gpu);
  const auto workload = read(rows, {});
  if (!device || !workload) {
    fmt::print(stderr, "{}\n", to_string(device ? workload.error() : device.error()));
    return 2;
  }
  if (mode == "features") return print_features(*device, workload->ops);
  if (mode == "savings") return print_savings(*device, workload->ops);
  return serve(std::move(*device), workload->ops);
}

}  // namespace
}  // namespace rooftile

int main(int count, char** arguments) {
  const std::string_view mode = count == 4 ? arguments[3] : "";
  if (count < 3 || count > 4 || (count == 4 && mode != "features" && mode != "savings")) {
    fmt::print(stderr, "usage: rooftile_predict GPU ROWS [features|savings]\n");
    return 2;
  }
  return rooftile::run(arguments[1], arguments[2], mode);
}
