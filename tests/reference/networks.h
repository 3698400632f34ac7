// Whole networks: as ONNX graphs, as PyTorch exports them with batch normalisation folded, and as
// configs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "rooftile/readers/onnx/onnx_models.h"

namespace rooftile {

// Llama-3.1-8B.
constexpr const char* kLlama8bConfig = R"({"architectures": ["LlamaForCausalLM"],
  "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
  "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
  "max_position_embeddings": 131072, "vocab_size": 128256, "torch_dtype": "bfloat16"})";

// Emits layers as lines of ONNX text; each returns the name of its output.
class Net {
 public:
  std::string node(const std::string& call) {
    const std::string name = "v" + std::to_string(next_++);
    nodes_ += name + " = " + call + "\n";
    return name;
  }

  std::string weight(std::vector<std::int64_t> dims) {
    weights_.emplace_back("w" + std::to_string(next_++), std::move(dims));
    return weights_.back().first;
  }

  // With bias and the padding that keeps the size at stride 1 (kernel - stride 0 for patches).
  std::string conv(const std::string& x, int c, int k, int kernel, int stride = 1, int groups = 1) {
    const std::string w = weight({k, c / groups, kernel, kernel});
    const std::string s = std::to_string(stride);
    const std::string p = std::to_string(stride == kernel ? 0 : kernel / 2);
    return node("Conv<strides=[" + s + "," + s + "], pads=[" + p + "," + p + "," + p + "," + p +
                "], group=" + std::to_string(groups) + ">(" + x + ", " + w + ", " + weight({k}) +
                ")");
  }

  std::string apply(const std::string& op, const std::string& x) {
    return node(op + "(" + x + ")");
  }

  std::string add(const std::string& a, const std::string& b) {
    return node("Add(" + a + ", " + b + ")");
  }

  std::string linear(const std::string& x, int inputs, int outputs) {
    const std::string w = weight({outputs, inputs});
    return node("Gemm<transB=1>(" + x + ", " + w + ", " + weight({outputs}) + ")");
  }

  // A Linear layer on rows of [batch, seq, inputs], as PyTorch exports it.
  std::string matmul(const std::string& x, int inputs, int outputs) {
    const std::string product = node("MatMul(" + x + ", " + weight({inputs, outputs}) + ")");
    return add(product, weight({outputs}));
  }

  std::string layer_norm(const std::string& x, int width) {
    const std::string scale = weight({width});
    return node("LayerNormalization(" + x + ", " + scale + ", " + weight({width}) + ")");
  }

  std::string reshape(const std::string& x, const std::string& shape) {
    const std::string dims = node("Constant<value_ints=[" + shape + "]>()");
    return node("Reshape(" + x + ", " + dims + ")");
  }

  // Three equal parts of the last axis of [batch, seq, width].
  std::vector<std::string> split3(const std::string& x) {
    const std::string name = "v" + std::to_string(next_++);
    nodes_ += name + "a, " + name + "b, " + name + "c = Split<axis=2, num_outputs=3>(" + x + ")\n";
    return {name + "a", name + "b", name + "c"};
  }

  onnx::ModelProto model(const std::string& inputs, const std::string& output) const {
    auto model = model_of("(" + inputs + ") => (y) {\n" + nodes_ + "y = Identity(" + output + ")}");
    for (const auto& [name, dims] : weights_) add_weight(model, name, dims);
    return model;
  }

 private:
  std::string nodes_;
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> weights_;
  int next_ = 0;
};

constexpr const char* kImages = "float[N,3,224,224] x";

inline std::string classify(Net& net, const std::string& x, int channels) {
  return net.linear(net.apply("Flatten", net.apply("GlobalAveragePool", x)), channels, 1000);
}

// v1.5: the 3x3 convolution has the stride.
inline onnx::ModelProto resnet50() {
  Net net;
  std::string x = net.apply("Relu", net.conv("x", 3, 64, 7, 2));
  x = net.apply("MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>", x);
  int c = 64;
  for (const auto& [blocks, w] : {std::pair{3, 64}, {4, 128}, {6, 256}, {3, 512}}) {
    for (int i = 0; i < blocks; ++i) {
      const int stride = i == 0 && w > 64 ? 2 : 1;
      std::string y = net.apply("Relu", net.conv(x, c, w, 1));
      y = net.apply("Relu", net.conv(y, w, w, 3, stride));
      y = net.conv(y, w, 4 * w, 1);
      // A 1x1 convolution pads nothing at either stride.
      const std::string shortcut = i == 0 ? net.conv(x, c, 4 * w, 1, stride) : x;
      x = net.apply("Relu", net.add(y, shortcut));
      c = 4 * w;
    }
  }
  return net.model(kImages, classify(net, x, 2048));
}

