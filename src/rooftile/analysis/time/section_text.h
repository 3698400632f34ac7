// The JSON of one section of the calibration files, for those who change its numbers.
#pragma once

#include <string>
#include <string_view>

#include "rooftile/base/result.h"

namespace rooftile {

struct SectionText {
  std::string json;   // one object, without "use"
  std::string donor;  // the calibration that holds it: sm80
  bool own = true;    // that is the one asked for
};

// Section `key` ("tensor_gemm") of calibration `name` ("sm120"), followed through "use".
Result<SectionText> section_text(std::string_view name, std::string_view key);

}  // namespace rooftile
