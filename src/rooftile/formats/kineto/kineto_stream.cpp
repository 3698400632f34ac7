#include "rooftile/formats/kineto/kineto_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "rooftile/base/file_kind.h"
#include "rooftile/base/run_limits.h"
#include "rooftile/base/text.h"
#include "rooftile/formats/kineto/event_search.h"
#include "rooftile/formats/kineto/json_values.h"
#include "rooftile/formats/kineto/text_window.h"

namespace rooftile {
namespace {

JsonScan scan_args(JsonCursor& cursor, std::vector<JsonMember>& args) {
  args.clear();
  return scan_members(cursor, [&](std::string_view key) {
    std::string_view value;
    const JsonScan result = scan_value(cursor, value);
    if (result == JsonScan::ok) args.push_back({key, value});
    return result;
  });
}

std::string_view* field_of(KinetoEvent& event, std::string_view key) {
  switch (key.size()) {
    case 2:
      return key == "ph" ? &event.phase : key == "ts" ? &event.time : nullptr;
    case 3:
      return key == "cat"   ? &event.category
             : key == "pid" ? &event.process
             : key == "tid" ? &event.thread
             : key == "dur" ? &event.duration
                            : nullptr;
    case 4:
      return key == "name" ? &event.name : nullptr;
    default:
      return nullptr;
  }
}

// From the opening brace to behind the closing one.
JsonScan scan_event(JsonCursor& cursor, KinetoEvent& event) {
  event.clear();
  return scan_members(cursor, [&](std::string_view key) {
    if (key == "args" && *cursor.at == '{') return scan_args(cursor, event.args);
    std::string_view value;
    const JsonScan result = scan_value(cursor, value);
    if (std::string_view* const field = field_of(event, key)) *field = value;
    return result;
  });
}

class TraceScanner {
 public:
  TraceScanner(ByteStream& bytes, KinetoVisitor& visitor)
      : bytes_(bytes), window_(bytes), visitor_(visitor) {}

  Result<SkippedRecords> run() {
    auto error = scan_file();
    if (error) return tl::unexpected(*error);
    if (is_cut_) ++skipped_["rest of the file: cut short"];
    if (!bytes_.problem().empty()) ++skipped_["rest of the file: " + bytes_.problem()];
    return std::move(skipped_);
  }

 private:
  using MaybeError = std::optional<Error>;

  // The next character that is not space; 0 at the end.
  char peek() {
    for (;;) {
      window_.cursor().skip_space();
      if (!window_.cursor().done()) return *window_.cursor().at;
      if (!window_.read_more()) return '\0';
    }
  }

  MaybeError scan_file() {
    static constexpr std::string_view kMark = "\xef\xbb\xbf";
    while (window_.left() < kMark.size() && window_.read_more()) continue;
    if (std::string_view(window_.cursor().at, window_.left()).starts_with(kMark)) {
      window_.cursor().at += kMark.size();
    }
    switch (peek()) {
      case '{':
        return scan_object();
      case '[':
        return scan_bare_list();
      default:
        return refusal(std::string(
            describe_content({window_.cursor().at, std::min<std::size_t>(window_.left(), 4096)})));
    }
  }

  static MaybeError refusal(const std::string& what) {
    return Error{what + ": expected a trace of PyTorch's profiler (JSON with traceEvents)", {}};
  }

  // The legacy form: the events alone.
  MaybeError scan_bare_list() {
    ++window_.cursor().at;
    switch (peek()) {
      case '{':
        scan_events();
        return {};
      case '[':
        return refusal("a list of lists, as memory timelines of PyTorch are");
      case ']':
        return refusal("an empty JSON list");
      default:
        return refusal("a JSON list of something other than events");
    }
  }

  // Scans with the whole of what it scans in the window.
  template <class ScanOne>
  JsonScan scan_whole(const ScanOne& scan_one) {
    for (;;) {
      JsonCursor ahead = window_.cursor();
      const JsonScan result = scan_one(ahead);
      if (result == JsonScan::ok) window_.cursor().at = ahead.at;
      if (result != JsonScan::more) return result;
      if (window_.left() > kMostEventBytes || !window_.read_more()) return JsonScan::more;
    }
  }

  MaybeError scan_object() {
    ++window_.cursor().at;
    for (;;) {
      if (is_left_out_) return {};
      const char c = peek();
      if (c == ',') {
        ++window_.cursor().at;
        continue;
      }
      is_cut_ = is_cut_ || c == '\0';
      if (c == '}' || c == '\0' || !scan_member()) break;
    }
    if (has_events_) return {};
    return refusal(describe_object());
  }

  // False when nothing can be made of the rest.
  bool scan_member() {
    std::string key;
    const JsonScan result = scan_whole([&](JsonCursor& cursor) {
      std::string_view text;
      if (*cursor.at != '"') return JsonScan::bad;
      if (scan_string(cursor, text) != JsonScan::ok) return JsonScan::more;
      cursor.skip_space();
      if (cursor.done()) return JsonScan::more;
      if (*cursor.at != ':') return JsonScan::bad;
      ++cursor.at;
      cursor.skip_space();
      key = text.substr(0, kMostKeyBytes);
      return cursor.done() ? JsonScan::more : JsonScan::ok;
    });
    if (result != JsonScan::ok) return stop_at_damage(result);
    if (keys_.size() < kMostKeys) keys_.push_back(key);
    if (key == "traceEvents" && *window_.cursor().at == '[') {
      ++window_.cursor().at;
      has_events_ = true;
      scan_events();
      return true;
    }
    if (!has_events_ && is_execution_trace()) return false;
    return scan_member_value(key);
  }

