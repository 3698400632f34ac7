#include "rooftile/readers/kineto/event_class.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "rooftile/base/text.h"
#include "rooftile/formats/kineto/json_values.h"

namespace rooftile {
namespace {

struct NamedClass {
  std::string_view name;
  EventClass event_class;
};

// libkineto/include/ActivityType.h of pytorch/kineto, and the names before 2022.
constexpr std::array<NamedClass, 41> kCategories{{
    {"cpu_op", EventClass::op},
    {"operator", EventClass::op},
    {"python_function", EventClass::python},
    {"cuda_runtime", EventClass::call},
    {"cuda_driver", EventClass::call},
    {"runtime", EventClass::call},
    {"kernel", EventClass::kernel},
    {"ac2g", EventClass::unused},
    {"user_annotation", EventClass::annotation},
    {"gpu_memcpy", EventClass::copy},
    {"gpu_memset", EventClass::fill},
    {"memcpy", EventClass::copy},
    {"memset", EventClass::fill},
    {"concurrent_kernel", EventClass::kernel},
    {"cpu_instant_event", EventClass::memory},
    {"hip_runtime", EventClass::foreign_call},
    {"privateuse1_runtime", EventClass::foreign_call},
    {"privateuse1_driver", EventClass::foreign_call},
    {"xpu_runtime", EventClass::foreign_call},
    {"xpu_driver", EventClass::foreign_call},
    {"mtia_runtime", EventClass::foreign_call},
    {"glow_runtime", EventClass::foreign_call},
    {"fwdbwd", EventClass::unused},
    {"forward_backward", EventClass::unused},
    {"async", EventClass::unused},
    {"async_gpu", EventClass::unused},
    {"async_cpu_to_gpu", EventClass::unused},
    {"gpu_user_annotation", EventClass::unused},
    {"external_correlation", EventClass::unused},
    {"overhead", EventClass::overhead},
    {"trace", EventClass::unused},
    {"cuda_sync", EventClass::unused},
    {"cuda_event", EventClass::unused},
    {"cuda_profiler_range", EventClass::unused},
    {"mtia_insight", EventClass::unused},
    {"mtia_ccp_events", EventClass::unused},
    {"mtia_workloadd", EventClass::unused},
    {"hpu_op", EventClass::unused},
    {"itt", EventClass::unused},
    {"critical_path", EventClass::unused},
    {"collective_comm", EventClass::unused},
}};

EventClass class_of_category(std::string_view category) {
  // Asked for each event: the exact spellings first.
  for (const NamedClass& known : kCategories) {
    if (known.name == category) return known.event_class;
  }
  const std::string name = lower(category);
  for (const NamedClass& known : kCategories) {
    if (known.name == name) return known.event_class;
  }
  return EventClass::unknown;
}

bool has_arg(const KinetoEvent& event, std::string_view key) {
  return std::any_of(event.args.begin(), event.args.end(),
                     [&](const JsonMember& arg) { return arg.key == key; });
}

EventClass class_of_gpu_name(std::string_view name) {
  if (name.starts_with("Memcpy")) return EventClass::copy;
  if (name.starts_with("Memset")) return EventClass::fill;
  return EventClass::kernel;
}

bool is_runtime_name(std::string_view name) {
  const auto upper = [&](std::size_t i) {
    return name.size() > i && std::isupper(static_cast<unsigned char>(name[i])) != 0;
  };
  return (name.starts_with("cuda") && upper(4)) || (name.starts_with("cu") && upper(2)) ||
         (name.starts_with("hip") && upper(3));
}

// The exporter of the profiler before Kineto (torch 1.8) wrote no categories.
EventClass class_without_category(const KinetoEvent& event) {
  const std::string_view name = unquoted(event.name);
  const std::string_view process = unquoted(event.process);
  if (process == "CUDA functions") return class_of_gpu_name(name);
  if (has_arg(event, "stream") && has_arg(event, "device")) return class_of_gpu_name(name);
  if (is_runtime_name(name) && has_arg(event, "correlation")) return EventClass::call;
  if (process == "CPU functions" || name.starts_with("aten::")) return EventClass::op;
  return EventClass::unknown;
}

}  // namespace

EventClass class_of(const KinetoEvent& event) {
  const std::string_view phase = unquoted(event.phase);
  if (phase.size() != 1) return EventClass::unknown;
  switch (phase.front()) {
    case 'X':
      return event.category.empty() ? class_without_category(event)
                                    : class_of_category(unquoted(event.category));
    case 'i':
    case 'I':
      return unquoted(event.name) == "[memory]" ? EventClass::memory : EventClass::unused;
    case 'M':  // metadata
    case 's':  // flows
    case 't':
    case 'f':
    case 'C':  // counters
      return EventClass::unused;
    default:
      return EventClass::unknown;
  }
}

bool is_annotation_name(std::string_view name) {
  static constexpr std::array<std::string_view, 4> kStarts{"ProfilerStep", "Optimizer.",
                                                           "enumerate(DataLoader)", "## "};
  return std::any_of(kStarts.begin(), kStarts.end(),
                     [&](std::string_view start) { return name.starts_with(start); });
}

bool is_foreign_kernel(std::string_view name) { return name.starts_with("Cijk_"); }

bool is_foreign_device(std::string_view name) {
  static constexpr std::array<std::string_view, 6> kMakers{"AMD", "Instinct", "Radeon",
                                                           "gfx", "Intel",    "Gaudi"};
  return std::any_of(kMakers.begin(), kMakers.end(), [&](std::string_view maker) {
    return name.find(maker) != std::string_view::npos;
  });
}

}  // namespace rooftile
