#include "rooftile/workload/workload_bytes.h"

#include <array>
#include <cstring>

#include "rooftile/workload/op_fields.h"
#include "rooftile/workload/validate.h"

namespace rooftile {
namespace {

class ByteWriter {
 public:
  // Small magnitudes take few bytes: seven bits each, the lowest bit is the sign.
  void number(std::int64_t value) {
    auto rest = static_cast<std::uint64_t>(value) << 1U;
    if (value < 0) rest = ~rest;
    while (rest >= 128) {
      bytes_.push_back(static_cast<char>((rest & 127U) | 128U));
      rest >>= 7U;
    }
    bytes_.push_back(static_cast<char>(rest));
  }
  void string(std::string_view text) {
    number(static_cast<std::int64_t>(text.size()));
    bytes_.append(text);
  }
  void real(double value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  template <class Enum>
  void enumerator(Enum value) {
    number(static_cast<std::int64_t>(value));
  }
  template <class Items, class Write>
  void list(const Items& items, const Write& write) {
    number(static_cast<std::int64_t>(items.size()));
    for (const auto& item : items) write(item);
  }
  void strings(const std::vector<std::string>& all) {
    list(all, [this](const std::string& text) { string(text); });
  }

  // The visitor of op_fields.h.
  void required(std::string_view, std::int64_t size) { number(size); }
  void optional(std::string_view, std::int64_t size, std::int64_t) { number(size); }
  void flag(std::string_view, bool value, bool) { enumerator(value); }
  template <class Enum, class Names>
  void choice(std::string_view, Enum value, const Names&, Enum) {
    enumerator(value);
  }
  void word(std::string_view, const std::string& value) { string(value); }
  void extents(std::string_view, const Extents& sizes, std::optional<std::int64_t>) {
    list(sizes, [this](std::int64_t size) { number(size); });
  }
  void extents_like(std::string_view key, const Extents& sizes, const Extents&) {
    extents(key, sizes, {});
  }

  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// After the first mistake every value read is empty.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  bool failed() const { return failed_; }
  bool finished() const { return !failed_ && rest_.empty(); }

  std::int64_t number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 127U) << shift;
      if (byte < 128) return decoded(value);
    }
    failed_ = true;
    return 0;
  }
  std::int64_t number_below(std::size_t limit) {
    const std::int64_t value = number();
    if (value >= 0 && static_cast<std::uint64_t>(value) < limit) return value;
    failed_ = true;
    return 0;
  }
  // A count of items that take at least a byte each.
  std::size_t size() { return static_cast<std::size_t>(number_below(rest_.size() + 1)); }
  std::string string() {
    const std::size_t length = size();
    if (failed_ || length > rest_.size()) {
      failed_ = true;
      return {};
    }
    std::string text(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return text;
  }
  double real() {
    double value = 0;
    if (rest_.size() < sizeof value) {
      failed_ = true;
      return 0;
    }
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }
  template <class Enum>
  void enumerator(Enum& value, std::size_t count) {
    value = static_cast<Enum>(number_below(count));
  }
  template <class Read>
  void list(const Read& read) {
    const std::size_t count = size();
    for (std::size_t i = 0; i < count && !failed_; ++i) read();
  }
  std::vector<std::string> strings() {
    std::vector<std::string> all;
    list([&] { all.push_back(string()); });
    return all;
  }

  // The visitor of op_fields.h.
  void required(std::string_view, std::int64_t& size) { size = number(); }
  void optional(std::string_view, std::int64_t& size, std::int64_t) { size = number(); }
  void flag(std::string_view, bool& value, bool) { enumerator(value, 2); }
  template <class Enum, class Names>
  void choice(std::string_view, Enum& value, const Names& names, Enum) {
    enumerator(value, names.size());
  }
  void word(std::string_view, std::string& value) { value = string(); }
  void extents(std::string_view, Extents& sizes, std::optional<std::int64_t>) {
    list([&] { sizes.push_back(number()); });
  }
  void extents_like(std::string_view key, Extents& sizes, const Extents&) {
    extents(key, sizes, {});
  }

 private:
  static std::int64_t decoded(std::uint64_t value) {
    const bool negative = (value & 1U) != 0;
    return static_cast<std::int64_t>(negative ? ~(value >> 1U) : value >> 1U);
  }

  std::string_view rest_;
  bool failed_ = false;
};

void write_shape(ByteWriter& writer, const Op& op) {
  writer.enumerator(op.body.index());
  std::visit([&](const auto& fields) { visit_fields(writer, fields); }, op.body);
  visit_fields(writer, op.streams);
  for (const Dtype dtype : {op.dtypes.input, op.dtypes.weight, op.dtypes.output}) {
    writer.enumerator(dtype);
  }
}

void write_op(ByteWriter& writer, const Op& op) {
  write_shape(writer, op);
  writer.string(op.name);
  writer.enumerator(op.phase);
  writer.number(op.count);
  writer.strings(op.inputs);
  writer.strings(op.outputs);
  writer.string(op.source.file);
  writer.number(op.source.line);
  writer.string(op.source.node);
  writer.string(op.source.module);
  writer.enumerator(op.measured.has_value());
  if (op.measured) writer.real(op.measured->value());
}

template <std::size_t... I>
Body body_at(std::size_t index, std::index_sequence<I...>) {
  Body body;
  (void)((index == I ? (body.emplace<I>(), true) : false) || ...);
  return body;
}

Op read_op(ByteReader& reader) {
  constexpr std::size_t kKinds = std::variant_size_v<Body>;
  Op op;
  op.body = body_at(static_cast<std::size_t>(reader.number_below(kKinds)),
                    std::make_index_sequence<kKinds>());
  std::visit([&](auto& fields) { visit_fields(reader, fields); }, op.body);
  visit_fields(reader, op.streams);
  for (Dtype* dtype : {&op.dtypes.input, &op.dtypes.weight, &op.dtypes.output}) {
    reader.enumerator(*dtype, kDtypes.size());
  }
  op.name = reader.string();
  reader.enumerator(op.phase, kPhaseNames.size());
  op.count = reader.number();
  op.inputs = reader.strings();
  op.outputs = reader.strings();
  op.source.file = reader.string();
  op.source.line = reader.number();
  op.source.node = reader.string();
  op.source.module = reader.string();
  if (reader.number_below(2) == 1) op.measured = Seconds(reader.real());
  return op;
}

void read_header(ByteReader& reader, Workload& workload) {
  reader.enumerator(workload.mode, kModeNames.size());
  reader.enumerator(workload.graph, kGraphKindNames.size());
  for (auto* size : {&workload.parameters, &workload.batch, &workload.sequence}) {
    if (reader.number_below(2) == 1) *size = reader.number();
  }
  for (auto* bytes :
       {&workload.kv_cache_bytes, &workload.recurrent_state_bytes, &workload.weight_bytes}) {
    if (reader.number_below(2) == 1) *bytes = reader.real();
  }
  workload.sources = reader.strings();
  reader.list([&] {
    std::string name = reader.string();
    workload.skipped[std::move(name)] = reader.number();
  });
  workload.notes = reader.strings();
  workload.unused_options = reader.strings();
}

}  // namespace

