#include "rooftile/formats/onnx/wire.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace rooftile::onnx_format {
namespace {

// The messages that can hold a tensor, a graph or documentation; everything else is copied as is.
enum class Message { leaf, model, graph, node, attribute, tensor, sparse_tensor, function, value };

enum class Action { copy, drop, drop_if_large, payload, descend };

struct FieldRule {
  Message parent;
  int field;
  Action action;
  Message child = Message::leaf;
};

// Field numbers of onnx.proto (IR version 13).
constexpr FieldRule kRules[] = {
    {Message::model, 6, Action::drop},  // doc_string
    {Message::model, 7, Action::descend, Message::graph},
    {Message::model, 14, Action::drop},  // metadata_props
    {Message::model, 20, Action::drop},  // training_info
    {Message::model, 25, Action::descend, Message::function},
    {Message::graph, 1, Action::descend, Message::node},
    {Message::graph, 5, Action::descend, Message::tensor},
    {Message::graph, 10, Action::drop},  // doc_string
    {Message::graph, 11, Action::descend, Message::value},
    {Message::graph, 12, Action::descend, Message::value},
    {Message::graph, 13, Action::descend, Message::value},
    {Message::graph, 14, Action::drop},  // quantization_annotation
    {Message::graph, 15, Action::descend, Message::sparse_tensor},
    {Message::graph, 16, Action::drop},  // metadata_props
    {Message::function, 7, Action::descend, Message::node},
    {Message::function, 8, Action::drop},  // doc_string
    {Message::function, 11, Action::descend, Message::attribute},
    {Message::function, 14, Action::drop},  // metadata_props
    {Message::node, 5, Action::descend, Message::attribute},
    {Message::node, 6, Action::drop},                // doc_string
    {Message::node, 9, Action::drop_if_large},       // metadata_props: module scopes, stack traces
    {Message::node, 10, Action::drop},               // device_configurations
    {Message::attribute, 4, Action::drop_if_large},  // s
    {Message::attribute, 5, Action::descend, Message::tensor},
    {Message::attribute, 6, Action::descend, Message::graph},
    {Message::attribute, 7, Action::drop_if_large},  // floats
    {Message::attribute, 8, Action::drop_if_large},  // ints
    {Message::attribute, 10, Action::descend, Message::tensor},
    {Message::attribute, 11, Action::descend, Message::graph},
    {Message::attribute, 13, Action::drop},  // doc_string
    {Message::attribute, 22, Action::descend, Message::sparse_tensor},
    {Message::attribute, 23, Action::descend, Message::sparse_tensor},
    {Message::sparse_tensor, 1, Action::descend, Message::tensor},
    {Message::sparse_tensor, 2, Action::descend, Message::tensor},
    {Message::tensor, 4, Action::payload},   // float_data
    {Message::tensor, 5, Action::payload},   // int32_data
    {Message::tensor, 6, Action::payload},   // string_data
    {Message::tensor, 7, Action::payload},   // int64_data
    {Message::tensor, 9, Action::payload},   // raw_data
    {Message::tensor, 10, Action::payload},  // double_data
    {Message::tensor, 11, Action::payload},  // uint64_data
    {Message::tensor, 12, Action::drop},     // doc_string
    {Message::tensor, 13, Action::drop},     // external_data: file names
    {Message::tensor, 16, Action::drop},     // metadata_props
    {Message::value, 3, Action::drop},       // doc_string
    {Message::value, 4, Action::drop},       // metadata_props
};

constexpr int kMessages = 9;
constexpr int kMaxField = 32;

constexpr auto kRuleTable = [] {
  std::array<std::array<FieldRule, kMaxField>, kMessages> table{};
  for (auto& row : table) {
    for (auto& rule : row) rule = {Message::leaf, 0, Action::copy, Message::leaf};
  }
  for (const FieldRule& rule : kRules) {
    table[static_cast<std::size_t>(rule.parent)][static_cast<std::size_t>(rule.field)] = rule;
  }
  return table;
}();

FieldRule rule_of(Message parent, std::uint64_t field) {
  if (field >= kMaxField) return {parent, 0, Action::copy, Message::leaf};
  return kRuleTable[static_cast<std::size_t>(parent)][static_cast<std::size_t>(field)];
}

// TensorProto.data_location = EXTERNAL.
constexpr std::string_view kExternalMark = "\x70\x01";

// One field of a message: its whole encoding, and the payload of a length-delimited one.
struct Field {
  std::uint64_t number = 0;
  int wire_type = 0;
  std::string_view whole, payload;
};

class Slimmer {
 public:
  Slimmer(std::string_view bytes, const WireLimits& limits) : bytes_(bytes), limits_(limits) {}

  Result<std::string> run() {
    std::string out;
    if (!copy_message(Message::model, bytes_, 1, out)) return tl::unexpected<Error>(*error_);
    return out;
  }

 private:
  bool stop(std::string message, std::string_view at) {
    if (!error_) {
      error_ = Error{fmt::format("{} at byte {}", message, at.data() - bytes_.data()), {}};
    }
    return false;
  }