inline onnx::ModelProto vgg16() {
  Net net;
  std::string x = "x";
  int c = 3;
  for (const auto& [layers, k] : {std::pair{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}}) {
    for (int i = 0; i < layers; ++i) {
      x = net.apply("Relu", net.conv(x, c, k, 3));
      c = k;
    }
    x = net.apply("MaxPool<kernel_shape=[2,2], strides=[2,2]>", x);
  }
  x = net.apply("Relu", net.linear(net.apply("Flatten", x), 25088, 4096));
  x = net.apply("Relu", net.linear(x, 4096, 4096));
  return net.model(kImages, net.linear(x, 4096, 1000));
}

inline onnx::ModelProto mobilenet_v2() {
  struct Stage {
    int expansion, channels, blocks, stride;
  };
  Net net;
  std::string x = net.apply("Relu", net.conv("x", 3, 32, 3, 2));
  int c = 32;
  // Table 2 of the MobileNetV2 paper.
  for (const Stage& s :
       {Stage{1, 16, 1, 1}, Stage{6, 24, 2, 2}, Stage{6, 32, 3, 2}, Stage{6, 64, 4, 2},
        Stage{6, 96, 3, 1}, Stage{6, 160, 3, 2}, Stage{6, 320, 1, 1}}) {
    for (int i = 0; i < s.blocks; ++i) {
      const int wide = c * s.expansion;
      std::string y = s.expansion > 1 ? net.apply("Relu", net.conv(x, c, wide, 1)) : x;
      y = net.apply("Relu", net.conv(y, wide, wide, 3, i == 0 ? s.stride : 1, wide));
      y = net.conv(y, wide, s.channels, 1);
      x = i > 0 ? net.add(x, y) : y;
      c = s.channels;
    }
  }
  return net.model(kImages, classify(net, net.apply("Relu", net.conv(x, 320, 1280, 1)), 1280));
}

inline std::string self_attention(Net& net, const std::string& x) {
  const auto qkv = net.split3(net.matmul(x, 768, 3 * 768));
  const auto heads = [&](const std::string& part, const char* perm) {
    const std::string split = net.reshape(part, "1,197,12,64");
    return net.apply("Transpose<perm=[" + std::string(perm) + "]>", split);
  };
  const std::string q = heads(qkv[0], "0,2,1,3"), k = heads(qkv[1], "0,2,3,1");
  const std::string v = heads(qkv[2], "0,2,1,3");
  const std::string scores = net.apply("Softmax", net.node("MatMul(" + q + ", " + k + ")"));
  const std::string out = net.node("MatMul(" + scores + ", " + v + ")");
  return net.matmul(net.reshape(net.apply("Transpose<perm=[0,2,1,3]>", out), "1,197,768"), 768,
                    768);
}

inline onnx::ModelProto vit_b16() {
  Net net;
  std::string x = net.reshape(net.conv("x", 3, 768, 16, 16), "1,768,196");
  x = net.apply("Transpose<perm=[0,2,1]>", x);
  x = net.node("Concat<axis=1>(" + net.weight({1, 1, 768}) + ", " + x + ")");
  x = net.add(x, net.weight({1, 197, 768}));
  for (int layer = 0; layer < 12; ++layer) {
    x = net.add(x, self_attention(net, net.layer_norm(x, 768)));
    const std::string wide = net.matmul(net.layer_norm(x, 768), 768, 3072);
    x = net.add(x, net.matmul(net.apply("Gelu", wide), 3072, 768));
  }
  const std::string first = net.node("Constant<value_int=0>()");
  x = net.node("Gather<axis=1>(" + net.layer_norm(x, 768) + ", " + first + ")");
  return net.model("float[1,3,224,224] x", net.linear(x, 768, 1000));
}

// The medium network of Zaremba et al., "Recurrent Neural Network Regularization": 35 tokens.
inline onnx::ModelProto lstm_language_model() {
  Net net;
  std::string x = net.node("Gather(" + net.weight({10000, 650}) + ", x)");
  for (int layer = 0; layer < 2; ++layer) {
    const std::string w = net.weight({1, 2600, 650}), r = net.weight({1, 2600, 650});
    x = net.node("LSTM<hidden_size=650>(" + x + ", " + w + ", " + r + ", " + net.weight({1, 5200}) +
                 ")");
    const std::string axis = net.node("Constant<value_ints=[1]>()");
    x = net.node("Squeeze(" + x + ", " + axis + ")");
  }
  return net.model("int64[35,N] x", net.matmul(x, 650, 10000));
}

}  // namespace rooftile