std::string to_bytes(const Workload& workload) {
  ByteWriter writer;
  writer.enumerator(workload.mode);
  writer.enumerator(workload.graph);
  for (const auto& size : {workload.parameters, workload.batch, workload.sequence}) {
    writer.enumerator(size.has_value());
    if (size) writer.number(*size);
  }
  for (const auto& bytes :
       {workload.kv_cache_bytes, workload.recurrent_state_bytes, workload.weight_bytes}) {
    writer.enumerator(bytes.has_value());
    if (bytes) writer.real(*bytes);
  }
  writer.strings(workload.sources);
  writer.list(workload.skipped, [&](const auto& entry) {
    writer.string(entry.first);
    writer.number(entry.second);
  });
  writer.strings(workload.notes);
  writer.strings(workload.unused_options);
  writer.list(workload.ops, [&](const Op& op) { write_op(writer, op); });
  return writer.take();
}

std::string shape_bytes(const Op& op) {
  ByteWriter writer;
  write_shape(writer, op);
  return writer.take();
}

Result<Workload> workload_from_bytes(std::string_view bytes) {
  ByteReader reader(bytes);
  Workload workload;
  read_header(reader, workload);
  std::optional<std::string> invalid;
  reader.list([&] {
    workload.ops.push_back(read_op(reader));
    if (!reader.failed() && !invalid) invalid = find_invalid_dim(workload.ops.back());
  });
  if (!reader.finished()) return fail("the bytes of a workload are damaged");
  for (const auto& size : {workload.batch, workload.sequence}) {
    if (size && (*size < 1 || *size > kMaxSize)) invalid = "a batch or sequence out of range";
  }
  if (invalid) return fail(*invalid);
  return workload;
}

}  // namespace rooftile