  bool scan_member_value(const std::string& key) {
    std::string_view value;
    const JsonScan result =
        scan_whole([&](JsonCursor& cursor) { return scan_value(cursor, value); });
    if (result != JsonScan::ok) return stop_at_damage(result);
    visitor_.on_member(key, value);
    return true;
  }

  bool stop_at_damage(JsonScan result) {
    const bool cut = result == JsonScan::more && window_.ended();
    if (cut) is_cut_ = true;
    if (!cut) ++skipped_["rest of the file: not JSON"];
    return false;
  }

  bool has_key(std::string_view key) const {
    return std::find(keys_.begin(), keys_.end(), key) != keys_.end();
  }
  bool is_execution_trace() const { return has_key("schema") && has_key("nodes"); }

  std::string describe_object() const {
    if (is_execution_trace()) return "an execution trace of PyTorch, which has no GPU times";
    if (has_key("rocprofiler-sdk-tool")) return "output of rocprofv3";
    if (has_key("model_type") || has_key("architectures")) return "a Hugging Face configuration";
    if (keys_.empty()) return "a JSON object without members";
    const std::vector<std::string> first(keys_.begin(),
                                         keys_.begin() + std::min<long>(4, std::ssize(keys_)));
    std::vector<std::string> names;
    for (const std::string& key : first) names.push_back(quoted(key, 30));
    return fmt::format("a JSON object with {}", join(names, ", "));
  }

  // To behind the closing bracket, or the end of the file.
  void scan_events() {
    for (;;) {
      const char c = peek();
      if (c == '\0') break;
      if (!reading_must_end().empty()) return leave_out_rest();
      if (c == ']') {
        ++window_.cursor().at;
        return;
      }
      if (c == ',') {
        ++window_.cursor().at;
      } else if (c == '{') {
        scan_next_event();
      } else {
        scan_stray();
      }
    }
    is_cut_ = true;
  }

  void leave_out_rest() {
    ++skipped_[fmt::format("rest of the file: {}", reading_must_end())];
    window_.cursor().at = window_.cursor().end;
    is_left_out_ = true;
  }

  void scan_next_event() {
    std::ptrdiff_t size = 0;
    const JsonScan result = scan_whole([&](JsonCursor& cursor) {
      const char* const first = cursor.at;
      const JsonScan scanned = scan_event(cursor, event_);
      size = cursor.at - first;
      return scanned;
    });
    if (result == JsonScan::ok && static_cast<std::size_t>(size) <= kMostEventBytes) {
      visitor_.on_event(event_);
    } else if (result == JsonScan::ok) {
      ++skipped_["events larger than 16 MiB"];
    } else if (result == JsonScan::bad) {
      ++skipped_["events that are not JSON"];
      skip_event();
    } else if (!window_.ended()) {
      ++skipped_["events larger than 16 MiB"];
      skip_event();
    } else {
      // A lost quote or brace can swallow all that follows; there may be events in it.
      const bool has_more = skip_event();
      if (has_more) ++skipped_["events that are not JSON"];
    }
  }

  // A number, a text or a list where an event should be.
  void scan_stray() {
    std::string_view value;
    const JsonScan result =
        scan_whole([&](JsonCursor& cursor) { return scan_value(cursor, value); });
    ++skipped_["events that are not objects"];
    if (result != JsonScan::ok) skip_event();
  }

  // To the next event after damage, or the end of the file; false there.
  bool skip_event() {
    if (skip_by_brackets()) return true;
    if (window_.left() > 0) ++window_.cursor().at;
    for (;;) {
      JsonCursor& cursor = window_.cursor();
      if (const char* const next = find_event(cursor)) {
        cursor.at = next;
        return true;
      }
      // The start of an event may lie across the end of the window.
      cursor.at = cursor.end - std::min(window_.left(), 2 * kEventStartBytes);
      if (!window_.read_more()) break;
    }
    window_.cursor().at = window_.cursor().end;
    return false;
  }

  // The event's own closing brace, if it comes soon and before anything that looks like the next
  // event. A file of nothing but damage must not be looked through again and again: hence the
  // budget.
  bool skip_by_brackets() {
    while (window_.left() < kMostBracketBytes && window_.read_more()) continue;
    JsonCursor inside = window_.cursor();
    if (inside.done() || *inside.at != '{' || bracket_budget_ < kMostBracketBytes) return false;
    inside.end = inside.at + std::min(window_.left(), kMostBracketBytes);
    bracket_budget_ -= kMostBracketBytes;
    if (scan_container(inside) != JsonScan::ok) return false;
    bracket_budget_ += static_cast<std::size_t>(inside.end - inside.at);
    if (find_event({window_.cursor().at + 1, inside.at}) != nullptr) return false;
    inside.skip_space();
    if (inside.done() || (*inside.at != ',' && *inside.at != ']')) return false;
    window_.cursor().at = inside.at;
    return true;
  }

  static constexpr std::size_t kMostKeys = 64, kMostKeyBytes = 256;
  static constexpr std::size_t kMostBracketBytes = std::size_t{1} << 16U;

  ByteStream& bytes_;
  TextWindow window_;
  KinetoVisitor& visitor_;
  KinetoEvent event_;
  SkippedRecords skipped_;
  std::vector<std::string> keys_;  // of the top-level object
  bool has_events_ = false, is_cut_ = false, is_left_out_ = false;
  std::size_t bracket_budget_ = kMostEventBytes;
};

}  // namespace

void KinetoEvent::clear() {
  phase = category = name = process = thread = time = duration = {};
  args.clear();
}

Result<SkippedRecords> read_kineto_stream(ByteStream& bytes, KinetoVisitor& visitor) {
  return TraceScanner(bytes, visitor).run();
}

}  // namespace rooftile
