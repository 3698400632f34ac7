// The least that reading a trace can take with zlib and simdjson: the file is decompressed, and the
// fields that name an event and place it in time are taken from each. Usage: rooftile_trace_scan
// TRACE. Prints events, seconds of each part, bytes of text.
#include <simdjson.h>
#include <zlib.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Plain files too: zlib passes them through.
bool inflate_file(const char* path, std::string& text) {
  gzFile file = gzopen(path, "rb");
  if (file == nullptr) return false;
  gzbuffer(file, 1U << 18U);
  constexpr std::size_t kStep = std::size_t{8} << 20U;
  std::size_t size = 0;
  int got = 0;
  do {
    if (text.size() < size + kStep) text.resize(size * 2 + kStep);
    got = gzread(file, text.data() + size, kStep);
    size += static_cast<std::size_t>(got > 0 ? got : 0);
  } while (got > 0);
  gzclose(file);
  text.resize(size);
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

Totals scan(std::string& text) {
  Totals totals;
  text.reserve(text.size() + simdjson::SIMDJSON_PADDING);
  simdjson::ondemand::parser parser;
  auto document = parser.iterate(text);
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
  std::string text;
  if (!inflate_file(argv[1], text)) return 2;
  const double inflate_s = seconds_since(start);
  try {
    const Totals totals = scan(text);
    std::printf(
        "events %lld duration_us %.3f name_bytes %zu text_bytes %zu inflate_s %.3f total_s %.3f\n",
        static_cast<long long>(totals.events), totals.duration, totals.name_bytes, text.size(),
        inflate_s, seconds_since(start));
  } catch (const simdjson::simdjson_error& error) {
    std::fprintf(stderr, "%s: %s\n", argv[1], error.what());
    return 2;
  }
  return 0;
}
