// The part of a stream that is being scanned, in one piece.
#pragma once

#include <string_view>
#include <vector>

#include "rooftile/base/byte_stream.h"
#include "rooftile/formats/kineto/json_scan.h"

namespace rooftile {

class TextWindow {
 public:
  explicit TextWindow(ByteStream& bytes) : bytes_(bytes) {}

  JsonCursor& cursor() { return cursor_; }
  std::size_t left() const { return static_cast<std::size_t>(cursor_.end - cursor_.at); }
  bool ended() const { return ended_; }
  // Drops what is before the cursor and at least doubles the rest, so that scanning again after
  // each call costs twice the time at most. False at the end of the stream.
  bool read_more();

 private:
  ByteStream& bytes_;
  std::vector<char> text_;
  JsonCursor cursor_{nullptr, nullptr};
  bool ended_ = false;
};

}  // namespace rooftile
