#include "rooftile/readers/kineto/trace_header.h"

#include "rooftile/formats/kineto/json_values.h"
#include "rooftile/readers/kineto/event_class.h"

namespace rooftile {
namespace {

constexpr std::size_t kMostDevices = 1024;
constexpr int kMostSms = 1024;

int small_number(std::string_view value) {
  const auto number = integer_in(value);
  return number && *number >= 0 && *number < 1'000'000 ? static_cast<int>(*number) : 0;
}

TraceDevice device_in(std::string_view object) {
  TraceDevice device;
  each_member(object, [&](std::string_view key, std::string_view value) {
    if (key == "id") device.id = small_number(value);
    if (key == "name") device.name = decoded(unquoted(value));
    if (key == "totalGlobalMem") {
      const auto bytes = integer_in(value);
      device.memory_bytes = bytes && *bytes > 0 ? static_cast<std::uint64_t>(*bytes) : 0;
    }
    // Some recorders write another number as numSms.
    const bool is_sms = key == "multiProcessorCount" || (key == "numSms" && device.sm_count == 0);
    if (is_sms && small_number(value) <= kMostSms) device.sm_count = small_number(value);
    if (key == "computeMajor") device.major = small_number(value);
    if (key == "computeMinor") device.minor = small_number(value);
  });
  return device;
}

void add_devices(std::string_view list, TraceHeader& header) {
  each_element(list, [&](std::string_view object) {
    if (!object.starts_with('{') || header.devices.size() == kMostDevices) return;
    header.devices.push_back(device_in(object));
    header.is_foreign = header.is_foreign || is_foreign_device(header.devices.back().name);
  });
}

void add_distributed_info(std::string_view object, TraceHeader& header) {
  each_member(object, [&](std::string_view key, std::string_view value) {
    if (key == "rank") header.rank = integer_in(value);
    if (key == "world_size") header.world_size = integer_in(value);
  });
}

bool is_set(std::string_view value) { return value == "true" || integer_in(value).value_or(0) > 0; }

}  // namespace

void TraceHeader::add(std::string_view key, std::string_view value) {
  // "computeProperties" in traces of 2021.
  if (key == "deviceProperties" || key == "computeProperties") add_devices(value, *this);
  if (key == "distributedInfo") add_distributed_info(value, *this);
  if (key == "record_shapes") with_shapes = is_set(value);
  if (key == "with_stack") with_stack = is_set(value);
  if (key == "profile_memory") with_memory = is_set(value);
  if (key == "baseTimeNanoseconds") base = integer_in(value).value_or(0);
  if (key == "hip_runtime_version" || key == "roctracer_version") is_foreign = true;
}

}  // namespace rooftile
