// Shorthand of the reference tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "rooftile/hardware/device_file.h"
#include "rooftile/workload/op.h"

namespace rooftile {

inline Device built_in(std::string_view name) {
  auto device = find_device(name);
  EXPECT_TRUE(device.has_value()) << name;
  return device.value_or(Device{});
}

inline Op op_of(Body body, Dtype dtype, Phase phase = Phase::forward) {
  Op op;
  op.body = std::move(body);
  op.dtypes = Dtypes(dtype);
  op.phase = phase;
  return op;
}

inline Gemm linear(std::int64_t tokens, std::int64_t outputs, std::int64_t inputs) {
  Gemm gemm;
  gemm.m = tokens;
  gemm.n = outputs;
  gemm.k = inputs;
  return gemm;
}

}  // namespace rooftile