  bool read_varint(std::string_view& rest, std::uint64_t& value) {
    value = 0;
    for (std::size_t i = 0; i < 10 && i < rest.size(); ++i) {
      const auto byte = static_cast<unsigned char>(rest[i]);
      value |= static_cast<std::uint64_t>(byte & 0x7FU) << (7 * i);
      if (byte < 0x80) {
        rest.remove_prefix(i + 1);
        return true;
      }
    }
    return stop("damaged or truncated number", rest);
  }

  bool read_field(std::string_view& rest, Field& field) {
    const std::string_view start = rest;
    std::uint64_t tag = 0;
    if (!read_varint(rest, tag)) return false;
    field.number = tag >> 3U;
    field.wire_type = static_cast<int>(tag & 7U);
    std::uint64_t length = 0;
    switch (field.wire_type) {
      case 0: {
        std::uint64_t value = 0;
        if (!read_varint(rest, value)) return false;
        break;
      }
      case 1:
        length = 8;
        break;
      case 2:
        if (!read_varint(rest, length)) return false;
        break;
      case 5:
        length = 4;
        break;
      default:
        return stop(fmt::format("no protobuf field (wire type {})", field.wire_type), start);
    }
    if (field.number == 0) return stop("no protobuf field (number 0)", start);
    if (length > rest.size()) {
      return stop(fmt::format("truncated: a field of {} bytes, {} left", length, rest.size()),
                  start);
    }
    field.payload = rest.substr(0, length);
    rest.remove_prefix(length);
    field.whole = start.substr(0, start.size() - rest.size());
    return true;
  }

  bool append(std::string_view piece, std::string& out) {
    kept_ += piece.size();
    if (kept_ > limits_.slim_bytes) {
      return stop(fmt::format("the graph without its weights is above {} bytes, the limit,",
                              limits_.slim_bytes),
                  bytes_.substr(0, 0));
    }
    out.append(piece);
    return true;
  }

  bool append_child(Message child, const Field& field, int depth, std::string& out) {
    if (child == Message::node && ++nodes_ > limits_.nodes) {
      return stop(fmt::format("more than {} nodes, the limit,", limits_.nodes), field.whole);
    }
    // A damaged length of a nested message would otherwise be found only by the library.
    std::string body;
    if (!copy_message(child, field.payload, depth + 1, body)) return false;
    std::uint64_t tag = (field.number << 3U) | 2U;
    append_varint(tag, out);
    append_varint(body.size(), out);
    out += body;
    return true;
  }

  static void append_varint(std::uint64_t value, std::string& out) {
    for (; value >= 0x80; value >>= 7U) out.push_back(static_cast<char>((value & 0x7FU) | 0x80U));
    out.push_back(static_cast<char>(value));
  }

  // Sum of the tensor's data fields; unpacked lists repeat their tag for every element.
  bool payload_size(std::string_view tensor, std::size_t& size) {
    for (Field field; !tensor.empty();) {
      if (!read_field(tensor, field)) return false;
      if (rule_of(Message::tensor, field.number).action == Action::payload) {
        size += field.whole.size();
      }
    }
    return true;
  }

  bool copy_message(Message message, std::string_view rest, int depth, std::string& out) {
    if (depth > limits_.depth) return stop("messages are nested too deeply", rest);
    bool drop_payload = false;
    if (message == Message::tensor) {
      std::size_t size = 0;
      if (!payload_size(rest, size)) return false;
      drop_payload = size > limits_.tensor_bytes;
    }
    for (Field field; !rest.empty();) {
      if (!read_field(rest, field)) return false;
      if (!copy_field(rule_of(message, field.number), field, drop_payload, depth, out))
        return false;
    }
    return !drop_payload || append(kExternalMark, out);
  }

  bool copy_field(const FieldRule& rule, const Field& field, bool drop_payload, int depth,
                  std::string& out) {
    switch (rule.action) {
      case Action::drop:
        return true;
      case Action::payload:
        return drop_payload || append(field.whole, out);
      case Action::drop_if_large:
        return field.whole.size() > limits_.attribute_bytes || append(field.whole, out);
      case Action::descend:
        if (field.wire_type != 2) return stop("a message was expected", field.whole);
        return append_child(rule.child, field, depth, out);
      case Action::copy:
        break;
    }
    return append(field.whole, out);
  }

  std::string_view bytes_;
  const WireLimits& limits_;
  std::optional<Error> error_;
  std::size_t nodes_ = 0, kept_ = 0;
};

}  // namespace

Result<std::string> slim_model(std::string_view bytes, const WireLimits& limits) {
  return Slimmer(bytes, limits).run();
}

bool looks_like_model(std::string_view head) {
  constexpr std::string_view kIrVersionTag = "\x08";
  // producer_name, producer_version, domain, model_version, doc_string, graph, opset_import
  constexpr std::string_view kNextTags = "\x12\x1a\x22\x28\x32\x3a\x42";
  return head.size() >= 3 && head.substr(0, 1) == kIrVersionTag && head[1] >= 1 && head[1] <= 32 &&
         kNextTags.find(head[2]) != std::string_view::npos;
}

}  // namespace rooftile::onnx_format
