#include "tests/support/timeline_text.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rooftile/base/text.h"
#include "tests/support/timeline_line.h"

namespace rooftile {
namespace {

// Ids of the rounds of a repeat lie this far apart.
constexpr std::uint32_t kIdsOfRound = 1'000'000;

// What the rounds around a line add to it.
struct Round {
  Nanoseconds shift = 0;
  std::uint32_t ids = 0;
  std::int64_t number = 0;
};

template <class T>
std::uint32_t index_of(std::vector<T>& values, const T& value) {
  const auto found = std::find(values.begin(), values.end(), value);
  if (found != values.end()) return static_cast<std::uint32_t>(found - values.begin());
  values.push_back(value);
  return static_cast<std::uint32_t>(values.size() - 1);
}

// Adds lines to a timeline; every add_… says whether it understood the line.
class TimelineBuilder {
 public:
  Result<Timeline> build(std::string_view text) {
    lines_ = split(text, '\n');
    add_lines(0, lines_.size(), {});
    if (error_) return tl::unexpected(*error_);
    return std::move(timeline_);
  }

 private:
  void add_lines(std::size_t from, std::size_t to, const Round& round);
  bool add_line(const TextLine& line, const Round& round);
  bool add_host(const TextLine& line, const Round& round);
  bool add_call(const TextLine& line, const Round& round);
  bool add_gpu(const TextLine& line, const Round& round);
  bool add_memory(const TextLine& line, const Round& round);
  bool add_overhead(const TextLine& line, const Round& round);
  bool add_sleep(const TextLine& line, const Round& round);
  bool add_device(const TextLine& line);
  bool add_fact(const TextLine& line);
  std::uint32_t arguments_of(const TextLine& line);
  std::uint32_t launch_of(const TextLine& line);
  std::uint32_t copy_of(const TextLine& line);
  std::optional<std::uint16_t> stream_of(std::string_view word);

  std::uint16_t thread_of(std::string_view word) {
    const auto known = threads_.emplace(word, timeline_.threads.size());
    if (known.second) {
      timeline_.threads.push_back({1, static_cast<std::int64_t>(timeline_.threads.size()) + 1});
    }
    return static_cast<std::uint16_t>(known.first->second);
  }
  std::uint32_t name_of(const TextLine& line, std::size_t from, const Round& round) {
    std::string name = line.free_text(from);
    if (const std::size_t at = name.find("{i}"); at != std::string::npos) {
      name.replace(at, 3, std::to_string(round.number));
    }
    return timeline_.strings.id_of(name);
  }
  static std::uint32_t id_of(const TextLine& line, std::string_view key, const Round& round) {
    const auto id = parse_integer(line.key(key));
    return id ? static_cast<std::uint32_t>(*id) + round.ids : 0;
  }
  static std::int64_t number_of(const TextLine& line, std::string_view key,
                                std::int64_t otherwise = 0) {
    return parse_integer(line.key(key)).value_or(otherwise);
  }

