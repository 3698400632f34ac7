// Any bytes are an error or a workload whose operations hold the limits of validate.h; the size of
// the blocks in which they arrive changes nothing.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "rooftile/readers/kineto/capture_reader.h"
#include "rooftile/workload/validate.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto whole = rooftile::read_capture_bytes(*rooftile::stream_of(bytes, 1U << 20U), "-");
  const auto pieces = rooftile::read_capture_bytes(*rooftile::stream_of(bytes, 13), "-");
  require(whole.has_value() == pieces.has_value());
  if (!whole) return 0;
  require(*whole == *pieces);
  for (const rooftile::Op& op : whole->ops) {
    require(!rooftile::find_invalid_dim(op));
    require(op.count >= 1 && op.streams.bytes >= 0);
  }
  return 0;
}
