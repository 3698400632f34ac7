// Hostile and damaged models end in one error, through the reader as it is used.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "rooftile/readers/onnx/onnx_models.h"

namespace rooftile {
namespace {

using testing::HasSubstr;

class OnnxFile : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::temp_directory_path() /
            (std::string("rooftile_") + info->name() + std::to_string(getpid()) + ".onnx");
  }
  void TearDown() override { std::filesystem::remove(path_); }

  Result<Workload> read(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
    return onnx_reader.read(path_.string(), {});
  }
  std::string error_of(const onnx::ModelProto& model) {
    const auto result = read(model.SerializeAsString());
    return result ? "no error" : result.error().message;
  }

  std::filesystem::path path_;
};

TEST_F(OnnxFile, IsReadInAChildAndComesBackWhole) {
  auto model = model_of("(float[2,8,3] x) => (z) { y = MatMul(x, w) z = Softmax(y) }");
  add_weight(model, "w", {3, 4});
  const std::string bytes = model.SerializeAsString();
  const auto contained = read(bytes);
  ASSERT_TRUE(contained) << contained.error().message;
  EXPECT_EQ(*contained, read_onnx_bytes(bytes, path_.string(), {}).value());
  EXPECT_EQ(contained->parameters, 12);
}

TEST_F(OnnxFile, Missing) {
  const auto result = onnx_reader.read("/nowhere/model.onnx", {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error(), (Error{"No such file or directory", "/nowhere/model.onnx"}));
}

TEST_F(OnnxFile, Empty) { EXPECT_EQ(read("").error().message, "the file is empty"); }

TEST_F(OnnxFile, ADirectory) {
  EXPECT_EQ(onnx_reader.read("/tmp", {}).error().message, "not a regular file");
}

TEST_F(OnnxFile, Sparse) {
  std::ofstream(path_, std::ios::binary).flush();
  std::filesystem::resize_file(path_, std::uintmax_t{10} << 30U);
  const auto result = onnx_reader.read(path_.string(), {});
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("expected an ONNX model, found"));
}

TEST_F(OnnxFile, Truncated) {
  const std::string bytes = model_of("(float[8,3] x) => (y) { y = Relu(x) }").SerializeAsString();
  EXPECT_THAT(read(bytes.substr(0, bytes.size() / 2)).error().message, HasSubstr("truncated"));
}

TEST_F(OnnxFile, AWebPage) {
  EXPECT_EQ(read("<!DOCTYPE html><html><body>404</body></html>").error().message,
            "expected an ONNX model, found an HTML page");
}

TEST_F(OnnxFile, WithoutAGraph) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  EXPECT_EQ(error_of(model), "the model holds no graph with operators");
}

TEST_F(OnnxFile, FromTheFuture) {
  EXPECT_THAT(error_of(model_of("(float[8,3] x) => (y) { y = Relu(x) }", 99)),
              HasSubstr("operator set 99 is not known"));
}

TEST_F(OnnxFile, ACyclicGraph) {
  EXPECT_EQ(error_of(model_of("(float[8] x) => (y) { y = Add(x, z) z = Relu(y) }")),
            "the operators of the graph form a cycle");
}

TEST_F(OnnxFile, AFunctionThatCallsItself) {
  const auto model = parse_model(R"(
      <ir_version: 10, opset_import: ["" : 21, "local" : 1]>
      g (float[2] x) => (float[2] y) { y = local.f(x) }
      <opset_import: ["" : 21, "local" : 1], domain: "local">
      f (v) => (r) { t = Relu(v)  r = local.f(t) })");
  EXPECT_EQ(error_of(model), "function 'f' calls itself");
}

// 2^30 calls from 30 functions of two calls each.
TEST_F(OnnxFile, FunctionsThatExplode) {
  std::string text = R"(<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
      g (float[2] x) => (float[2] y) { y = local.f0(x) })";
  for (int i = 0; i < 30; ++i) {
    const std::string next = i == 29 ? "Relu" : "local.f" + std::to_string(i + 1);
    text += "<opset_import: [\"\" : 21, \"local\" : 1], domain: \"local\"> f" + std::to_string(i) +
            " (v) => (r) { t = " + next + "(v)  r = " + next + "(t) }\n";
  }
  EXPECT_THAT(error_of(parse_model(text)), HasSubstr("nodes after opening functions"));
}

TEST_F(OnnxFile, NegativeWeightSizes) {
  auto model = model_of("(float[8,3] x) => (y) { y = MatMul(x, w) }");
  add_weight(model, "w", {3, -4});
  EXPECT_EQ(error_of(model), "initializer 'w' has a dimension of -4");
}

TEST_F(OnnxFile, SizesThatOverflow) {
  auto model = model_of("(float[8,3] x) => (y, z) { y = MatMul(x, w)  z = Flatten(w) }");
  add_weight(model, "w", {3, std::int64_t{1} << 62U, 1, 8});
  const auto result = read(model.SerializeAsString());
  ASSERT_TRUE(result);
  EXPECT_TRUE(result->ops.empty());
  EXPECT_EQ(result->skipped.count("unknown shape: MatMul"), 1U);
}

TEST_F(OnnxFile, StridesThatOverflow) {
  const auto result = read(model_of(R"((float[1,3,4] x, float[3,5,3] w) => (float[1,5,10] y)
      { y = ConvTranspose<output_shape=[10], strides=[4611686018427387904]>(x, w) })")
                               .SerializeAsString());
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_TRUE(result->ops.empty());
  EXPECT_EQ(result->skipped.count("sizes out of range: ConvTranspose"), 1U);
}

TEST_F(OnnxFile, AnAbsurdRank) {
  auto model = model_of("(float[8,3] x) => (y) { y = Relu(w) }");
  add_weight(model, "w", std::vector<std::int64_t>(1000, 1));
  EXPECT_EQ(error_of(model), "value 'w' has 1000 dimensions, more than 64");
}

TEST_F(OnnxFile, NamesAreMadePrintable) {
  auto model = model_of("(float[8,3] x) => (y) { y = Relu(x) }");
  model.mutable_graph()->mutable_node(0)->set_name("a\n\xff\"b");
  const auto result = read(model.SerializeAsString());
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->ops.at(0).name, "a??\"b");
}

TEST(OnnxReader, RecognisesByNameAndContent) {
  EXPECT_TRUE(onnx_reader.recognises("model.onnx", "anything"));
  EXPECT_TRUE(onnx_reader.recognises(
      "model.bin", model_of("(float[8] x) => (y) { y = Relu(x) }").SerializeAsString()));
  EXPECT_FALSE(onnx_reader.recognises("config.json", "{\"model_type\": \"gpt2\"}"));
  EXPECT_FALSE(onnx_reader.recognises("-", "gemm a bf16 m=1 n=2 k=3"));
}

}  // namespace
}  // namespace rooftile
