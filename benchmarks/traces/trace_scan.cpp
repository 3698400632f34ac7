// The least that reading a trace can take with zlib and simdjson: the file is decompressed, and the
// fields that name an event and place it in time are taken from each. Usage: rooftile_trace_scan
// TRACE. Prints events, seconds of each part, bytes of text.
#include <simdjson.h>
#include <zlib.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <string_view>

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Text {
  std::unique_ptr<char[]> bytes;
  std::size_t size = 0, room = 0;

  void grow(std::size_t new_room) {
    auto larger = std::make_unique_for_overwrite<char[]>(new_room + simdjson::SIMDJSON_PADDING);
    if (size > 0) std::memcpy(larger.get(), bytes.get(), size);
    bytes = std::move(larger);
    room = new_room;
  }
};

// The last four bytes of a gzip file of one member are its size modulo 2^32 (RFC 1952).
std::size_t expected_size(const char* path) {
  std::ifstream file(path, std::ios::binary);
  unsigned char end[4] = {};
  file.seekg(-4, std::ios::end);
  file.read(reinterpret_cast<char*>(end), 4);
  return std::size_t{end[0]} | std::size_t{end[1]} << 8U | std::size_t{end[2]} << 16U |
         std::size_t{end[3]} << 24U;
}

// Plain files too: zlib passes them through.
bool inflate_file(const char* path, Text& text) {
  gzFile file = gzopen(path, "rb");
  if (file == nullptr) return false;
  gzbuffer(file, 1U << 18U);
  constexpr std::size_t kStep = std::size_t{1} << 20U;
  text.grow(expected_size(path) + 2 * kStep);
  int got = 0;
  do {
    if (text.room - text.size < kStep) text.grow(2 * text.room);
    got = gzread(file, text.bytes.get() + text.size, kStep);
    text.size += static_cast<std::size_t>(got > 0 ? got : 0);
  } while (got > 0);
  gzclose(file);
  return got == 0;
}

struct Totals {
  std::int64_t events = 0;
  double duration = 0;
  std::size_t name_bytes = 0;
};

void scan_event(simdjson::ondemand::object event, Totals& totals) {
  ++totals.events;
  for (auto field : event) {
    const std::string_view key = field.unescaped_key();
    if (key == "name" || key == "cat") {
      totals.name_bytes += std::string_view(field.value().get_string()).size();
    } else if (key == "dur") {
      totals.duration += double(field.value().get_double());
    }
  }
}

Totals scan(const Text& text) {
  Totals totals;
  simdjson::ondemand::parser parser;
  auto document =
      parser.iterate(text.bytes.get(), text.size, text.room + simdjson::SIMDJSON_PADDING);
  simdjson::ondemand::array events;
  if (document.type() == simdjson::ondemand::json_type::array) {
    events = document.get_array();
  } else {
    events = document["traceEvents"].get_array();
  }
  for (auto event : events) scan_event(event.get_object(), totals);
  return totals;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto start = Clock::now();
  Text text;
  if (!inflate_file(argv[1], text)) return 2;
  const double inflate_s = seconds_since(start);
  try {
    const Totals totals = scan(text);
    std::printf(
        "events %lld duration_us %.3f name_bytes %zu text_bytes %zu inflate_s %.3f total_s %.3f\n",
        static_cast<long long>(totals.events), totals.duration, totals.name_bytes, text.size,
        inflate_s, seconds_since(start));
  } catch (const simdjson::simdjson_error& error) {
    std::fprintf(stderr, "%s: %s\n", argv[1], error.what());
    return 2;
  }
  return 0;
}
