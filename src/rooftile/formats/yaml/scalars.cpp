#include "rooftile/formats/yaml/scalars.h"

#include <fmt/format.h>
#include <yaml.h>

#include <optional>
#include <utility>

namespace rooftile::yaml {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 20U;
constexpr std::size_t kMaxLevels = 64;
constexpr std::size_t kMaxScalars = 50'000;
constexpr std::size_t kMaxPathBytes = 1024;

// One list or mapping that is open.
struct Level {
  bool is_list = false;
  std::size_t items = 0;           // of a list, those that were met
  std::optional<std::string> key;  // of a mapping, the one whose value comes next
  std::size_t path = 0;            // length of the path to it
  bool is_left_out = false;
};

class Events {
 public:
  explicit Events(std::string_view bytes) {
    yaml_parser_initialize(&parser_);
    yaml_parser_set_encoding(&parser_, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(bytes.data()),
                                 bytes.size());
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
  ~Events() { yaml_parser_delete(&parser_); }

  Result<std::vector<Scalar>> run() {
    yaml_event_type_t type = YAML_NO_EVENT;
    while (type != YAML_DOCUMENT_END_EVENT && type != YAML_STREAM_END_EVENT) {
      yaml_event_t event;
      if (yaml_parser_parse(&parser_, &event) == 0) {
        const char* problem = parser_.problem == nullptr ? "unreadable" : parser_.problem;
        return fail(
            fmt::format("is no YAML: {} in line {}", problem, parser_.problem_mark.line + 1));
      }
      type = event.type;
      take(event);
      yaml_event_delete(&event);
      if (levels_.size() > kMaxLevels) return fail("is nested too deeply");
      if (scalars_.size() > kMaxScalars) return fail("holds more than 50,000 values");
    }
    return std::move(scalars_);
  }

 private:
  void take(const yaml_event_t& event) {
    switch (event.type) {
      case YAML_SCALAR_EVENT:
        return take_scalar(event);
      case YAML_SEQUENCE_START_EVENT:
        return open(true);
      case YAML_MAPPING_START_EVENT:
        return open(false);
      case YAML_SEQUENCE_END_EVENT:
      case YAML_MAPPING_END_EVENT:
        return close();
      case YAML_ALIAS_EVENT:
        enter();
        return leave();
      default:
        return;
    }
  }

  // A scalar is a key, or a value of the key or place before it.
  void take_scalar(const yaml_event_t& event) {
    const auto& scalar = event.data.scalar;
    const std::string_view text(reinterpret_cast<const char*>(scalar.value), scalar.length);
    if (is_key_next()) {
      levels_.back().key = text;
      return;
    }
    if (enter()) {
      scalars_.push_back({path_, std::string(text), scalar.style != YAML_PLAIN_SCALAR_STYLE,
                          static_cast<std::uint32_t>(event.start_mark.line)});
    }
    leave();
  }

  bool is_key_next() const {
    return !levels_.empty() && !levels_.back().is_list && !levels_.back().key;
  }

  void open(bool is_list) {
    const bool is_kept = !is_key_next() && enter();
    levels_.push_back({is_list, 0, std::nullopt, path_.size(), !is_kept});
  }

  void close() {
    if (!levels_.empty()) levels_.pop_back();
    leave();
  }

  // Adds the key or place of the value that begins to the path; false where it is left out.
  bool enter() {
    if (levels_.empty()) return true;
    Level& level = levels_.back();
    if (level.is_left_out) return false;
    const std::string part =
        level.is_list ? fmt::format("{}", level.items) : level.key.value_or("");
    if (part.empty() || path_.size() + part.size() > kMaxPathBytes) return false;
    if (!path_.empty()) path_ += '.';
    path_ += part;
    return true;
  }

  // The value ends: the path is that of the list or mapping again.
  void leave() {
    if (levels_.empty()) return;
    Level& level = levels_.back();
    path_.resize(level.path);
    if (level.is_list) {
      ++level.items;
    } else {
      level.key = level.key ? std::optional<std::string>() : std::optional<std::string>("");
    }
  }

  yaml_parser_t parser_{};
  std::vector<Level> levels_;
  std::vector<Scalar> scalars_;
  std::string path_;
};

}  // namespace

Result<std::vector<Scalar>> read_scalars(std::string_view bytes) {
  if (bytes.size() > kMaxBytes) return fail("is larger than 1 MiB, the limit for configurations");
  return Events(bytes).run();
}

}  // namespace rooftile::yaml
