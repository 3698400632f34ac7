#include "rooftile/readers/pt2/pt2_reader.h"

#include <utility>

#include "rooftile/formats/pt2/archive.h"
#include "rooftile/readers/pt2/program_conversion.h"

namespace rooftile {
namespace {

using pt2_format::Archive;
using pt2_format::ArchiveKind;

constexpr std::string_view kZip = "PK\x03\x04";

Result<Archive> open_archive(const std::string& path) {
  auto source = pt2_format::open_file(path);
  if (!source) return tl::unexpected(source.error());
  return Archive::open(*std::move(source));
}

bool recognises(std::string_view path, std::string_view head) {
  if (!head.starts_with(kZip)) return false;
  const auto archive = open_archive(std::string(path));
  if (!archive) return false;
  return archive->kind() == ArchiveKind::exported_program ||
         archive->kind() == ArchiveKind::compiled;
}

// Parameters of one file of weights are one tensor. Archives of models without data have one empty
// file for all of them, which says nothing.
std::map<std::string, std::string> tied_weights(const Archive& archive) {
  const auto json = archive.weights_config();
  if (!json) return {};
  auto files = pt2_format::parse_weight_files(*json);
  if (!files) return {};
  std::map<std::string, std::string> tied;
  for (const auto& [name, weight] : *files) {
    if (archive.has_data(weight.file)) tied[name] = weight.place;
  }
  return tied;
}

Result<Workload> convert(const Archive& archive, const std::string& name,
                         const ReadOptions& options) {
  if (archive.kind() == ArchiveKind::compiled) {
    return fail(
        "an AOTInductor package: it holds compiled code, not the graph. Save the program "
        "that was compiled: torch.export.save(program, \"model.pt2\")");
  }
  const auto json = archive.program();
  if (!json) return tl::unexpected(json.error());
  if (json->empty()) {
    return fail(
        "a zip archive without an exported program: expected models/<name>.json or "
        "serialized_exported_program.json in it");
  }
  const auto program = pt2_format::parse_program(*json);
  if (!program) return tl::unexpected(program.error());
  return pt2_reader_detail::convert_program(*program, tied_weights(archive), name, options);
}

Result<Workload> at(Result<Workload> workload, const std::string& where) {
  if (workload || !workload.error().where.empty()) return workload;
  return fail(workload.error().message, where);
}

Result<Workload> read_pt2(const std::string& path, const ReadOptions& options) {
  const auto archive = open_archive(path);
  if (!archive) return at(tl::unexpected(archive.error()), path);
  return at(convert(*archive, path, options), path);
}

}  // namespace

const Reader exported_program_reader{
    .name = "pt2",
    .recognises = recognises,
    .read = read_pt2,
    .takes = "--batch, --seq, --dim",
    .reads_beside_others = true,
    .instead_of_decode =
        "an exported program holds one graph: export the step with its past keys "
        "and values as inputs, and check that without --mode"};

Result<Workload> read_pt2_bytes(std::string_view bytes, const std::string& name,
                                const ReadOptions& options) {
  const auto archive = Archive::open(pt2_format::source_of_text(bytes));
  if (!archive) return fail(archive.error().message, name);
  return at(convert(*archive, name, options), name);
}

}  // namespace rooftile
