#include "rooftile/formats/kineto/text_window.h"

#include <cstring>

namespace rooftile {

bool TextWindow::read_more() {
  if (ended_) return false;
  const std::size_t kept = left();
  if (kept > 0) std::memmove(text_.data(), cursor_.at, kept);
  std::size_t size = kept;
  do {
    const std::string_view block = bytes_.next();
    ended_ = block.empty();
    if (ended_) break;
    if (text_.size() < size + block.size()) text_.resize(size + block.size());
    std::memcpy(text_.data() + size, block.data(), block.size());
    size += block.size();
  } while (size < 2 * kept);
  cursor_ = {text_.data(), text_.data() + size};
  return size > kept;
}

}  // namespace rooftile
