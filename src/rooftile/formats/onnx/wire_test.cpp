#include "rooftile/formats/onnx/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "onnx/onnx_pb.h"

namespace rooftile::onnx_format {
namespace {

using testing::HasSubstr;

onnx::ModelProto small_model() {
  onnx::ModelProto model;
  model.set_ir_version(10);
  model.set_doc_string("words");
  auto& graph = *model.mutable_graph();
  auto& node = *graph.add_node();
  node.set_op_type("Relu");
  node.set_doc_string("more words");
  node.add_input("x");
  node.add_output("y");
  return model;
}

onnx::ModelProto slimmed(const onnx::ModelProto& model) {
  const auto slim = slim_model(model.SerializeAsString());
  EXPECT_TRUE(slim);
  onnx::ModelProto result;
  EXPECT_TRUE(result.ParseFromString(*slim));
  return result;
}

TEST(Wire, DropsDocumentationAndLargePayloads) {
  auto model = small_model();
  auto& large = *model.mutable_graph()->add_initializer();
  large.add_dims(2048);
  large.set_name("w");
  large.set_data_type(onnx::TensorProto::FLOAT);
  large.set_raw_data(std::string(8192, 'x'));
  auto& small = *model.mutable_graph()->add_initializer();
  small.add_dims(2);
  small.add_int64_data(3);
  small.add_int64_data(4);
  const auto result = slimmed(model);
  EXPECT_FALSE(result.has_doc_string());
  EXPECT_FALSE(result.graph().node(0).has_doc_string());
  EXPECT_EQ(result.graph().node(0).input(0), "x");
  EXPECT_FALSE(result.graph().initializer(0).has_raw_data());
  EXPECT_EQ(result.graph().initializer(0).data_location(), onnx::TensorProto::EXTERNAL);
  EXPECT_EQ(result.graph().initializer(0).dims(0), 2048);
  EXPECT_EQ(result.graph().initializer(1).int64_data(1), 4);
}

// Unpacked lists repeat their tag, 5 bytes an element.
TEST(Wire, DropsUnpackedPayloads) {
  std::string tensor = "\x08\x64";  // dims: 100
  for (int i = 0; i < 2000; ++i) tensor += std::string("\x25\0\0\0\0", 5);
  std::string graph = "\x2a";
  graph += static_cast<char>(0x80 | (tensor.size() & 0x7F));
  graph += static_cast<char>(tensor.size() >> 7);
  graph += tensor;
  std::string model = "\x3a";
  model += static_cast<char>(0x80 | (graph.size() & 0x7F));
  model += static_cast<char>(graph.size() >> 7);
  model += graph;
  const auto slim = slim_model(model);
  ASSERT_TRUE(slim) << slim.error().message;
  EXPECT_LT(slim->size(), 20U);
}

TEST(Wire, TruncationIsAnError) {
  const std::string bytes = small_model().SerializeAsString();
  int refused = 0;
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    if (!slim_model(std::string_view(bytes).substr(0, length))) ++refused;
  }
  // Only cuts between the three fields of the model leave valid bytes, the empty one among them.
  EXPECT_EQ(refused, static_cast<int>(bytes.size()) - 3);
  const auto cut = slim_model(std::string_view(bytes).substr(0, bytes.size() - 1));
  ASSERT_FALSE(cut);
  EXPECT_THAT(cut.error().message, HasSubstr("truncated: a field of"));
}

TEST(Wire, ForeignBytesAreAnError) {
  EXPECT_FALSE(slim_model(std::string(1 << 20, '\0')));
  EXPECT_FALSE(slim_model("<!DOCTYPE html><html><body>404</body></html>"));
  EXPECT_FALSE(slim_model("\xff\xd8\xff\xe0JFIF"));
  EXPECT_FALSE(slim_model("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a"));
}

TEST(Wire, NestingIsBounded) {
  std::string graph;
  for (int i = 0; i < 200; ++i) {
    // graph { node { attribute { g { … } } } }
    for (const char tag : {'\x32', '\x2a', '\x0a'}) {
      std::string outer(1, tag);
      std::size_t length = graph.size();
      for (; length >= 0x80; length >>= 7U) outer += static_cast<char>(0x80 | (length & 0x7F));
      outer += static_cast<char>(length);
      graph = outer + graph;
    }
  }
  std::string model = "\x3a";
  std::size_t length = graph.size();
  for (; length >= 0x80; length >>= 7U) model += static_cast<char>(0x80 | (length & 0x7F));
  model += static_cast<char>(length);
  const auto result = slim_model(model + graph);
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("nested too deeply"));
}

TEST(Wire, NodesAndSizeAreBounded) {
  auto model = small_model();
  for (int i = 0; i < 20; ++i) *model.mutable_graph()->add_node() = model.graph().node(0);
  WireLimits limits;
  limits.nodes = 10;
  EXPECT_THAT(slim_model(model.SerializeAsString(), limits).error().message,
              HasSubstr("more than 10 nodes"));
  limits = {};
  limits.slim_bytes = 50;
  EXPECT_THAT(slim_model(model.SerializeAsString(), limits).error().message,
              HasSubstr("above 50 bytes"));
}

TEST(Wire, KnowsTheBeginningOfAModel) {
  EXPECT_TRUE(looks_like_model(small_model().SerializeAsString()));
  EXPECT_FALSE(looks_like_model("gemm a bf16 m=1 n=2 k=3"));
  EXPECT_FALSE(looks_like_model(std::string_view("\0\0\0\0", 4)));
  EXPECT_FALSE(looks_like_model(""));
}

}  // namespace
}  // namespace rooftile::onnx_format
