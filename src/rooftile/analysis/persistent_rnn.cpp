#include "rooftile/analysis/persistent_rnn.h"

namespace rooftile {
namespace {

bool is_plain_rnn(Cell cell) { return cell == Cell::rnn_tanh || cell == Cell::rnn_relu; }

bool fits_static_kernel(const Recurrent& rnn) {
  return rnn.layers == 1 && rnn.directions == 1 && rnn.hidden <= 1024 && rnn.hidden % 128 == 0 &&
         rnn.input % 128 == 0;
}

bool long_enough_on_volta(const Recurrent& rnn) {
  return (rnn.seq >= 40 && rnn.batch <= 128) || (rnn.seq >= 20 && rnn.batch <= 96) ||
         (rnn.seq >= 10 && rnn.batch <= 32);
}

bool volta_prefers_static(const Recurrent& rnn) {
  const bool batch_fits =
      (rnn.batch % 16 == 0 && rnn.batch != 80 && rnn.batch != 112) || rnn.batch == 8;
  return batch_fits && long_enough_on_volta(rnn);
}

// The kernel's grid needs 98 SMs at once.
bool ampere_prefers_static(const Recurrent& rnn, const Device& device) {
  constexpr int kSmsNeeded = 98;
  if (device.sms < kSmsNeeded || device.compute_capability == 86 || rnn.cell == Cell::gru) {
    return false;
  }
  if (rnn.batch % 8 != 0 || rnn.batch > 128) return false;
  return !is_plain_rnn(rnn.cell) || rnn.batch < 96 || rnn.hidden < 896;
}

bool device_prefers_static(const Recurrent& rnn, const Device& device) {
  if (device.compute_capability == 70) return volta_prefers_static(rnn);
  return device.compute_capability >= 80 && ampere_prefers_static(rnn, device);
}

// Hidden units at most; wider layers exceed one SM's registers.
bool small_forward(const Recurrent& rnn) {
  return rnn.hidden <= (is_plain_rnn(rnn.cell) ? 384 : 192);
}
bool small_backward(const Recurrent& rnn) {
  return rnn.hidden <= (is_plain_rnn(rnn.cell) ? 256 : 128);
}

}  // namespace

RnnChoice cudnn_rnn_algorithm(const Recurrent& rnn, Dtype dtype, const Device& device) {
  using enum RnnAlgorithm;
  if (rnn.packed || rnn.projection > 0) return {};
  if (device.compute_capability >= 60 && dtype != Dtype::fp64 && small_forward(rnn)) {
    return {persist_small, small_backward(rnn) ? persist_small : standard};
  }
  const bool persist =
      dtype == Dtype::fp16 && fits_static_kernel(rnn) && device_prefers_static(rnn, device);
  return persist ? RnnChoice{persist_static, persist_static} : RnnChoice{};
}

}  // namespace rooftile
