#include "rooftile/readers/onnx/names.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace rooftile::onnx_reader_detail {
namespace {

TEST(OnnxNames, KeepWhatIsUtf8) {
  for (const std::string name : {"layer.0", "caf\u00e9", "\u4e2d", "\U0001d11e", "\ud7ff"}) {
    EXPECT_EQ(printable(name), name);
  }
}

// Overlong forms, surrogates, beyond the last character, lone bytes, cut ones, controls: a question
// mark for each byte.
TEST(OnnxNames, LoseWhatIsNot) {
  const std::pair<std::string, std::string> cases[] = {
      {"\x1f", "?"},
      {" ", " "},
      {"~", "~"},
      {"\x7f", "?"},
      {"\x80", "?"},
      {"\xc1\xbf", "??"},
      {"\xc2\x80", "\xc2\x80"},
      {"\xdf\xbf", "\xdf\xbf"},
      {"\xc3z", "?z"},
      {"\xc3\xc3\xa9", "?\xc3\xa9"},
      {"\xc3", "?"},
      {"\xe0\x9f\xbf", "???"},
      {"\xe0\xa0\x80", "\xe0\xa0\x80"},
      {"\xe1\x80\x80", "\xe1\x80\x80"},
      {"\xed\x9f\xbf", "\xed\x9f\xbf"},
      {"\xed\xa0\x80", "???"},
      {"\xee\xbf\xbf", "\xee\xbf\xbf"},
      {"\xe4\xb8z", "??z"},
      {"\xe4\xb8", "??"},
      {"\xf0\x8f\xbf\xbf", "????"},
      {"\xf0\x90\x80\x80", "\xf0\x90\x80\x80"},
      {"\xf1\x80\x80\x80", "\xf1\x80\x80\x80"},
      {"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},
      {"\xf4\x90\x80\x80", "????"},
      {"\xf5\x80\x80\x80", "????"},
      {"\xf0\x90\x80z", "???z"},
      {"\xf0\x90\x80", "???"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(printable("a" + text), "a" + expected);
    EXPECT_EQ(printable(text + "b"), expected + "b");
  }
}

// A character that begins within the 500 bytes stays whole.
TEST(OnnxNames, AreCutAt500Bytes) {
  EXPECT_EQ(printable(std::string(501, 'a')), std::string(500, 'a'));
  const std::string almost(499, 'a');
  EXPECT_EQ(printable(almost + "\u4e2dz"), almost + "\u4e2d");
}

TEST(OnnxNames, PathsAreModules) {
  EXPECT_EQ(module_of_path("/encoder/layers.0/fc1/MatMul"), "encoder.layers.0.fc1");
  EXPECT_EQ(module_of_path("//net/act/Relu"), "net.act");
  EXPECT_EQ(module_of_path("net/Relu"), "net");
  EXPECT_EQ(module_of_path("/Relu"), "");
  EXPECT_EQ(module_of_path("Relu_3"), "");
  EXPECT_EQ(module_of_path("/"), "");
}

TEST(OnnxNames, ParametersNameTheirModules) {
  EXPECT_EQ(module_of_parameter("encoder.layers.0.fc1.weight"), "encoder.layers.0.fc1");
  EXPECT_EQ(module_of_parameter("fc1.bias"), "fc1");
  EXPECT_EQ(module_of_parameter("encoder.scale"), "");
  EXPECT_EQ(module_of_parameter("weight"), "");
}

TEST(OnnxNames, ParametersAreToldFromComputedTensors) {
  for (const char* name : {"fc.weight", "pos_embedding", "cls_token", "weight", "bias", "ln_gamma",
                           "ln_beta", "scale_1"}) {
    EXPECT_TRUE(is_parameter_name(name)) << name;
  }
  for (const char* name : {"unsqueeze_3", "onnx::Add_12.weight", "/layers.0/weight", "val_7"}) {
    EXPECT_FALSE(is_parameter_name(name)) << name;
  }
  for (const char* name : {"rotary.cos_cached", "sin_cached", "rotary_emb.inv_freq"}) {
    EXPECT_TRUE(is_position_table(name)) << name;
  }
  EXPECT_FALSE(is_position_table("inv_freq.weight"));
}

}  // namespace
}  // namespace rooftile::onnx_reader_detail
