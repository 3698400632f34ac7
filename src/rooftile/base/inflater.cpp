#include "rooftile/base/inflater.h"

#include <isa-l/igzip_lib.h>

#include <cstdint>

namespace rooftile {

struct Inflater::State {
  inflate_state stream;
};

bool is_gzip(std::string_view head) { return head.starts_with("\x1f\x8b"); }

Inflater::Inflater() : state_(std::make_unique<State>()) {
  isal_inflate_init(&state_->stream);
  state_->stream.crc_flag = ISAL_GZIP;
  state_->stream.avail_in = 0;
}

Inflater::~Inflater() = default;

void Inflater::set_input(std::string_view bytes) {
  // The library never writes through this pointer.
  state_->stream.next_in =
      reinterpret_cast<std::uint8_t*>(const_cast<char*>(bytes.data()));  // NOLINT
  state_->stream.avail_in = static_cast<std::uint32_t>(bytes.size());
}

bool Inflater::needs_input() const { return state_->stream.avail_in == 0; }

// Like gzip: zeros behind the last member are padding, other bytes are left out with a word.
void Inflater::finish_member() {
  inflate_state& stream = state_->stream;
  while (stream.avail_in > 0 && *stream.next_in == 0) {
    ++stream.next_in;
    --stream.avail_in;
  }
  inside_member_ = false;
  if (stream.avail_in == 0) return;
  if (*stream.next_in != 0x1f) {
    stopped_ = true;
    problem_ = "bytes that are not gzip follow the gzip data";
    return;
  }
  std::uint8_t* const next = stream.next_in;
  const std::uint32_t left = stream.avail_in;
  isal_inflate_reset(&stream);
  stream.crc_flag = ISAL_GZIP;
  stream.next_in = next;
  stream.avail_in = left;
}

std::size_t Inflater::inflate(std::span<char> output) {
  inflate_state& stream = state_->stream;
  if (!inside_member_) {
    // Also after padding that ended a piece of the input.
    finish_member();
    if (stopped_ || stream.avail_in == 0) return 0;
    inside_member_ = true;
  }
  stream.next_out = reinterpret_cast<std::uint8_t*>(output.data());
  stream.avail_out = static_cast<std::uint32_t>(output.size());
  const int status = isal_inflate(&stream);
  const std::size_t written = output.size() - stream.avail_out;
  if (status < 0 || status == ISAL_NEED_DICT) {
    stopped_ = true;
    problem_ = status == ISAL_INCORRECT_CHECKSUM ? "gzip data has a wrong checksum"
                                                 : "gzip data is damaged";
  } else if (stream.block_state == ISAL_BLOCK_FINISH) {
    finish_member();
  }
  return written;
}

std::string Inflater::problem() const {
  return problem_.empty() && inside_member_ ? "gzip data is cut short" : problem_;
}

}  // namespace rooftile
