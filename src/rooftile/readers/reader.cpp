#include "rooftile/readers/reader.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <utility>

#include "rooftile/base/file.h"
#include "rooftile/base/file_kind.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {

#define READER(name) extern const Reader name;
#include "rooftile/readers/reader_list.inc"
#undef READER

std::span<const Reader* const> all_readers() {
  static constexpr auto kReaders = std::to_array<const Reader*>({
#define READER(name) &name,
#include "rooftile/readers/reader_list.inc"
#undef READER
  });
  return kReaders;
}

namespace {

constexpr std::size_t kHeadBytes = 4096;

Error unknown_format(const std::string& path, std::string_view head) {
  return {
      fmt::format("{}: expected an ONNX model, a Hugging Face config.json, a PyTorch "
                  "profiler trace, an Nsight Systems export, a script, timings or the text form",
                  describe_content(head)),
      path};
}

// Operations written in the place of a file: they have spaces and sizes; a file of that name wins.
bool is_inline_text(const std::string& path) {
  return path.find(' ') != std::string::npos && path.find('=') != std::string::npos &&
         !std::filesystem::exists(path);
}

Result<Workload> read_argument(const std::string& text, const ReadOptions&) {
  return parse_workload(text, "argument");
}

constexpr Reader kArgumentReader{.name = "argument", .recognises = nullptr, .read = read_argument};

}  // namespace

Result<const Reader*> find_reader(const std::string& path) {
  if (is_inline_text(path)) return &kArgumentReader;
  std::string head;
  if (path != "-") {
    Result<std::string> bytes = read_head(path, kHeadBytes);
    if (!bytes) return tl::unexpected(bytes.error());
    head = std::move(*bytes);
    if (head.empty()) return tl::unexpected(unknown_format(path, head));
  }
  for (const Reader* reader : all_readers()) {
    if (reader->recognises(path, head)) return reader;
  }
  return tl::unexpected(unknown_format(path, head));
}

Result<Input> read_input(const Reader& reader, const std::string& path,
                         const ReadOptions& options) {
  if (options.mode == Mode::decode && !reader.instead_of_decode.empty()) {
    return fail(fmt::format("--mode decode: {}", reader.instead_of_decode), path);
  }
  if (reader.read != nullptr) {
    return reader.read(path, options).map([](Workload workload) {
      return Input{.workload = std::move(workload), .timelines = {}};
    });
  }
  return reader.record(path, options).map([](std::vector<Timeline> timelines) {
    return Input{.workload = {}, .timelines = std::move(timelines)};
  });
}

Result<Input> read_input(const std::string& path, const ReadOptions& options) {
  const Result<const Reader*> reader = find_reader(path);
  if (!reader) return tl::unexpected(reader.error());
  return read_input(**reader, path, options);
}

}  // namespace rooftile
