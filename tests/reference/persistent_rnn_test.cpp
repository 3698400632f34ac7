// Which cuDNN algorithm PyTorch's heuristics choose.
#include "rooftile/analysis/persistent_rnn.h"

#include "reference.h"

namespace rooftile {
namespace {

using enum RnnAlgorithm;

struct RnnCase {
  Cell cell;
  Dtype dtype;
  std::int64_t layers, directions, hidden, input, batch, seq;
  int compute_capability, sms;
  RnnAlgorithm forward, backward;
};

Device gpu(int compute_capability, int sms) {
  Device device;
  device.compute_capability = compute_capability;
  device.sms = sms;
  return device;
}

Recurrent recurrent(const RnnCase& c) {
  Recurrent rnn;
  rnn.cell = c.cell, rnn.layers = c.layers, rnn.directions = c.directions;
  rnn.hidden = c.hidden, rnn.input = c.input, rnn.batch = c.batch, rnn.seq = c.seq;
  return rnn;
}

// Verdicts of PyTorch's aten/src/ATen/native/cudnn/RNN.cpp (use_persist_common_heuristics,
// use_persist_device_heuristics, use_rnn_persist_small_h) on these arguments.
constexpr RnnCase kCases[] = {
    {Cell::lstm, Dtype::fp16, 1, 1, 1024, 1024, 64, 50, 70, 80, persist_static, persist_static},
    {Cell::lstm, Dtype::fp16, 1, 1, 1024, 1024, 80, 50, 70, 80, standard, standard},
    {Cell::lstm, Dtype::fp16, 1, 1, 1024, 1024, 128, 30, 70, 80, standard, standard},
    {Cell::lstm, Dtype::fp16, 1, 1, 1024, 1024, 96, 20, 70, 80, persist_static, persist_static},
    {Cell::lstm, Dtype::fp16, 1, 1, 1024, 1024, 64, 50, 75, 40, standard, standard},
    {Cell::lstm, Dtype::fp16, 1, 1, 1024, 1024, 64, 5, 80, 108, persist_static, persist_static},
    {Cell::gru, Dtype::fp16, 1, 1, 1024, 1024, 64, 50, 80, 108, standard, standard},
    {Cell::rnn_tanh, Dtype::fp16, 1, 1, 896, 896, 96, 50, 80, 108, standard, standard},
    {Cell::rnn_tanh, Dtype::fp16, 1, 1, 768, 768, 96, 50, 80, 108, persist_static, persist_static},
    {Cell::lstm, Dtype::fp16, 1, 1, 1024, 1024, 64, 50, 86, 84, standard, standard},
    {Cell::lstm, Dtype::fp16, 2, 1, 1024, 1024, 64, 50, 80, 108, standard, standard},
    {Cell::lstm, Dtype::fp16, 1, 2, 1024, 1024, 64, 50, 80, 108, standard, standard},
    {Cell::lstm, Dtype::fp16, 1, 1, 1000, 1024, 64, 50, 80, 108, standard, standard},
    {Cell::lstm, Dtype::fp32, 1, 1, 192, 64, 10, 50, 80, 108, persist_small, standard},
    {Cell::lstm, Dtype::fp32, 1, 1, 128, 64, 10, 50, 80, 108, persist_small, persist_small},
    {Cell::lstm, Dtype::fp16, 1, 1, 1152, 1024, 64, 50, 70, 80, standard, standard},
    {Cell::lstm, Dtype::fp16, 1, 1, 1024, 1000, 64, 50, 70, 80, standard, standard},
    {Cell::lstm, Dtype::fp16, 1, 1, 1024, 1024, 128, 40, 70, 80, persist_static, persist_static},
    {Cell::lstm, Dtype::fp16, 1, 1, 1024, 1024, 128, 39, 70, 80, standard, standard},
    {Cell::lstm, Dtype::fp16, 1, 1, 1024, 1024, 144, 40, 70, 80, standard, standard},
    {Cell::lstm, Dtype::fp16, 1, 1, 1024, 1024, 112, 40, 70, 80, standard, standard},
    {Cell::lstm, Dtype::fp16, 1, 1, 1024, 1024, 96, 19, 70, 80, standard, standard},
    {Cell::lstm, Dtype::fp16, 1, 1, 1024, 1024, 32, 10, 70, 80, persist_static, persist_static},
    {Cell::lstm, Dtype::fp16, 1, 1, 1024, 1024, 32, 9, 70, 80, standard, standard},
    {Cell::lstm, Dtype::fp16, 1, 1, 1024, 1024, 48, 10, 70, 80, standard, standard},
    {Cell::lstm, Dtype::fp16, 1, 1, 1024, 1024, 8, 10, 70, 80, persist_static, persist_static},
    {Cell::lstm, Dtype::fp16, 1, 1, 1024, 1024, 24, 40, 70, 80, standard, standard},
    {Cell::lstm, Dtype::bf16, 1, 1, 1024, 1024, 64, 50, 80, 108, standard, standard},
    {Cell::lstm, Dtype::fp16, 1, 1, 1024, 1024, 128, 50, 80, 108, persist_static, persist_static},
    {Cell::lstm, Dtype::fp16, 1, 1, 1024, 1024, 136, 50, 80, 108, standard, standard},
    {Cell::lstm, Dtype::fp16, 1, 1, 1024, 1024, 60, 50, 80, 108, standard, standard},
    {Cell::lstm, Dtype::fp16, 1, 1, 1024, 1024, 64, 50, 80, 98, persist_static, persist_static},
    {Cell::lstm, Dtype::fp16, 1, 1, 1024, 1024, 64, 50, 80, 97, standard, standard},
    {Cell::lstm, Dtype::fp16, 1, 1, 1024, 1024, 64, 50, 90, 132, persist_static, persist_static},
    {Cell::rnn_relu, Dtype::fp16, 1, 1, 1024, 1024, 88, 50, 80, 108, persist_static,
     persist_static},
    {Cell::gru, Dtype::fp32, 2, 2, 192, 64, 10, 50, 60, 56, persist_small, standard},
    {Cell::gru, Dtype::fp32, 2, 2, 193, 64, 10, 50, 60, 56, standard, standard},
    {Cell::lstm, Dtype::fp32, 1, 1, 129, 64, 10, 50, 80, 108, persist_small, standard},
    {Cell::rnn_tanh, Dtype::fp32, 1, 1, 384, 64, 10, 50, 80, 108, persist_small, standard},
    {Cell::rnn_tanh, Dtype::fp32, 1, 1, 385, 64, 10, 50, 80, 108, standard, standard},
    {Cell::rnn_relu, Dtype::fp32, 1, 1, 256, 64, 10, 50, 80, 108, persist_small, persist_small},
    {Cell::rnn_relu, Dtype::fp32, 1, 1, 257, 64, 10, 50, 80, 108, persist_small, standard},
    {Cell::lstm, Dtype::fp32, 1, 1, 128, 64, 10, 50, 52, 24, standard, standard},
    {Cell::lstm, Dtype::fp64, 1, 1, 128, 64, 10, 50, 80, 108, standard, standard},
};

TEST(PersistentRnn, ChoiceOfPyTorch) {
  for (const RnnCase& c : kCases) {
    SCOPED_TRACE(testing::Message() << "case " << &c - kCases);
    const RnnChoice choice =
        cudnn_rnn_algorithm(recurrent(c), c.dtype, gpu(c.compute_capability, c.sms));
    EXPECT_EQ(choice.forward, c.forward);
    EXPECT_EQ(choice.backward, c.backward);
  }
}

TEST(PersistentRnn, NeverForPackedSequencesOrProjections) {
  for (const RnnCase& c : kCases) {
    Recurrent packed = recurrent(c);
    packed.packed = true;
    EXPECT_EQ(cudnn_rnn_algorithm(packed, c.dtype, gpu(80, 108)), RnnChoice{});
    for (const std::int64_t size : {1, 64}) {
      Recurrent projected = recurrent(c);
      projected.projection = size;
      EXPECT_EQ(cudnn_rnn_algorithm(projected, c.dtype, gpu(80, 108)), RnnChoice{}) << size;
    }
  }
}

}  // namespace
}  // namespace rooftile
