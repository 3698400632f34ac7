#include "rooftile/readers/onnx/names.h"

#include <gtest/gtest.h>

#include <string>

namespace rooftile::onnx_reader_detail {
namespace {

TEST(OnnxNames, KeepWhatIsUtf8) {
  for (const std::string name : {"layer.0", "caf\u00e9", "\u4e2d", "\U0001d11e", "\ud7ff"}) {
    EXPECT_EQ(printable(name), name);
  }
}

TEST(OnnxNames, LoseWhatIsNot) {
  // Overlong forms, a surrogate, beyond the last character, a lone byte, a cut one, a control.
  for (const std::string bad : {"\xc0\xaf", "\xe0\x80\xaf", "\xf0\x80\x80\xaf", "\xed\xa0\x80",
                                "\xf4\x90\x80\x80", "\x80", "\xe4\xb8", "\x1b"}) {
    const std::string text = printable("a" + bad + "b");
    EXPECT_EQ(text.find(bad), std::string::npos) << text;
    EXPECT_EQ(text.front(), 'a');
    EXPECT_EQ(text.back(), 'b');
  }
}

}  // namespace
}  // namespace rooftile::onnx_reader_detail
