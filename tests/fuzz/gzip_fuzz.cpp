// Bytes that are whole give the same text in whatever pieces they arrive and are taken; others are
// a problem in all of them, and the text in front of it may end earlier.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "rooftile/base/inflater.h"

namespace {

constexpr std::size_t kMostText = std::size_t{1} << 20U;

struct Reading {
  std::string text, problem;
};

// As a stream over a file reads, but for the sizes of its pieces.
Reading read(std::string_view bytes, std::size_t piece, std::size_t block) {
  Reading reading;
  rooftile::Inflater inflater;
  std::string output(block, '\0');
  while (!inflater.stopped() && reading.text.size() < kMostText) {
    const std::size_t wanted = std::min(block, kMostText - reading.text.size());
    const std::size_t written = inflater.inflate({output.data(), wanted});
    if (written > wanted) std::abort();
    reading.text.append(output, 0, written);
    if (written > 0 || !inflater.needs_input() || inflater.stopped()) continue;
    if (bytes.empty()) break;
    inflater.set_input(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
  }
  if (reading.text.size() < kMostText) reading.problem = inflater.problem();
  return reading;
}

// ISA-L loses its place in a header that comes in pieces and has more than a file's name: a
// comment, or a checksum of its own. gzip, zlib and Python write none of them.
bool has_rare_header(std::string_view bytes) {
  constexpr std::string_view kMember = "\x1f\x8b\x08";
  for (std::size_t at = bytes.find(kMember); at != std::string_view::npos;
       at = bytes.find(kMember, at + 1)) {
    if (at + 3 < bytes.size() && bytes[at + 3] != 0 && bytes[at + 3] != 8) return true;
  }
  return false;
}

void compare(const Reading& a, const Reading& b) {
  const std::size_t both = std::min(a.text.size(), b.text.size());
  if (a.text.compare(0, both, b.text, 0, both) != 0) std::abort();
  if (a.problem.empty() != b.problem.empty()) std::abort();
  if (a.problem.empty() && a.text.size() != b.text.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Reading whole = read(bytes, bytes.size() + 1, std::size_t{64} << 10U);
  compare(whole, read(bytes, bytes.size() + 1, 1000));
  if (!has_rare_header(bytes)) compare(whole, read(bytes, 7, 1000));
  return 0;
}
