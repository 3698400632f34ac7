#include "rooftile/readers/kineto/arguments.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>

#include "rooftile/base/text.h"
#include "rooftile/formats/kineto/json_values.h"

namespace rooftile {
namespace {

constexpr std::size_t kMostOpArguments = 4096;               // of one operator
constexpr std::size_t kLongestList = std::size_t{1} << 16U;  // in bytes of its text
constexpr std::size_t kMostArgumentRows = std::size_t{1} << 16U;
constexpr std::size_t kMostSmallRows = std::size_t{1} << 20U;

struct ArgName {
  std::string_view name;
  std::string_view KnownArgs::*field;
};

// By length, so that most lookups compare one or two names.
constexpr std::array<ArgName, 31> kArgNames{{
    {"External id", &KnownArgs::external_id},
    {"external id", &KnownArgs::external_id},
    {"correlation", &KnownArgs::correlation},
    {"device", &KnownArgs::device},
    {"stream", &KnownArgs::stream},
    {"bytes", &KnownArgs::bytes},
    {"Bytes", &KnownArgs::bytes},
    {"kind", &KnownArgs::kind},
    {"Input Dims", &KnownArgs::dims},
    {"Input dims", &KnownArgs::dims},
    {"Input type", &KnownArgs::types},
    {"Input Strides", &KnownArgs::strides},
    {"Concrete Inputs", &KnownArgs::values},
    {"Sequence number", &KnownArgs::sequence},
    {"Call stack", &KnownArgs::call_stack},
    {"Module Hierarchy", &KnownArgs::module},
    {"grid", &KnownArgs::grid},
    {"block", &KnownArgs::block},
    {"registers per thread", &KnownArgs::registers},
    {"shared memory", &KnownArgs::shared_memory},
    {"Collective name", &KnownArgs::collective},
    {"In msg nelems", &KnownArgs::in_elements},
    {"In msg size", &KnownArgs::in_elements},
    {"Out msg nelems", &KnownArgs::out_elements},
    {"Out msg size", &KnownArgs::out_elements},
    {"dtype", &KnownArgs::dtype},
    {"Group size", &KnownArgs::group_size},
    {"Process Group Name", &KnownArgs::group},
    {"Device Id", &KnownArgs::device_id},
    {"Device Type", &KnownArgs::device_type},
    {"Total Allocated", &KnownArgs::allocated},
}};
constexpr ArgName kReservedName{"Total Reserved", &KnownArgs::reserved};

// Index of the names by length and first letter.
constexpr std::size_t kSlots = std::size_t{32} * 64;
constexpr std::size_t slot_of(std::string_view name) {
  return (name.size() % 32) * 64 + (static_cast<unsigned char>(name.front()) & 63U);
}

struct ArgIndex {
  std::array<std::uint8_t, kSlots> first{};  // 1 + index into kArgNames; 0 = none
  std::array<std::uint8_t, kArgNames.size() + 1> next{};
};

constexpr ArgIndex kArgIndex = [] {
  ArgIndex index;
  for (std::size_t i = 0; i < kArgNames.size(); ++i) {
    std::uint8_t& slot = index.first[slot_of(kArgNames[i].name)];
    index.next[i + 1] = slot;
    slot = static_cast<std::uint8_t>(i + 1);
  }
  return index;
}();

std::uint32_t count_in(std::string_view value) {
  const auto number = integer_in(value);
  const bool fits = number && *number >= 0 && *number <= std::numeric_limits<std::uint32_t>::max();
  return fits ? static_cast<std::uint32_t>(*number) : 0;
}

std::array<std::uint32_t, 3> triple_in(std::string_view list) {
  std::array<std::uint32_t, 3> triple{};
  std::size_t i = 0;
  each_element(list, [&](std::string_view value) {
    if (i < triple.size()) triple[i++] = count_in(value);
  });
  return triple;
}

// A shape; empty for a list of shapes, or anything else that is no list of numbers.
std::vector<std::int64_t> extents_in(std::string_view list) {
  std::vector<std::int64_t> extents;
  bool are_numbers = true;
  each_element(list, [&](std::string_view value) {
    const auto number = integer_in(value);
    are_numbers = are_numbers && number.has_value();
    if (are_numbers) extents.push_back(*number);
  });
  return are_numbers ? extents : std::vector<std::int64_t>();
}

std::vector<std::vector<std::int64_t>> shapes_in(std::string_view list) {
  std::vector<std::vector<std::int64_t>> shapes;
  each_element(list, [&](std::string_view value) {
    if (shapes.size() < kMostOpArguments) shapes.push_back(extents_in(value));
  });
  return shapes;
}

// A list of tensors has no value; its sizes take that place.
void keep_lists(std::string_view dims, std::vector<std::string>& values) {
  std::size_t argument = 0;
  each_element(dims, [&](std::string_view sizes) {
    const bool is_list = sizes.size() <= kLongestList && sizes.find('[', 1) != sizes.npos &&
                         sizes.find_first_not_of("[]0123456789, \n") == sizes.npos;
    if (is_list && argument < values.size() && values[argument].empty()) values[argument] = sizes;
    ++argument;
  });
}

std::vector<std::string> texts_in(std::string_view list) {
  std::vector<std::string> texts;
  each_element(list, [&](std::string_view value) {
    if (texts.size() < kMostOpArguments) texts.push_back(decoded(unquoted(value)));
  });
  return texts;
}

// The row of a value in a table of distinct ones; 0 beyond the bound.
template <class Value>
std::uint32_t row_in(std::map<Value, std::uint32_t>& rows, std::vector<Value>& table, Value value,
                     std::size_t most_rows) {
  if (value == Value{}) return 0;
  const auto found = rows.find(value);
  if (found != rows.end()) return found->second;
  if (table.size() >= most_rows) return 0;
  const auto row = static_cast<std::uint32_t>(table.size());
  rows.emplace(value, row);
  table.push_back(std::move(value));
  return row;
}

void join_parts(std::string& key, std::initializer_list<std::string_view> parts) {
  key.clear();
  for (const std::string_view part : parts) {
    key.append(part);
    key.push_back('\0');
  }
}

}  // namespace

KnownArgs known_args(const KinetoEvent& event) {
  KnownArgs args;
  for (const JsonMember& arg : event.args) {
    if (arg.key.empty()) continue;
    for (std::size_t i = kArgIndex.first[slot_of(arg.key)]; i != 0; i = kArgIndex.next[i]) {
      if (kArgNames[i - 1].name == arg.key) args.*kArgNames[i - 1].field = arg.value;
    }
    if (arg.key == kReservedName.name) args.reserved = arg.value;
  }
  return args;
}

OpArguments op_arguments_in(const KnownArgs& args) {
  OpArguments arguments{shapes_in(args.dims), shapes_in(args.strides), texts_in(args.types),
                        texts_in(args.values)};
  keep_lists(args.dims, arguments.values);
  return arguments;
}

LaunchShape launch_shape_in(const KnownArgs& args) {
  LaunchShape launch;
  launch.grid = triple_in(args.grid);
  launch.block = triple_in(args.block);
  launch.registers = count_in(args.registers);
  launch.shared_bytes = count_in(args.shared_memory);
  return launch;
}

CollectiveShape collective_shape_in(const KnownArgs& args) {
  CollectiveShape shape;
  shape.name = decoded(unquoted(args.collective));
  shape.dtype = decoded(unquoted(args.dtype));
  shape.group = decoded(unquoted(args.group));
  shape.in_elements = integer_in(args.in_elements).value_or(0);
  shape.out_elements = integer_in(args.out_elements).value_or(0);
  shape.group_size = integer_in(args.group_size).value_or(0);
  return shape;
}

CopyShape copy_shape_in(std::string_view name, const KnownArgs& args) {
  struct KindName {
    std::string_view cuda, hip;
    CopyKind kind;
  };
  static constexpr std::array<KindName, 5> kKinds{{
      {"HtoD", "HostToDevice", CopyKind::host_to_device},
      {"DtoH", "DeviceToHost", CopyKind::device_to_host},
      {"DtoD", "DeviceToDevice", CopyKind::device_to_device},
      {"PtoP", "PeerToPeer", CopyKind::peer_to_peer},
      {"HtoH", "HostToHost", CopyKind::host_to_host},
  }};
  CopyShape shape;
  const std::string_view hip_kind = unquoted(args.kind);
  for (const KindName& known : kKinds) {
    if (contains(name, known.cuda) || contains(name, known.hip) || contains(hip_kind, known.hip)) {
      shape.kind = known.kind;
      break;
    }
  }
  shape.pageable = contains(name, "Pageable");
  shape.bytes =
      static_cast<std::uint64_t>(std::max<std::int64_t>(integer_in(args.bytes).value_or(0), 0));
  return shape;
}

std::uint32_t ArgumentTables::arguments_of(const KnownArgs& args, SkippedRecords& skipped) {
  if (args.dims.empty() && args.types.empty()) return 0;
  join_parts(key_, {args.dims, args.types, args.strides, args.values});
  if (const std::uint32_t* const known = arguments_.find(key_)) return *known;
  OpArguments arguments = op_arguments_in(args);
  // Values can differ at each call, as step counts do; shapes cannot for long.
  const bool is_crowded = timeline_.arguments.size() >= kMostArgumentRows / 2;
  if (is_crowded) arguments.values.clear();
  const bool is_empty = arguments == OpArguments{};
  const std::uint32_t row =
      row_in(argument_rows_, timeline_.arguments, std::move(arguments), kMostArgumentRows);
  if (row == 0 && !is_empty) ++skipped["arguments of operators beyond 65536 different ones"];
  if (arguments_.has_room(key_)) arguments_.insert(key_, row);
  return row;
}

std::uint32_t ArgumentTables::row_of(const LaunchShape& launch) {
  return row_in(launch_rows_, timeline_.launches, launch, kMostSmallRows);
}

std::uint32_t ArgumentTables::collective_of(const KnownArgs& args) {
  if (args.collective.empty()) return 0;
  return row_in(collective_rows_, timeline_.collectives, collective_shape_in(args),
                kMostArgumentRows);
}

std::uint32_t ArgumentTables::launch_of(const KnownArgs& args, SkippedRecords& skipped) {
  if (args.grid.empty() && args.collective.empty()) return 0;
  join_parts(key_, {args.grid, args.block, args.registers, args.shared_memory, args.collective,
                    args.in_elements, args.out_elements, args.dtype, args.group_size, args.group});
  if (const std::uint32_t* const known = launches_.find(key_)) return *known;
  LaunchShape launch = launch_shape_in(args);
  launch.collective = collective_of(args);
  const std::uint32_t row = row_of(launch);
  if (row == 0 && launch != LaunchShape{}) ++skipped["launch shapes beyond 2^20 different ones"];
  if (launches_.has_room(key_)) launches_.insert(key_, row);
  return row;
}

std::uint32_t ArgumentTables::copy_of(std::string_view name, const KnownArgs& args,
                                      SkippedRecords& skipped) {
  const CopyShape shape = copy_shape_in(name, args);
  const std::uint32_t row = row_in(copy_rows_, timeline_.copies, shape, kMostSmallRows);
  if (row == 0 && shape != CopyShape{}) ++skipped["copies beyond 2^20 different ones"];
  return row;
}

}  // namespace rooftile
