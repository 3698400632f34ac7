#include "rooftile/workload/trace_names.h"

#include <array>
#include <cstddef>
#include <span>

namespace rooftile {
namespace {

// In the order of the enumerators; a test reads each back.
constexpr std::array<std::string_view, 17> kIdleCauses{
    "launch",    "synchronization", "data_loading",   "communication_wait", "allocator",
    "copy",      "host_work",       "module_loading", "between_kernels",    "unrecorded_work",
    "restart",   "start_up",        "outside",        "profiler",           "asleep",
    "migration", "unknown"};
constexpr std::array<std::string_view, 7> kStepSources{
    "none", "profiler_step", "user_range", "engine", "optimizer", "data_loader", "repetition"};
constexpr std::array<std::string_view, 20> kStepParts{"compute",
                                                      "exposed_communication",
                                                      "exposed_copy",
                                                      "idle.launch",
                                                      "idle.synchronization",
                                                      "idle.data_loading",
                                                      "idle.communication_wait",
                                                      "idle.allocator",
                                                      "idle.copy",
                                                      "idle.host_work",
                                                      "idle.module_loading",
                                                      "idle.between_kernels",
                                                      "idle.unrecorded_work",
                                                      "idle.restart",
                                                      "idle.start_up",
                                                      "idle.outside",
                                                      "idle.profiler",
                                                      "idle.asleep",
                                                      "idle.migration",
                                                      "idle.unknown"};
constexpr std::array<std::string_view, 14> kPathKinds{
    "compute",      "communication",      "copy",      "launch",         "host",
    "data_loading", "communication_wait", "allocator", "module_loading", "pause",
    "unrecorded",   "profiler",           "asleep",    "unknown"};
constexpr std::array<std::string_view, 7> kRemedies{
    "ideal_loader",        "no_synchronization",   "batched_launches", "no_allocation",
    "asynchronous_copies", "hidden_communication", "fused_optimizer"};
constexpr std::array<std::string_view, 8> kCopyKinds{
    "unknown",      "host_to_device", "device_to_host",      "device_to_device",
    "peer_to_peer", "host_to_host",   "migration_to_device", "migration_to_host"};
constexpr std::array<std::string_view, 4> kServingStages{"none", "prefill", "decode", "mixed"};
constexpr std::array<std::string_view, 24> kKernelClasses{
    "unknown", "gemm",          "convolution", "attention",         "recurrent",    "normalization",
    "softmax", "elementwise",   "reduction",   "layout_conversion", "cast",         "copy",
    "fill",    "embedding",     "pooling",     "optimizer",         "loss_scaling", "sort",
    "random",  "communication", "sparse",      "indexing",          "quantize",     "other"};
constexpr std::array<std::string_view, 4> kDirections{"unknown", "forward", "dgrad", "wgrad"};

static_assert(static_cast<std::size_t>(IdleCause::unknown) + 1 == kIdleCauses.size());
static_assert(static_cast<std::size_t>(StepSource::repetition) + 1 == kStepSources.size());
static_assert(static_cast<std::size_t>(StepPart::idle_unknown) + 1 == kStepParts.size());
static_assert(part_of(IdleCause::unknown) == StepPart::idle_unknown);
static_assert(static_cast<std::size_t>(PathKind::unknown) + 1 == kPathKinds.size());
static_assert(static_cast<std::size_t>(Remedy::fused_optimizer) + 1 == kRemedies.size());
static_assert(static_cast<std::size_t>(CopyKind::migration_to_host) + 1 == kCopyKinds.size());
static_assert(static_cast<std::size_t>(ServingStage::mixed) + 1 == kServingStages.size());
static_assert(static_cast<std::size_t>(KernelClass::other) + 1 == kKernelClasses.size());
static_assert(static_cast<std::size_t>(KernelDirection::wgrad) + 1 == kDirections.size());

template <class Enum>
std::string_view spelled(std::span<const std::string_view> names, Enum value) {
  const auto index = static_cast<std::size_t>(value);
  return index < names.size() ? names[index] : "unknown";
}

template <class Enum>
std::optional<Enum> enumerator(std::span<const std::string_view> names, std::string_view name) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view name_of(IdleCause cause) { return spelled(kIdleCauses, cause); }
std::string_view name_of(StepSource source) { return spelled(kStepSources, source); }
std::string_view name_of(StepPart part) { return spelled(kStepParts, part); }
std::string_view name_of(PathKind kind) { return spelled(kPathKinds, kind); }
std::string_view name_of(Remedy remedy) { return spelled(kRemedies, remedy); }
std::string_view name_of(CopyKind kind) { return spelled(kCopyKinds, kind); }
std::string_view name_of(ServingStage stage) { return spelled(kServingStages, stage); }
std::string_view name_of(KernelClass kernel_class) { return spelled(kKernelClasses, kernel_class); }
std::string_view name_of(KernelDirection direction) { return spelled(kDirections, direction); }

template <>
std::optional<IdleCause> parse_name<IdleCause>(std::string_view name) {
  return enumerator<IdleCause>(kIdleCauses, name);
}
template <>
std::optional<StepSource> parse_name<StepSource>(std::string_view name) {
  return enumerator<StepSource>(kStepSources, name);
}
template <>
std::optional<StepPart> parse_name<StepPart>(std::string_view name) {
  return enumerator<StepPart>(kStepParts, name);
}
template <>
std::optional<PathKind> parse_name<PathKind>(std::string_view name) {
  return enumerator<PathKind>(kPathKinds, name);
}
template <>
std::optional<Remedy> parse_name<Remedy>(std::string_view name) {
  return enumerator<Remedy>(kRemedies, name);
}
template <>
std::optional<CopyKind> parse_name<CopyKind>(std::string_view name) {
  return enumerator<CopyKind>(kCopyKinds, name);
}
template <>
std::optional<ServingStage> parse_name<ServingStage>(std::string_view name) {
  return enumerator<ServingStage>(kServingStages, name);
}
template <>
std::optional<KernelClass> parse_name<KernelClass>(std::string_view name) {
  return enumerator<KernelClass>(kKernelClasses, name);
}
template <>
std::optional<KernelDirection> parse_name<KernelDirection>(std::string_view name) {
  return enumerator<KernelDirection>(kDirections, name);
}

}  // namespace rooftile
