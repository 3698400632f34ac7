// The writing half of the text form.
#include <fmt/format.h>

#include <algorithm>

#include "rooftile/base/text.h"
#include "rooftile/workload/encoded_name.h"
#include "rooftile/workload/op_fields.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

std::string extents_text(const Extents& extents) {
  std::vector<std::string> parts;
  for (const std::int64_t extent : extents) parts.push_back(std::to_string(extent));
  return join(parts, "x");
}

class FieldWriter {
 public:
  void required(std::string_view key, std::int64_t size) { add(key, std::to_string(size)); }
  void optional(std::string_view key, std::int64_t size, std::int64_t otherwise) {
    if (size != otherwise) required(key, size);
  }
  void flag(std::string_view key, bool value, bool otherwise) {
    if (value != otherwise) add(key, value ? "1" : "0");
  }
  template <class Enum, class Names>
  void choice(std::string_view key, Enum value, const Names& names, Enum otherwise) {
    // The function of an operation is always said; other choices only when unusual.
    if (value != otherwise || key == "fn" || key == "cell") {
      add(key, names[static_cast<std::size_t>(value)]);
    }
  }
  void word(std::string_view key, const std::string& value) {
    if (!value.empty()) add(key, encode_name(value));
  }
  void extents(std::string_view key, const Extents& sizes, std::optional<std::int64_t> otherwise) {
    const bool usual = otherwise && std::all_of(sizes.begin(), sizes.end(), [&](std::int64_t size) {
                         return size == *otherwise;
                       });
    if (!usual) add(key, extents_text(sizes));
  }
  void extents_like(std::string_view key, const Extents& sizes, const Extents& usual) {
    if (sizes != usual) add(key, sizes.empty() ? "0" : extents_text(sizes));
  }
  void add(std::string_view key, std::string_view value) {
    if (!text.empty()) text += ' ';
    text.append(key).append("=").append(value);
  }

  std::string text;
};

void write_dtypes(FieldWriter& writer, const Dtypes& dtypes) {
  if (dtypes.weight != dtypes.input) writer.add("weight_dtype", to_string(dtypes.weight));
  if (dtypes.output != dtypes.input) writer.add("out_dtype", to_string(dtypes.output));
}

void write_provenance(FieldWriter& writer, const Provenance& source, std::string_view usual_file) {
  if (source.file != usual_file || source.file.empty()) {
    writer.add("file", encode_name(source.file));
  }
  writer.required("line", source.line);
  writer.word("node", source.node);
  writer.word("module", source.module);
}

std::string header_text(const Workload& workload) {
  FieldWriter writer;
  writer.choice("mode", workload.mode, kModeNames, Mode::inference);
  writer.choice("graph", workload.graph, kGraphKindNames, GraphKind::none);
  if (workload.parameters) writer.required("parameters", *workload.parameters);
  if (workload.batch) writer.required("batch", *workload.batch);
  if (workload.sequence) writer.required("sequence", *workload.sequence);
  const auto add_bytes = [&](std::string_view name, const std::optional<double>& bytes) {
    if (bytes) writer.add(name, fmt::format("{}", *bytes));
  };
  add_bytes("kv_cache_bytes", workload.kv_cache_bytes);
  add_bytes("recurrent_state_bytes", workload.recurrent_state_bytes);
  add_bytes("weight_bytes", workload.weight_bytes);
  if (!workload.unused_options.empty()) {
    writer.add("unused", encode_names(workload.unused_options));
  }
  if (!workload.sources.empty()) writer.add("source", encode_names(workload.sources));
  return writer.text.empty() ? "" : "workload " + writer.text + "\n";
}

// `usual_file` is what a reader takes for the file where none is written.
std::string op_text(const Op& op, std::string_view usual_file) {
  FieldWriter writer;
  std::visit([&](const auto& fields) { visit_fields(writer, fields); }, op.body);
  write_dtypes(writer, op.dtypes);
  visit_fields(writer, op.streams);
  writer.choice("phase", op.phase, kPhaseNames, Phase::forward);
  writer.optional("count", op.count, 1);
  if (!op.inputs.empty()) writer.add("from", encode_names(op.inputs));
  if (op.outputs != std::vector<std::string>{op.name}) writer.add("to", encode_names(op.outputs));
  write_provenance(writer, op.source, usual_file);
  if (op.measured) writer.add("measured_s", fmt::format("{}", op.measured->value()));
  return fmt::format("{} {} {} {}", kind_name(op.body), encode_word(op.name),
                     to_string(op.dtypes.input), writer.text);
}

}  // namespace

std::string dims_text(const Body& body) {
  FieldWriter writer;
  std::visit([&](const auto& fields) { visit_fields(writer, fields); }, body);
  return writer.text;
}

std::string to_text(const Op& op) { return op_text(op, {}); }

std::string to_text(const Workload& workload) {
  std::string text = header_text(workload);
  const std::string usual_file = workload.sources.empty() ? "" : workload.sources.front();
  for (const Op& op : workload.ops) text += op_text(op, usual_file) + "\n";
  for (const auto& [name, count] : workload.skipped) {
    text += fmt::format("skipped {} {}\n", encode_word(name), count);
  }
  for (const std::string& note : workload.notes) text += "note " + encode_word(note) + "\n";
  return text;
}

}  // namespace rooftile
