#include "gpu/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <map>
#include <set>

#include "gpu/plan_files.h"
#include "rooftile/base/text.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile::gpu {
namespace {

// From lines of the text form; the plans below are all well-formed, and a test says so.
void add(Plan& plan, const std::string& text, int sets) {
  const Result<Workload> workload = parse_workload(text);
  assert(workload.has_value());
  if (!workload) return;
  for (const Op& op : workload->ops) {
    PlanItem item = workload_item(op);
    item.op.name = op.name;
    item.rotation.sets = sets;
    plan.push_back(std::move(item));
  }
}

struct Size {
  std::int64_t m, n, k;
};

std::vector<Size> calibration_shapes() {
  std::vector<Size> sizes;
  for (const EmbeddedFile& file : embedded_plans()) {
    if (file.name != "gemm_shapes") continue;
    for (const std::string_view line : split(file.text, '\n')) {
      const std::vector<std::string_view> words = split(trim(line), ' ');
      if (words.size() != 3 || line.starts_with('#')) continue;
      const auto m = parse_integer(words[0]), n = parse_integer(words[1]),
                 k = parse_integer(words[2]);
      if (m && n && k) sizes.push_back({*m, *n, *k});
    }
  }
  return sizes;
}

// The precision that networks on this GPU use.
std::string_view usual_dtype(const Device& device) {
  if (device.has_tensor_cores(Dtype::bf16)) return "bf16";
  return device.has_tensor_cores(Dtype::fp16) ? "fp16" : "fp32";
}

void add_products(Plan& plan, std::string_view group, std::string_view dtype, std::size_t count) {
  const std::vector<Size> shapes = calibration_shapes();
  for (std::size_t i = 0; i < std::min(count, shapes.size()); ++i) {
    const auto& [m, n, k] = shapes[i];
    add(plan, fmt::format("gemm {} {} m={} n={} k={}", group, dtype, m, n, k), kCalibrationSets);
  }
}

// Sizes from well inside L2 to far beyond it.
constexpr std::string_view kStreams[] = {
    "elementwise stream {0} fn=add elements=67108864 inputs=2",
    "softmax stream {0} rows=16384 cols=2048",
    "norm stream {0} fn=layer rows=16384 cols=4096",
    "layout stream {0} elements=33554432 perm=0x2x1",
    "cast stream fp32 out_dtype={0} elements=33554432",
    "elementwise stream {0} fn=relu elements=1048576",
    "embedding stream {0} vocab=50304 width=1024 lookups=16384",
    "reduce stream {0} fn=sum elements=33554432 outputs=16384",
    "elementwise stream {0} fn=relu elements=8388608",
    "softmax stream {0} rows=4096 cols=512",
    "norm stream {0} fn=rms rows=2048 cols=4096",
    "elementwise stream {0} fn=add elements=65536 inputs=2",
};

void add_streams(Plan& plan, std::string_view dtype) {
  for (const std::string_view text : kStreams) {
    add(plan, fmt::format(fmt::runtime(text), dtype), 0);
  }
}

// In turn from each group, so that a cut run has seen all of them.
Plan interleaved(Plan plan) {
  std::vector<std::string> order;
  std::map<std::string, Plan> groups;
  for (PlanItem& item : plan) {
    if (!groups.contains(item.group())) order.push_back(item.group());
    Plan& group = groups[item.group()];
    group.push_back(std::move(item));
  }
  Plan mixed;
  for (std::size_t i = 0; mixed.size() < plan.size(); ++i) {
    for (const std::string& group : order) {
      if (i < groups[group].size()) mixed.push_back(std::move(groups[group][i]));
    }
  }
  return mixed;
}

using AddSweep = void (*)(Plan& plan, const Device& device);

constexpr std::int64_t kOffsets[] = {0, 1, 2, 4, 8, 16, 32, 64};

std::vector<std::string_view> product_dtypes(const Device& device) {
  std::vector<std::string_view> dtypes;
  for (const Dtype dtype : {Dtype::fp16, Dtype::bf16, Dtype::tf32, Dtype::fp8, Dtype::int8}) {
    if (device.has_tensor_cores(dtype)) dtypes.push_back(to_string(dtype));
  }
  dtypes.push_back("fp32");
  return dtypes;
}

// Each leading dimension alone, through its stride, and then each dimension of the product in
// each layout.
void add_alignment(Plan& plan, const Device& device) {
  for (const std::string_view dtype : product_dtypes(device)) {
    for (const std::int64_t off : kOffsets) {
      for (const std::string_view stride : {"x_stride", "w_stride", "out_stride"}) {
        add(plan,
            fmt::format("gemm {0} {1} m=4096 n=4096 k=4096 {0}={2}", stride, dtype, 4096 + off), 0);
      }
      for (const std::string_view layout : {"nt", "nn", "tn"}) {
        add(plan,
            fmt::format("gemm m_{0} {1} m={2} n=4096 k=4096 layout={0}\n"
                        "gemm n_{0} {1} m=4096 n={2} k=4096 layout={0}\n"
                        "gemm k_{0} {1} m=4096 n=4096 k={2} layout={0}",
                        layout, dtype, 4096 - off),
            0);
      }
    }
  }
}

void add_waves(Plan& plan, const Device& device) {
  const std::string_view dtype = usual_dtype(device);
  for (const std::int64_t k : {4096, 1024}) {
    for (std::int64_t m = 256; m <= 8192; m += 128) {
      add(plan, fmt::format("gemm waves_m_k{2} {0} m={1} n=4096 k={2}", dtype, m, k), 0);
    }
    for (std::int64_t n = 256; n <= 12288; n += 256) {
      add(plan, fmt::format("gemm waves_n_k{2} {0} m=4096 n={1} k={2}", dtype, n, k), 0);
    }
  }
}

void add_vocabulary(Plan& plan, const Device& device) {
  const std::string_view dtype = usual_dtype(device);
  for (const std::int64_t vocabulary : {50257, 50264, 50272, 50304, 50432, 51200, 32000, 33278,
                                        33280, 30522, 30528, 128256, 151936}) {
    for (const auto& [tokens, hidden] : {std::pair(8192, 768), std::pair(4096, 4096)}) {
      for (const std::string_view phase : {"forward", "dgrad", "wgrad"}) {
        add(plan,
            fmt::format("gemm vocabulary_{0} {1} m={2} n={3} k={4} phase={0}", phase, dtype, tokens,
                        vocabulary, hidden),
            0);
      }
    }
  }
}

// The products of attention with its scores in memory. Fused attention is not measured.
void add_attention(Plan& plan, const Device& device) {
  const std::string_view dtype = usual_dtype(device);
  for (const std::int64_t length : {511, 512, 1023, 1024, 2048}) {
    for (const std::int64_t head : {48, 64, 65, 80, 96, 128}) {
      add(plan,
          fmt::format("gemm scores {0} batch=96 m={1} n={1} k={2} weight=activation\n"
                      "gemm values {0} batch=96 m={1} n={2} k={1} layout=nn weight=activation\n"
                      "softmax probabilities {0} rows={3} cols={1}",
                      dtype, length, head, 96 * length),
          0);
    }
  }
}

std::vector<std::string_view> convolution_dtypes(const Device& device) {
  std::vector<std::string_view> dtypes;
  for (const Dtype dtype : {Dtype::fp16, Dtype::bf16}) {
    if (device.has_tensor_cores(dtype)) dtypes.push_back(to_string(dtype));
  }
  dtypes.push_back("fp32");
  return dtypes;
}

// `dims` in every layout, phase and precision.
void add_convolutions(Plan& plan, const Device& device, std::string_view group,
                      const std::vector<std::string>& dims) {
  for (const std::string& shape : dims) {
    for (const std::string_view dtype : convolution_dtypes(device)) {
      for (const std::string_view layout : {"nhwc", "nchw"}) {
        for (const std::string_view phase : {"forward", "dgrad", "wgrad"}) {
          add(plan,
              fmt::format("conv {}_{}_{} {} {} layout={} phase={}", group, layout, phase, dtype,
                          shape, layout, phase),
              0);
        }
      }
    }
  }
}

void add_convolution(Plan& plan, const Device& device) {
  add_convolutions(
      plan, device, "conv",
      {"n=64 c=64 k=64 in=56x56 kernel=3x3 pad=1", "n=64 c=64 k=256 in=56x56 kernel=1x1",
       "n=64 c=128 k=128 in=28x28 kernel=3x3 pad=1", "n=64 c=256 k=256 in=14x14 kernel=3x3 pad=1",
       "n=64 c=512 k=512 in=7x7 kernel=3x3 pad=1", "n=64 c=512 k=2048 in=7x7 kernel=1x1",
       "n=32 c=1024 k=1024 in=14x14 kernel=3x3 stride=2 pad=1",
       "n=64 c=250 k=250 in=14x14 kernel=3x3 pad=1", "n=64 c=57 k=57 in=56x56 kernel=3x3 pad=1",
       "n=64 c=256 k=256 in=28x28 kernel=3x3 pad=1 groups=256",
       "n=64 c=256 k=256 in=28x28 kernel=3x3 pad=1 groups=32"});
}

void add_channels(Plan& plan, const Device& device) {
  std::vector<std::string> dims;
  for (const int channels : {1, 3, 4, 8, 16}) {
    dims.push_back(fmt::format("n=64 c={} k=64 in=224x224 kernel=7x7 stride=2 pad=3", channels));
    dims.push_back(fmt::format("n=64 c={} k=32 in=224x224 kernel=3x3 stride=2 pad=1", channels));
  }
  add_convolutions(plan, device, "channels", dims);
}

void add_memory(Plan& plan, const Device& device) {
  const std::string_view dtype = usual_dtype(device);
  for (int bits = 12; bits <= 28; bits += 2) {
    const std::int64_t size = std::int64_t{1} << bits;
    add(plan,
        fmt::format("elementwise copy {0} fn=copy elements={1}\n"
                    "elementwise triad {0} fn=add elements={1} inputs=2\n"
                    "layout transpose {0} elements={1} perm=0x2x1\n"
                    "cast cast fp32 out_dtype={0} elements={1}",
                    dtype, size),
        0);
  }
  for (const std::int64_t columns : {64, 256, 768, 1024, 4096, 12288, 50257}) {
    for (const std::int64_t rows : {64, 1024, 16384}) {
      add(plan,
          fmt::format("softmax softmax {0} rows={1} cols={2}\n"
                      "norm layer_norm {0} fn=layer rows={1} cols={2}\n"
                      "norm rms_norm {0} fn=rms rows={1} cols={2}",
                      dtype, rows, columns),
          0);
    }
  }
}

struct NamedSweep {
  Sweep sweep;
  AddSweep add;
};

constexpr NamedSweep kSweeps[] = {
    {{"alignment", "every class of each leading dimension, in each precision"}, add_alignment},
    {{"waves", "rows and columns across the steps of wave quantization"}, add_waves},
    {{"vocabulary", "output layers with and without padding, forward and backward"},
     add_vocabulary},
    {{"attention", "the products and the softmax of unfused attention"}, add_attention},
    {{"convolution", "common layers in NHWC and NCHW, forward and backward"}, add_convolution},
    {{"channels", "first layers of 1 to 16 channels in NHWC and NCHW"}, add_channels},
    {{"memory", "copies, transposes, casts, softmax and norms by size"}, add_memory},
};

}  // namespace

