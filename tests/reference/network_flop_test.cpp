// Multiply-adds and parameters of whole networks, read from ONNX graphs and a Hugging Face config.
//
// Published: "GFLOPS" (multiply-adds in 10⁹) of the weights table in torchvision's documentation
// (Models and pre-trained weights > Classification), one 224x224 image. They count convolutions
// and matrix products, so only these are summed here. torchvision's parameter counts contain two
// values per batch normalisation channel; folded into a convolution, one bias is left of them.
#include <gtest/gtest.h>

#include "networks.h"
#include "rooftile/analysis/cost.h"
#include "rooftile/readers/hf_config/hf_config.h"
#include "rooftile/workload/training.h"

namespace rooftile {
namespace {

double product_macs(const Workload& workload) {
  double flop = 0;
  for (const Op& op : workload.ops) {
    if (is_matrix_op(op)) flop += static_cast<double>(op.count) * count_cost(op).flop.value();
  }
  return flop / 2;
}

// One stage of ResNet-50: `in` channels at `from`² positions, width w at s². Of the first block
// conv1 runs at the incoming size and a shortcut of in·4w is added; the others cost (4+9+4)·w².
constexpr double resnet_stage(double in, double from, double w, double s, double blocks) {
  return from * from * in * w + s * s * (9 * w * w + 4 * w * w + in * 4 * w) +
         (blocks - 1) * 17 * w * w * s * s;
}

constexpr double kStem = 112. * 112 * 64 * 3 * 49;
constexpr double kResnet50 = kStem + resnet_stage(64, 56, 64, 56, 3) +
                             resnet_stage(256, 56, 128, 28, 4) + resnet_stage(512, 28, 256, 14, 6) +
                             resnet_stage(1024, 14, 512, 7, 3) + 2048. * 1000;
constexpr double kVgg16 =
    9. * (224 * 224 * (3 * 64 + 64 * 64) + 112 * 112 * (64. * 128 + 128 * 128) +
          56 * 56 * (128. * 256 + 2 * 256 * 256) + 28 * 28 * (256. * 512 + 2 * 512 * 512) +
          14 * 14 * (3. * 512 * 512)) +
    25088. * 4096 + 4096. * 4096 + 4096. * 1000;
// Patches; qkv, output and feed-forward are (3+1+4+4)·768² a token; scores and their sum; head.
constexpr double kVitB16 =
    196. * 768 * 768 + 12 * (197. * 12 * 768 * 768 + 2. * 197 * 197 * 768) + 768. * 1000;
constexpr double kLstm = 35. * (2 * 4 * (650. + 650) * 650 + 650. * 10000);

struct Case {
  const char* name;
  onnx::ModelProto (*build)();
  std::int64_t batch;
  double published;  // 0: by hand only
  double by_hand;    // 0: published only
  std::int64_t parameters;

  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

class NetworkFlop : public testing::TestWithParam<Case> {};

TEST_P(NetworkFlop, AgreesWithIndependentCounts) {
  const Case& c = GetParam();
  ReadOptions options;
  if (c.batch > 1) options.dims["N"] = c.batch;
  const auto workload = read_model(c.build(), options);
  ASSERT_TRUE(workload) << to_string(workload.error());
  const double macs = product_macs(*workload) / static_cast<double>(c.batch);
  if (c.published > 0) {
    EXPECT_NEAR(macs / c.published, 1, 0.01);
  }
  if (c.by_hand > 0) {
    EXPECT_DOUBLE_EQ(macs, c.by_hand);
  }
  EXPECT_EQ(workload->parameters, c.parameters);
}

// Batch normalisation channels: 26,560 in ResNet-50 and 17,056 in MobileNetV2.
const Case kNetworks[] = {
    {"resnet50", resnet50, 8, 4.09e9, kResnet50, 25'557'032 - 26'560},
    {"vgg16", vgg16, 4, 15.47e9, kVgg16, 138'357'544},
    {"mobilenet_v2", mobilenet_v2, 8, 0.30e9, 0, 3'504'872 - 17'056},
    {"vit_b16", vit_b16, 1, 17.56e9, kVitB16, 86'567'656},
    {"lstm", lstm_language_model, 20, 0, kLstm,
     10000 * 650 + 2 * (2 * 2600 * 650 + 5200) + 650 * 10000 + 10000},
};

INSTANTIATE_TEST_SUITE_P(All, NetworkFlop, testing::ValuesIn(kNetworks),
                         [](const auto& test) { return test.param.name; });

// A step is three times the forward products, but the image needs no gradient.
TEST(NetworkFlopTraining, IsThreeForwardPassesLessTheStemsInputGradient) {
  ReadOptions options;
  options.batch = 8;
  const auto forward = read_model(resnet50(), options);
  ASSERT_TRUE(forward) << to_string(forward.error());
  EXPECT_DOUBLE_EQ(product_macs(derive_training(*forward)), 8 * (3 * kResnet50 - kStem));
}

// 12·h² a token and layer, two attention products of s²·h, and the pooler on the first token.
TEST(NetworkFlopHfConfig, BertBaseAtSequence128) {
  ReadOptions options;
  options.batch = 1;
  options.seq = 128;
  const auto bert = parse_hf_config(R"({"architectures": ["BertModel"], "model_type": "bert",
    "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
    "intermediate_size": 3072, "vocab_size": 30522})",
                                    "config.json", options);
  ASSERT_TRUE(bert) << to_string(bert.error());
  EXPECT_DOUBLE_EQ(product_macs(*bert),
                   12 * (128. * 12 * 768 * 768 + 2. * 128 * 128 * 768) + 768. * 768);
  EXPECT_EQ(bert->parameters, 109'482'240);  // numel of transformers' bert-base-uncased
}

}  // namespace
}  // namespace rooftile
