// Recorded ATen operators in a short notation, for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "rooftile/aten/operator.h"
#include "rooftile/base/text.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile::aten_test {

// Arguments are separated by "; ", each dims|strides|type|value: "4,768|768,1|float" is a tensor
// with its strides, "||ScalarList|[1, 1]" a list of numbers.
inline std::vector<std::int64_t> sizes(std::string_view text) {
  std::vector<std::int64_t> numbers;
  for (const std::string_view part : split(text, ',')) {
    if (const auto number = parse_integer(trim(part))) numbers.push_back(*number);
  }
  return numbers;
}

inline OpArguments arguments_of(std::string_view text) {
  OpArguments arguments;
  for (const std::string_view argument : split(text, ';')) {
    auto parts = split(trim(argument), '|');
    parts.resize(4);
    arguments.dims.push_back(sizes(parts[0]));
    arguments.strides.push_back(sizes(parts[1]));
    arguments.types.emplace_back(parts[2]);
    arguments.values.emplace_back(parts[3]);
  }
  return arguments;
}

inline std::string described(const Op& op) {
  const Op bare{"x", op.body, op.dtypes, op.phase, op.streams, 1, {}, {"x"}, {}, {}};
  return to_text(bare);
}

// "gemm bf16 m=…" as the operation it describes, in the writer's spelling.
inline std::string canonical(std::string_view text) {
  const std::size_t blank = text.find(' ');
  const auto workload =
      parse_workload(std::string(text.substr(0, blank)) + " x" + std::string(text.substr(blank)));
  return workload ? described(workload->ops.at(0)) : to_string(workload.error());
}

struct AtenCase {
  std::string_view name, arguments;
  std::vector<std::string_view> expected;  // none: the arguments do not tell
};

inline void expect_all(const std::vector<AtenCase>& cases) {
  for (const AtenCase& entry : cases) {
    const std::vector<Op> ops = aten_ops(entry.name, arguments_of(entry.arguments));
    ASSERT_EQ(ops.size(), entry.expected.size()) << entry.name << " " << entry.arguments;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      EXPECT_EQ(described(ops[i]), canonical(entry.expected[i]))
          << entry.name << " " << entry.arguments;
      EXPECT_EQ(ops[i].name, entry.name);
    }
  }
}

}  // namespace rooftile::aten_test