  std::vector<std::string_view> lines_;
  std::map<std::string, std::size_t, std::less<>> threads_;
  Timeline timeline_;
  std::optional<Error> error_;
};

void TimelineBuilder::add_lines(std::size_t from, std::size_t to, const Round& round) {
  for (std::size_t i = from; i < to && !error_; ++i) {
    const TextLine line = words_of(lines_[i]);
    if (line.words.empty()) continue;
    const std::string where = "line " + std::to_string(i + 1);
    if (line.words[0] == "repeat") {
      std::size_t end = i + 1;
      while (end < to && words_of(lines_[end]).words != std::vector<std::string_view>{"end"}) ++end;
      const auto count = line.words.size() == 4 ? parse_integer(line.words[1]) : std::nullopt;
      const auto period = line.words.size() == 4 ? parse_time(line.words[3]) : std::nullopt;
      if (!count || !period || end == to) {
        error_ = Error{"expected 'repeat COUNT every PERIOD' and a line 'end'", where};
        return;
      }
      for (std::int64_t k = 0; k < *count; ++k) {
        add_lines(i + 1, end,
                  {round.shift + k * *period,
                   round.ids + static_cast<std::uint32_t>(k) * kIdsOfRound, k});
      }
      i = end;
    } else if (!add_line(line, round)) {
      error_ = Error{"expected an event, found " + quoted(lines_[i], 80), where};
    }
  }
}

bool TimelineBuilder::add_line(const TextLine& line, const Round& round) {
  const std::string_view kind = line.words[0];
  if (kind == "op" || kind == "mark" || kind == "python") return add_host(line, round);
  if (kind == "call") return add_call(line, round);
  if (kind == "kernel" || kind == "copy" || kind == "fill") return add_gpu(line, round);
  if (kind == "memory") return add_memory(line, round);
  if (kind == "overhead") return add_overhead(line, round);
  if (kind == "sleep") return add_sleep(line, round);
  if (kind == "device") return add_device(line);
  return add_fact(line);
}

bool TimelineBuilder::add_host(const TextLine& line, const Round& round) {
  if (line.words.size() < 5) return false;
  const auto start = parse_time(line.words[2]);
  const auto duration = parse_time(line.words[3]);
  if (!start || !duration) return false;
  const std::uint16_t thread = thread_of(line.words[1]);
  const std::uint32_t name = name_of(line, 4, round);
  if (line.words[0] == "python") {
    timeline_.python.time.push_back(*start + round.shift, *duration);
    timeline_.python.thread.push_back(thread);
    timeline_.python.name.push_back(name);
    timeline_.has_stacks = true;
    return true;
  }
  timeline_.ops.time.push_back(*start + round.shift, *duration);
  timeline_.ops.thread.push_back(thread);
  timeline_.ops.kind.push_back(line.words[0] == "op" ? HostKind::op : HostKind::annotation);
  timeline_.ops.name.push_back(name);
  timeline_.ops.external_id.push_back(id_of(line, "id", round));
  const std::uint32_t sequence = id_of(line, "seq", round);
  timeline_.ops.sequence.push_back(line.keys.contains("seq") ? sequence + 1 : 0);
  timeline_.ops.arguments.push_back(arguments_of(line));
  timeline_.ops.stack.push_back(0);
  timeline_.ops.module.push_back(0);
  timeline_.ops.collective.push_back(0);
  return true;
}

bool TimelineBuilder::add_call(const TextLine& line, const Round& round) {
  if (line.words.size() < 5) return false;
  const auto start = parse_time(line.words[2]);
  const auto duration = parse_time(line.words[3]);
  if (!start || !duration) return false;
  timeline_.calls.time.push_back(*start + round.shift, *duration);
  timeline_.calls.thread.push_back(thread_of(line.words[1]));
  timeline_.calls.name.push_back(name_of(line, 4, round));
  timeline_.calls.correlation.push_back(id_of(line, "corr", round));
  timeline_.calls.external_id.push_back(id_of(line, "id", round));
  return true;
}

bool TimelineBuilder::add_gpu(const TextLine& line, const Round& round) {
  const std::string_view kind = line.words[0];
  if (line.words.size() < (kind == "fill" ? 4U : 5U)) return false;
  const auto stream = stream_of(line.words[1]);
  const auto start = parse_time(line.words[2]);
  const auto duration = parse_time(line.words[3]);
  if (!stream || !start || !duration) return false;
  timeline_.gpu.time.push_back(*start + round.shift, *duration);
  timeline_.gpu.kind.push_back(kind == "kernel" ? GpuKind::kernel
                               : kind == "copy" ? GpuKind::copy
                                                : GpuKind::fill);
  timeline_.gpu.stream.push_back(*stream);
  const std::string prefix = kind == "kernel" ? "" : kind == "copy" ? "Memcpy " : "Memset (Device)";
  timeline_.gpu.name.push_back(
      kind == "kernel"
          ? name_of(line, 4, round)
          : timeline_.strings.id_of(prefix + (kind == "copy" ? line.free_text(4) : "")));
  timeline_.gpu.correlation.push_back(id_of(line, "corr", round));
  timeline_.gpu.external_id.push_back(id_of(line, "id", round));
  timeline_.gpu.details.push_back(kind == "kernel" ? launch_of(line) : copy_of(line));
  return true;
}

bool TimelineBuilder::add_memory(const TextLine& line, const Round& round) {
  if (line.words.size() != 3) return false;
  const auto at = parse_time(line.words[1]);
  const auto bytes = parse_integer(line.words[2]);
  if (!at || !bytes) return false;
  timeline_.memory.at.push_back(*at + round.shift);
  timeline_.memory.bytes.push_back(*bytes);
  timeline_.memory.allocated.push_back(number_of(line, "allocated", -1));
  timeline_.memory.reserved.push_back(number_of(line, "reserved", -1));
  timeline_.memory.device.push_back(static_cast<std::int16_t>(number_of(line, "device", 0)));
  timeline_.has_memory = true;
  return true;
}

bool TimelineBuilder::add_overhead(const TextLine& line, const Round& round) {
  if (line.words.size() < 4) return false;
  const auto start = parse_time(line.words[1]);
  const auto duration = parse_time(line.words[2]);
  if (!start || !duration) return false;
  timeline_.overheads.time.push_back(*start + round.shift, *duration);
  timeline_.overheads.name.push_back(name_of(line, 3, round));
  return true;
}

bool TimelineBuilder::add_sleep(const TextLine& line, const Round& round) {
  if (line.words.size() < 4) return false;
  const auto start = parse_time(line.words[2]);
  const auto duration = parse_time(line.words[3]);
  if (!start || !duration) return false;
  timeline_.sleeps.time.push_back(*start + round.shift, *duration);
  timeline_.sleeps.thread.push_back(thread_of(line.words[1]));
  return true;
}

bool TimelineBuilder::add_device(const TextLine& line) {
  if (line.words.size() < 3) return false;
  const auto id = parse_integer(line.words[1]);
  if (!id) return false;
  TraceDevice device;
  device.id = static_cast<std::int32_t>(*id);
  device.name = line.free_text(2);
  device.sm_count = static_cast<int>(number_of(line, "sms"));
  device.memory_bytes = static_cast<std::uint64_t>(number_of(line, "memory"));
  const auto version = split(line.key("cc"), '.');
  device.major = static_cast<int>(parse_integer(version[0]).value_or(0));
  if (version.size() > 1) device.minor = static_cast<int>(parse_integer(version[1]).value_or(0));
  timeline_.devices.push_back(device);
  return true;
}

bool TimelineBuilder::add_fact(const TextLine& line) {
  const auto& words = line.words;
  if (words[0] == "rank" && words.size() == 4 && words[2] == "of") {
    timeline_.rank = parse_integer(words[1]);
    timeline_.world_size = parse_integer(words[3]);
    return timeline_.rank && timeline_.world_size;
  }
  if (words[0] == "skipped" && words.size() >= 3 && parse_integer(words[1])) {
    timeline_.skipped[line.free_text(2)] = *parse_integer(words[1]);
    return true;
  }
  if (words[0] == "format") timeline_.format = line.free_text(1);
  if (words[0] == "foreign") timeline_.is_foreign = true;
  return words[0] == "format" || words[0] == "foreign";
}

std::uint32_t TimelineBuilder::arguments_of(const TextLine& line) {
  OpArguments arguments;
  arguments.dims = parse_integer_lists(line.key("dims"));
  arguments.strides = parse_integer_lists(line.key("strides"));
  arguments.types = parse_list(line.key("types"));
  arguments.values = parse_list(line.key("values"));
  if (arguments == OpArguments{}) return 0;
  timeline_.has_shapes = true;
  return index_of(timeline_.arguments, arguments);
}

std::uint32_t TimelineBuilder::launch_of(const TextLine& line) {
  LaunchShape launch;
  launch.grid = parse_extents(line.key("grid"));
  launch.block = parse_extents(line.key("block"));
  launch.registers = static_cast<std::uint32_t>(number_of(line, "regs"));
  launch.shared_bytes = static_cast<std::uint32_t>(number_of(line, "shared"));
  if (line.keys.contains("collective")) {
    CollectiveShape shape;
    shape.name = line.key("collective");
    shape.dtype = line.key("dtype");
    shape.group = line.key("group");
    shape.in_elements = number_of(line, "in");
    shape.out_elements = number_of(line, "out");
    shape.group_size = number_of(line, "ranks");
    launch.collective = index_of(timeline_.collectives, shape);
  }
  return index_of(timeline_.launches, launch);
}

std::uint32_t TimelineBuilder::copy_of(const TextLine& line) {
  constexpr std::array<std::pair<std::string_view, CopyKind>, 7> kKinds{
      {{"HtoD", CopyKind::host_to_device},
       {"DtoH", CopyKind::device_to_host},
       {"DtoD", CopyKind::device_to_device},
       {"PtoP", CopyKind::peer_to_peer},
       {"HtoH", CopyKind::host_to_host},
       {"migrationHtoD", CopyKind::migration_to_device},
       {"migrationDtoH", CopyKind::migration_to_host}}};
  CopyShape shape;
  shape.bytes = static_cast<std::uint64_t>(number_of(line, "bytes"));
  if (line.words[0] == "copy") {
    for (const auto& [name, kind] : kKinds) {
      if (line.words[4] == name) shape.kind = kind;
    }
    shape.pageable =
        std::find(line.words.begin(), line.words.end(), "pageable") != line.words.end();
  }
  return index_of(timeline_.copies, shape);
}

std::optional<std::uint16_t> TimelineBuilder::stream_of(std::string_view word) {
  GpuStream stream;
  const std::size_t colon = word.find(':');
  if (colon != std::string_view::npos) {
    const auto device = parse_integer(word.substr(0, colon));
    if (!device) return std::nullopt;
    stream.device = static_cast<std::int32_t>(*device);
    word = word.substr(colon + 1);
  }
  const auto number = parse_integer(word);
  if (!number) return std::nullopt;
  stream.stream = *number;
  return static_cast<std::uint16_t>(index_of(timeline_.streams, stream));
}

}  // namespace

Result<Timeline> parse_timeline(std::string_view text) { return TimelineBuilder{}.build(text); }

}  // namespace rooftile