Plan calibration_plan(std::size_t points, const Device& device) {
  constexpr std::size_t kWithFp32 = 50;
  Plan plan;
  const std::string_view dtype = usual_dtype(device);
  add_products(plan, "products", dtype, points);
  add_streams(plan, dtype == "fp32" ? "fp16" : dtype);
  if (points >= kWithFp32 && dtype != "fp32") add_products(plan, "fp32", "fp32", kQuickPoints);
  return interleaved(std::move(plan));
}

std::vector<Sweep> sweeps() {
  std::vector<Sweep> all;
  for (const NamedSweep& entry : kSweeps) all.push_back(entry.sweep);
  return all;
}

Result<Plan> sweep_plan(std::string_view name, const Device& device) {
  std::vector<std::string> names;
  for (const NamedSweep& entry : kSweeps) {
    names.emplace_back(entry.sweep.name);
    if (entry.sweep.name != name) continue;
    Plan plan;
    entry.add(plan, device);
    return interleaved(std::move(plan));
  }
  return fail(
      fmt::format("no sweep {}, expected one of {}", rooftile::quoted(name), join(names, ", ")));
}

std::string operation_text(const Op& op) {
  constexpr std::string_view kPhases[] = {"forward", "dgrad", "wgrad", "optimizer"};
  std::string text = fmt::format("{} {} {} {}", kind_name(op.body), op.name.empty() ? "_" : op.name,
                                 to_string(op.dtypes.input), dims_text(op.body));
  if (op.dtypes.weight != op.dtypes.input) {
    text += fmt::format(" weight_dtype={}", to_string(op.dtypes.weight));
  }
  if (op.dtypes.output != op.dtypes.input) {
    text += fmt::format(" out_dtype={}", to_string(op.dtypes.output));
  }
  if (op.phase != Phase::forward) {
    text += fmt::format(" phase={}", kPhases[static_cast<std::size_t>(op.phase)]);
  }
  return text;
}

PlanItem workload_item(const Op& op) {
  PlanItem item;
  item.op.name = "workload";
  item.op.body = op.body;
  item.op.dtypes = op.dtypes;
  item.op.phase = op.phase;
  return item;
}

Plan workload_plan(const Workload& workload) {
  Plan plan;
  std::set<std::string> seen;
  for (const Op& op : workload.ops) {
    PlanItem item = workload_item(op);
    if (seen.insert(operation_text(item.op)).second) plan.push_back(std::move(item));
  }
  return plan;
}

}  // namespace rooftile::gpu
