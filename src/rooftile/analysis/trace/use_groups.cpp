#include "rooftile/analysis/trace/use_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "rooftile/analysis/trace/gain.h"
#include "rooftile/base/mangled_name.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/base/text.h"

namespace rooftile {
namespace {

constexpr std::size_t kMostShapes = 3;  // tensors told of one operator
constexpr std::size_t kMostAxes = 8;    // sizes told of one tensor
constexpr std::size_t kLongestName = 60;

std::optional<Dtype> dtype_of(std::string_view type) {
  if (type == "float") return Dtype::fp32;
  if (type == "double") return Dtype::fp64;
  if (type == "c10::Half") return Dtype::fp16;
  if (type == "c10::BFloat16") return Dtype::bf16;
  return std::nullopt;
}

struct Gathered {
  UseGroup group;
  std::map<std::string_view, std::pair<const KernelUse*, Seconds>> by_name;
};

void add(Gathered& to, const OpUse* use, const KernelUse& kernel) {
  UseGroup& group = to.group;
  auto& [one, time] = to.by_name[kernel.name];
  one = &kernel;
  time += kernel.time;
  group.kernels += kernel.count;
  group.time += kernel.time;
  if (use != nullptr && (group.uses.empty() || group.uses.back() != use)) group.uses.push_back(use);
}

UseGroup finished(Gathered& gathered, double window_part) {
  UseGroup& group = gathered.group;
  const auto longest = std::ranges::max_element(
      gathered.by_name, {}, [](const auto& each) { return each.second.second; });
  group.kernel = longest->second.first;
  group.names = gathered.by_name.size();
  group.kernel_share = group.time > Seconds() ? longest->second.second / group.time : 1.0;
  group.window_part = window_part;
  group.time = group.time * window_part;
  return std::move(group);
}

}  // namespace

std::string shape_text(const OpArguments& arguments) {
  std::vector<std::string> tensors;
  for (const std::vector<std::int64_t>& dims : arguments.dims) {
    if (tensors.size() == kMostShapes) break;
    if (dims.size() > kMostAxes) continue;
    if (std::all_of(dims.begin(), dims.end(), [](std::int64_t size) { return size == 1; }))
      continue;
    tensors.push_back(fmt::format("{}", fmt::join(dims, "x")));
  }
  return join(tensors, ", ");
}

std::vector<UseGroup> group_by_shape(const TraceSummary& trace, const KernelTest& wanted) {
  std::map<std::pair<std::string, std::string>, Gathered> groups;
  for (const OpUse& use : trace.ops) {
    for (const KernelUse& kernel : use.kernels) {
      if (!wanted(&use, kernel)) continue;
      std::string shape = shape_text(use.arguments);
      Gathered& gathered = groups[{use.name, shape}];
      gathered.group.name = use.name;
      gathered.group.shape = std::move(shape);
      add(gathered, &use, kernel);
    }
  }
  for (const KernelUse& kernel : trace.orphans) {
    if (wanted(nullptr, kernel)) add(groups[{"", kernel.name}], nullptr, kernel);
  }
  std::vector<UseGroup> sorted;
  for (auto& [key, gathered] : groups) sorted.push_back(finished(gathered, table_part(trace)));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const UseGroup& a, const UseGroup& b) { return a.time > b.time; });
  return sorted;
}

Seconds time_of_kernels(const TraceSummary& trace, const KernelTest& wanted) {
  Seconds time;
  for (const OpUse& use : trace.ops) {
    for (const KernelUse& kernel : use.kernels) {
      if (wanted(&use, kernel)) time += kernel.time;
    }
  }
  for (const KernelUse& kernel : trace.orphans) {
    if (wanted(nullptr, kernel)) time += kernel.time;
  }
  return time * table_part(trace);
}

bool is_matrix_kernel(const KernelUse& kernel) {
  return kernel.facts.kernel_class == KernelClass::gemm ||
         kernel.facts.kernel_class == KernelClass::convolution;
}

bool is_vector_kernel(const KernelUse& kernel) {
  const std::string name = lower(kernel.name);
  return name.find("gemv") != std::string::npos || name.find("dot_kernel") != std::string::npos;
}

bool uses_openmp(const TraceSummary& trace) {
  return std::ranges::any_of(trace.orphans, [](const KernelUse& kernel) {
    return kernel.name.starts_with("__omp_offloading_");
  });
}

bool is_compiled_range(std::string_view name) {
  return name.starts_with("Torch-Compiled Region") || contains(name, "CompiledFunction");
}

bool uses_compiler(const TraceSummary& trace) {
  return std::ranges::any_of(trace.path.parts,
                             [](const PathPart& part) { return is_compiled_range(part.name); });
}

bool uses_torch(const TraceSummary& trace) {
  const auto is_torch = [](const KernelUse& kernel) { return kernel.facts.library == "pytorch"; };
  const auto names_torch = [](const std::string& name) {
    return name.starts_with("aten::") || name.starts_with("c10d::");
  };
  // Kineto is PyTorch's profiler.
  return trace.format == "Kineto" || trace.steps.source == StepSource::profiler_step ||
         std::ranges::any_of(trace.orphans, is_torch) ||
         std::ranges::any_of(trace.copies,
                             [&](const CopyUse& copy) { return names_torch(copy.site.op); }) ||
         std::ranges::any_of(trace.syncs,
                             [&](const SyncUse& sync) { return names_torch(sync.site.op); }) ||
         std::ranges::any_of(trace.ops, [&](const OpUse& use) {
           return names_torch(use.name) || std::ranges::any_of(use.kernels, is_torch);
         });
}

bool is_own_kernel(const KernelUse& kernel) {
  const std::string_view name = std::string_view(kernel.name).substr(0, kernel.name.find('('));
  const bool is_function = name.find_first_of("<:") == std::string_view::npos;
  return kernel.facts.library.empty() &&
         (kernel.facts.kernel_class == KernelClass::unknown || is_function);
}

bool slows_host(const TraceSummary& trace) {
  return trace.has_stacks ||
         (trace.format == "Nsight Systems" && std::ranges::any_of(trace.ops, [](const OpUse& use) {
            return use.name.starts_with("aten::");
          }));
}

std::optional<Dtype> operand_dtype(const OpUse* use, const KernelUse& kernel) {
  if (kernel.facts.dtype) return kernel.facts.dtype;
  if (use == nullptr) return std::nullopt;
  for (const std::string& type : use->arguments.types) {
    if (const std::optional<Dtype> dtype = dtype_of(type)) return dtype;
  }
  return std::nullopt;
}

std::string kernels_text(const UseGroup& group) {
  const std::string name = short_kernel_name(group.kernel->name);
  if (group.names == 1) return "kernel " + name;
  return fmt::format("{} kernels, the longest {} ({})", group.names, name,
                     share_text(group.kernel_share));
}

std::string short_kernel_name(std::string_view name) {
  return quoted(function_of_kernel(name), kLongestName);
}

}  // namespace rooftile
