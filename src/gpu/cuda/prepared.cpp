#include "gpu/cuda/prepared.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace rooftile::gpu::cuda {
namespace {

constexpr Seconds kReplay{1.5e-3};
constexpr std::size_t kMostRuns = 400, kMostSets = 64, kTimesL2 = 3;

class Graph : public PreparedOp {
 public:
  Graph(Plumbing plumbing, Recipe recipe)
      : plumbing_(std::move(plumbing)), recipe_(std::move(recipe)) {}
  ~Graph() override;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  Result<void> allocate(const Rotation& rotation);
  Result<void> record();

  Result<Seconds> run() override;
  std::string kernel() const override { return kernel_; }

 private:
  const DriverFunctions& call() const { return plumbing_.driver->call(); }
  Result<void> check(Status status, const char* doing) const {
    return plumbing_.driver->check(status, doing);
  }
  Result<void> launch(std::size_t number);
  // Seconds of what `work` enqueues; `meanwhile` runs on the host in between.
  Result<Seconds> timed(const std::function<Result<void>()>& work,
                        const std::function<void()>& meanwhile);
  Result<void> capture(std::size_t runs);
  void note_kernels(GraphHandle graph);
  std::string name_of(GraphNodeHandle node) const;

  Plumbing plumbing_;
  Recipe recipe_;
  std::vector<DeviceMemory> memory_;
  std::vector<std::vector<DevicePointer>> sets_;
  DevicePointer workspace_ = 0;
  EventHandle start_ = nullptr, stop_ = nullptr;
  GraphExecHandle exec_ = nullptr;
  std::size_t runs_ = 1;
  std::string kernel_;
};

Graph::~Graph() {
  call().stream_synchronize(plumbing_.driver->stream());
  if (exec_ != nullptr) call().graph_exec_destroy(exec_);
  if (start_ != nullptr) call().event_destroy(start_);
  if (stop_ != nullptr) call().event_destroy(stop_);
}

Result<void> Graph::allocate(const Rotation& rotation) {
  std::size_t set_bytes = 0;
  for (const auto& buffer : recipe_.buffers) set_bytes += bytes_of(buffer);
  const std::size_t free = plumbing_.driver->free_bytes();
  const std::size_t left = free > recipe_.workspace_bytes ? free - recipe_.workspace_bytes : 0;
  const std::size_t sets = operand_sets(rotation.sets, set_bytes, plumbing_.l2_bytes, left);
  if (sets == 0) return fail(fmt::format("{} bytes of operands do not fit", set_bytes));
  auto workspace = DeviceMemory::allocate(plumbing_.driver, recipe_.workspace_bytes);
  if (!workspace) return tl::unexpected(workspace.error());
  workspace_ = workspace->pointer();
  memory_.push_back(std::move(*workspace));
  for (std::size_t set = 0; set < sets; ++set) {
    std::vector<DevicePointer>& pointers = sets_.emplace_back();
    for (const auto& buffer : recipe_.buffers) {
      auto memory = DeviceMemory::allocate(plumbing_.driver, bytes_of(buffer));
      if (!memory) return tl::unexpected(memory.error());
      pointers.push_back(memory->pointer());
      memory_.push_back(std::move(*memory));
      const auto filled = plumbing_.kernels->fill(buffer, pointers.back());
      if (!filled) return filled;
    }
  }
  return {};
}

Result<void> Graph::launch(std::size_t number) {
  return recipe_.launch(sets_[number % sets_.size()], workspace_);
}

Result<Seconds> Graph::timed(const std::function<Result<void>()>& work,
                             const std::function<void()>& meanwhile) {
  const StreamHandle stream = plumbing_.driver->stream();
  if (const auto done = check(call().event_record(start_, stream), "cuEventRecord"); !done) {
    return tl::unexpected(done.error());
  }
  const Result<void> worked = work();
  if (!worked) return tl::unexpected(worked.error());
  if (const auto done = check(call().event_record(stop_, stream), "cuEventRecord"); !done) {
    return tl::unexpected(done.error());
  }
  if (meanwhile) meanwhile();
  if (const auto done = check(call().event_synchronize(stop_), "cuEventSynchronize"); !done) {
    return tl::unexpected(done.error());
  }
  float milliseconds = 0;
  const auto done =
      check(call().event_elapsed_ms(&milliseconds, start_, stop_), "cuEventElapsedTime");
  if (!done) return tl::unexpected(done.error());
  return Seconds(static_cast<double>(milliseconds) * 1e-3);
}

Result<void> Graph::record() {
  for (EventHandle* event : {&start_, &stop_}) {
    const auto done = check(call().event_create(event, kEventDefault), "cuEventCreate");
    if (!done) return done;
  }
  for (std::size_t i = 0; i < std::min<std::size_t>(sets_.size(), 3); ++i) {
    if (const auto done = launch(i); !done) return done;
  }
  constexpr std::size_t kTrial = 3;
  const auto trial = timed(
      [&]() -> Result<void> {
        for (std::size_t i = 0; i < kTrial; ++i) {
          if (const auto done = launch(i); !done) return done;
        }
        return {};
      },
      nullptr);
  if (!trial) return tl::unexpected(trial.error());
  const double once = std::max(trial->value() / kTrial, 1e-6);
  const auto fitting = static_cast<std::size_t>(kReplay.value() / once);
  // Every set takes part equally often.
  const std::size_t rounds = std::max<std::size_t>(1, std::min(fitting, kMostRuns) / sets_.size());
  if (const auto done = capture(rounds * sets_.size()); !done) return done;
  const auto warm = run();
  if (!warm) return tl::unexpected(warm.error());
  return {};
}

Result<void> Graph::capture(std::size_t runs) {
  const StreamHandle stream = plumbing_.driver->stream();
  const auto begun =
      check(call().capture_begin(stream, kCaptureThreadLocal), "cuStreamBeginCapture");
  if (!begun) return begun;
  Result<void> launched;
  for (std::size_t i = 0; launched && i < runs; ++i) launched = launch(i);
  GraphHandle graph = nullptr;
  const auto ended = check(call().capture_end(stream, &graph), "cuStreamEndCapture");
  if (!launched) {
    if (graph != nullptr) call().graph_destroy(graph);
    return launched;
  }
  if (!ended) return ended;
  note_kernels(graph);
  const auto ready =
      check(call().graph_instantiate(&exec_, graph, 0), "cuGraphInstantiateWithFlags");
  call().graph_destroy(graph);
  runs_ = runs;
  return ready;
}

std::string Graph::name_of(GraphNodeHandle node) const {
  int type = -1;
  if (call().graph_node_type(node, &type) != 0 || type != kGraphNodeKernel) return "";
  KernelNodeParams parameters{};
  if (call().graph_kernel_params(node, &parameters) != 0) return "";
  const char* name = nullptr;
  if (parameters.function != nullptr && call().function_name != nullptr) {
    call().function_name(&name, parameters.function);
  } else if (parameters.kernel != nullptr && call().kernel_name != nullptr) {
    call().kernel_name(&name, parameters.kernel);
  }
  if (name == nullptr) return "";
  return fmt::format("{} grid {}x{}x{} block {}", name, parameters.grid[0], parameters.grid[1],
                     parameters.grid[2],
                     parameters.block[0] * parameters.block[1] * parameters.block[2]);
}

// The different kernels of the graph, in the order of their nodes.
void Graph::note_kernels(GraphHandle graph) {
  std::vector<std::string> names;
  std::size_t count = 0;
  if (call().graph_nodes(graph, nullptr, &count) == 0 && count > 0) {
    std::vector<GraphNodeHandle> nodes(count);
    call().graph_nodes(graph, nodes.data(), &count);
    for (const GraphNodeHandle node : nodes) {
      const std::string name = name_of(node);
      if (!name.empty() && std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  kernel_ = recipe_.choice;
  for (const std::string& name : names) kernel_ += (kernel_.empty() ? "" : " | ") + name;
}

Result<Seconds> Graph::run() {
  const auto all = timed(
      [&] {
        return check(call().graph_launch(exec_, plumbing_.driver->stream()), "cuGraphLaunch");
      },
      plumbing_.while_running);
  if (!all) return all;
  return *all / static_cast<double>(runs_);
}

}  // namespace

std::size_t operand_sets(int asked, std::size_t set_bytes, std::size_t l2_bytes,
                         std::size_t free_bytes) {
  const std::size_t bytes = std::max<std::size_t>(set_bytes, 1);
  const std::size_t cold = std::clamp<std::size_t>(kTimesL2 * l2_bytes / bytes + 1, 2, kMostSets);
  const std::size_t wanted = asked > 0 ? static_cast<std::size_t>(asked) : cold;
  return std::min(wanted, bytes > free_bytes / 2 ? (bytes <= free_bytes ? std::size_t{1} : 0)
                                                 : free_bytes / 2 / bytes);
}

Result<std::unique_ptr<PreparedOp>> prepare(const Plumbing& plumbing, Recipe recipe,
                                            const Rotation& rotation) {
  auto graph = std::make_unique<Graph>(plumbing, std::move(recipe));
  if (const auto done = graph->allocate(rotation); !done) return tl::unexpected(done.error());
  if (const auto done = graph->record(); !done) return tl::unexpected(done.error());
  return graph;
}

}  // namespace rooftile::gpu::cuda
