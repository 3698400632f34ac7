// An ONNX model of any number of nodes, with weights in an external file that need not exist.
#pragma once

#include <cstdint>
#include <string>

namespace rooftile::benchmarks {

struct LargeGraph {
  int nodes = 6000;          // at least; whole transformer layers are added
  std::int64_t width = 768;  // of the layers; 12 heads
  std::int64_t batch = 8, tokens = 128;
  std::string weight_file = "weights.bin";  // beside the model
};

// Serialised ModelProto of a transformer encoder in elementary operators, opset 20.
std::string large_graph(const LargeGraph& options);

// Bytes that the weight file would have.
std::int64_t weight_bytes(const LargeGraph& options);

}  // namespace rooftile::benchmarks
