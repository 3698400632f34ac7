#include "rooftile/readers/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "rooftile/base/file.h"
#include "rooftile/base/file_kind.h"
#include "rooftile/base/text.h"
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

// "meta-llama/Llama-3.1-8B": an owner and a name without an ending.
bool is_hub_id(std::string_view path) {
  const std::size_t slash = path.find('/');
  if (slash == std::string_view::npos || slash == 0 || slash + 1 == path.size()) return false;
  const std::string_view owner = path.substr(0, slash);
  const auto is_part_of_id = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' ||
           c == '_' || c == '.';
  };
  if (owner.front() == '.' || !std::all_of(owner.begin(), owner.end(), is_part_of_id)) return false;
  const std::string_view name = path.substr(slash + 1);
  constexpr std::array<std::string_view, 9> kEndings{".onnx", ".pt2", ".json",     ".gz", ".sqlite",
                                                     ".py",   ".txt", ".nsys-rep", ".csv"};
  return std::all_of(name.begin(), name.end(), is_part_of_id) &&
         std::none_of(kEndings.begin(), kEndings.end(),
                      [&](std::string_view ending) { return name.ends_with(ending); });
}

Error missing_file(const std::string& path, const Error& error) {
  if (std::filesystem::exists(path) || !is_hub_id(path)) return error;
  const std::string name = path.substr(path.find('/') + 1);
  return {fmt::format("{}; for a model of the Hugging Face Hub run `hf download {} config.json "
                      "--local-dir {}`, then `rooftile check {}`",
                      error.message, path, name, name),
          path};
}

// What to give in the place of weights.
struct WeightsFormat {
  std::string_view ending, advice;
};

constexpr std::string_view kExport =
    "it holds weights, not the network. Two lines of Python write what can be read:\n"
    "  program = torch.export.export(model.eval(), (example_input,))\n"
    "  torch.export.save(program, \"model.pt2\")";
constexpr std::string_view kConfig =
    "it holds weights alone, and none are needed: give the config.json of the model";
constexpr std::array<WeightsFormat, 9> kWeightsFormats{{
    {".pt2",
     "not an archive that torch.export.save wrote, or one that is cut: expected a zip archive with "
     "models/<name>.json or serialized_exported_program.json in it"},
    {".pt", kExport},
    {".pth", kExport},
    {".ckpt", kExport},
    {".safetensors", kConfig},
    {".gguf", kConfig},
    {".bin", kConfig},
    {".h5",
     "a Keras file: in Python, model.export(\"model.onnx\", format=\"onnx\") writes an "
     "ONNX model"},
    {".keras",
     "a Keras file: in Python, model.export(\"model.onnx\", format=\"onnx\") writes an "
     "ONNX model"},
}};

Error unknown_format(const std::string& path, std::string_view head) {
  for (const WeightsFormat& format : kWeightsFormats) {
    if (!head.empty() && lower(path).ends_with(format.ending)) {
      return {std::string(format.advice), path};
    }
  }
  return {fmt::format("{}: expected an ONNX model, an exported program (.pt2), a Hugging Face "
                      "config.json, a PyTorch profiler trace, an Nsight Systems export, a script, "
                      "timings or the text form",
                      describe_content(head)),
          path};
}

// Operations written in the place of a file: they have spaces and sizes; a file of that name wins.
bool is_inline_text(const std::string& path) {
  std::error_code ignored;  // a text longer than a name can be
  return path.find(' ') != std::string::npos && path.find('=') != std::string::npos &&
         !std::filesystem::exists(path, ignored);
}

// Reports name the operations by their text; where they stand in it says nothing.
Result<Workload> read_argument(const std::string& text, const ReadOptions&) {
  constexpr std::size_t kShown = 80;
  Result<Workload> workload = parse_workload(text, "argument");
  if (!workload) return workload;
  const bool fits = text.size() <= kShown && text.find('\n') == std::string::npos;
  const std::string name = fits ? text : text.substr(0, std::min(kShown, text.find('\n'))) + "…";
  workload->sources = {name};
  for (Op& op : workload->ops) {
    op.source.file = name;
    op.source.line = 0;
  }
  return workload;
}

constexpr Reader kArgumentReader{.name = "argument", .recognises = nullptr, .read = read_argument};

// "timm:resnet50"
constexpr std::string_view kTimm = "timm:";

Result<Workload> read_library_name(const std::string& name, const ReadOptions& options) {
  if (!options.build) return fail("a name of a library's model is not read here", name);
  Result<Workload> built = options.build(name, options);
  if (!built && built.error().where.empty()) built.error().where = name;
  return built;
}

constexpr Reader kLibraryReader{
    .name = "library", .recognises = nullptr, .read = read_library_name, .takes = "--batch"};

}  // namespace

const Reader* script_reader(const std::string& path) {
  for (const Reader* reader : all_readers()) {
    if (reader->read_together != nullptr && reader->recognises(path, {})) return reader;
  }
  return nullptr;
}

Result<const Reader*> find_reader(const std::string& path) {
  if (is_inline_text(path)) return &kArgumentReader;
  if (path.starts_with(kTimm)) return &kLibraryReader;
  std::string head;
  if (path != "-") {
    Result<std::string> bytes = read_head(path, kHeadBytes);
    if (!bytes) return tl::unexpected(missing_file(path, bytes.error()));
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
  if (reader.record == nullptr) {
    return fail("scripts have no operations of their own: expected a model or a trace", path);
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
