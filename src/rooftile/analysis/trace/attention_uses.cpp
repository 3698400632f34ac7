#include "rooftile/analysis/trace/attention_uses.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "rooftile/analysis/trace/attention_parts.h"
#include "rooftile/analysis/trace/launches.h"
#include "rooftile/analysis/trace/op_table.h"
#include "rooftile/analysis/trace/owners.h"
#include "rooftile/analysis/trace/seconds.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile::trace {
namespace {

// Operators looked at on each side of a softmax: scale, masks that are made on the way, position
// biases and their GEMMs, casts, dropout.
constexpr std::size_t kMostBetween = 24;
constexpr std::size_t kMostNames = 6;   // of operators between, listed for one attention
constexpr std::size_t kMostUses = 256;  // shapes
constexpr int kWholeLoad = 16;          // bytes

// Kernels that one operator started one behind the other.
struct Node {
  std::uint32_t op = kNone;  // the innermost around their launches
  std::size_t first = 0, end = 0;
};

struct Chain {
  std::size_t scores = 0, softmax = 0, values = 0;  // nodes
  std::vector<std::size_t> between;
  std::optional<Op> op;
};

bool is_batched_gemm(std::string_view name) {
  constexpr std::array<std::string_view, 6> kNames{"aten::bmm", "aten::baddbmm", "aten::baddbmm_",
                                                   "bmm",       "baddbmm",       "aten::bmm_"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

// Work that changes or moves the scores, or makes what is added to them.
bool may_lie_between(KernelClass kernel_class) {
  switch (kernel_class) {
    case KernelClass::elementwise:
    case KernelClass::cast:
    case KernelClass::copy:
    case KernelClass::fill:
    case KernelClass::layout_conversion:
    case KernelClass::random:
    case KernelClass::reduction:
    case KernelClass::embedding:
    case KernelClass::indexing:
    case KernelClass::quantize:
    case KernelClass::unknown:
    case KernelClass::other:
      return true;
    default:
      return false;
  }
}

// A compiler's softmax has no recorded shapes.
bool fit_together(const Gemm& scores, const Gemm& values) {
  return scores.n == values.k && scores.m == values.m && scores.batch == values.batch;
}

bool has_rows(const Gemm& gemm, const Softmax& softmax) {
  return product_of(std::array{gemm.batch, gemm.m}) == static_cast<double>(softmax.rows);
}

class AttentionFinder {
 public:
  AttentionFinder(const HostView& view, const KernelNames& names)
      : view_(view),
        timeline_(view.timeline),
        links_(view.links),
        names_(names),
        owners_(view.timeline, view.links),
        launched_(kernels_by_launch(view.timeline, view.links, view.window)) {}

  AttentionUses find();

 private:
  void collect_nodes();
  std::string_view name_of(const Node& node) const {
    return timeline_.strings[timeline_.ops.name[node.op]];
  }
  KernelClass class_of(std::size_t launched) const {
    const std::uint32_t activity = launched_[launched].activity;
    return timeline_.gpu.kind[activity] == GpuKind::kernel ? names_.facts(activity).kernel_class
                                                           : KernelClass::copy;
  }
  bool is_forward_softmax(std::size_t node) const;
  bool ends_search(std::size_t node) const;
  bool is_gemm(std::size_t node) const;
  std::optional<Gemm> gemm_of(std::size_t node);
  std::optional<Softmax> rows_of(std::size_t node);
  std::optional<Chain> chain_at(std::size_t softmax);
  std::optional<std::size_t> search(std::size_t from, int direction, std::size_t softmax,
                                    std::vector<std::size_t>& between);
  bool fits_scores(std::size_t node, std::size_t softmax);
  bool fits_values(std::size_t node, std::size_t softmax);
  bool holds_scores(std::size_t node, double elements) const;
  void set_shape(Chain& chain);
  std::uint32_t use_of(const Chain& chain);
  void add_forward(const Chain& chain, std::uint32_t use);
  void add_node(std::size_t node, std::uint32_t use, Seconds& time);
  // The index of a use and, so that each run is counted once, the node of its softmax.
  using Member = std::pair<std::uint32_t, std::size_t>;
  void note_forward(std::uint32_t op, const Member& member);
  std::uint32_t outermost_node(std::uint32_t op) const;
  const Member* member_of(const ForwardOps& forward_ops, std::uint32_t op) const;
  void add_backward();
  void note_narrow(std::uint32_t activity, AttentionUse& use) const;
  AttentionUses result();

  const HostView& view_;
  const Timeline& timeline_;
  const Links& links_;
  const KernelNames& names_;
  Owners owners_;
  std::vector<Launched> launched_;
  std::vector<Node> nodes_;
  std::vector<AttentionUse> uses_;
  std::map<std::tuple<std::string, std::vector<std::string>>, std::uint32_t> use_ids_;
  std::map<std::uint32_t, Member> use_of_op_;
  // By the outermost autograd node around an operator and its number.
  std::map<std::pair<std::uint32_t, std::uint32_t>, Member> recomputed_;
  std::vector<bool> is_part_;
  std::vector<std::uint32_t> first_softmax_;  // operator of each use
};

void AttentionFinder::collect_nodes() {
  for (std::size_t i = 0; i < launched_.size(); ++i) {
    const std::uint32_t op = links_.gpu_op[launched_[i].activity];
    const bool goes_on = !nodes_.empty() && nodes_.back().op == op &&
                         launched_[i].thread == launched_[nodes_.back().first].thread;
    if (!goes_on) nodes_.push_back({op, i, i});
    nodes_.back().end = i + 1;
  }
}

bool AttentionFinder::is_forward_softmax(std::size_t node) const {
  const Node& at = nodes_[node];
  return class_of(at.first) == KernelClass::softmax &&
         name_of(at).find("log_softmax") == std::string::npos &&
         name_of(at).find("ackward") == std::string::npos;
}

bool AttentionFinder::is_gemm(std::size_t node) const {
  return is_batched_gemm(name_of(nodes_[node]));
}

bool AttentionFinder::ends_search(std::size_t node) const {
  for (std::size_t i = nodes_[node].first; i < nodes_[node].end; ++i) {
    if (!may_lie_between(class_of(i))) return true;
  }
  return false;
}

std::optional<Gemm> AttentionFinder::gemm_of(std::size_t node) {
  const std::vector<Op>& ops = owners_.neutral(nodes_[node].op);
  const auto* gemm = ops.size() == 1 ? std::get_if<Gemm>(&ops.front().body) : nullptr;
  return gemm == nullptr ? std::nullopt : std::optional(*gemm);
}

// The axis is not always recorded; attention's is the last.
std::optional<Softmax> AttentionFinder::rows_of(std::size_t node) {
  const std::vector<Op>& ops = owners_.neutral(nodes_[node].op);
  if (ops.size() == 1 && std::holds_alternative<Softmax>(ops.front().body)) {
    return std::get<Softmax>(ops.front().body);
  }
  const OpArguments& arguments = timeline_.arguments[timeline_.ops.arguments[nodes_[node].op]];
  if (arguments.dims.empty() || arguments.dims.front().empty()) return std::nullopt;
  const std::vector<std::int64_t>& dims = arguments.dims.front();
  const double rows =
      product_of(dims) / static_cast<double>(std::max<std::int64_t>(1, dims.back()));
  constexpr double kMostInteger = 1e15;
  if (rows < 1 || rows > kMostInteger || dims.back() < 1) return std::nullopt;
  return Softmax{.rows = static_cast<std::int64_t>(rows), .cols = dims.back()};
}

bool AttentionFinder::fits_scores(std::size_t node, std::size_t softmax) {
  const auto gemm = gemm_of(node);
  const auto rows = rows_of(softmax);
  if (!gemm) return !timeline_.has_shapes;
  return !rows || (gemm->n == rows->cols && has_rows(*gemm, *rows));
}

bool AttentionFinder::fits_values(std::size_t node, std::size_t softmax) {
  const auto gemm = gemm_of(node);
  const auto rows = rows_of(softmax);
  if (!gemm) return !timeline_.has_shapes;
  return !rows || (gemm->k == rows->cols && has_rows(*gemm, *rows));
}

std::optional<std::size_t> AttentionFinder::search(std::size_t from, int direction,
                                                   std::size_t softmax,
                                                   std::vector<std::size_t>& between) {
  const std::uint16_t thread = launched_[nodes_[softmax].first].thread;
  std::size_t node = from;
  for (std::size_t tried = 0; tried < kMostBetween; ++tried) {
    if (direction < 0 ? node == 0 : node + 1 >= nodes_.size()) return std::nullopt;
    node = direction < 0 ? node - 1 : node + 1;
    if (launched_[nodes_[node].first].thread != thread) return std::nullopt;
    if (is_gemm(node)) {
      const bool fits = direction < 0 ? fits_scores(node, softmax) : fits_values(node, softmax);
      if (fits) return node;
      continue;
    }
    if (ends_search(node)) return std::nullopt;
    between.push_back(node);
  }
  return std::nullopt;
}

std::optional<Chain> AttentionFinder::chain_at(std::size_t softmax) {
  Chain chain;
  chain.softmax = softmax;
  const auto scores = search(softmax, -1, softmax, chain.between);
  if (!scores) return std::nullopt;
  std::reverse(chain.between.begin(), chain.between.end());
  const auto values = search(softmax, 1, softmax, chain.between);
  if (!values) return std::nullopt;
  chain.scores = *scores;
  chain.values = *values;
  set_shape(chain);
  if (timeline_.has_shapes && !chain.op) return std::nullopt;
  return chain;
}

void AttentionFinder::set_shape(Chain& chain) {
  const auto scores = gemm_of(chain.scores);
  const auto values = gemm_of(chain.values);
  if (!scores || !values || !fit_together(*scores, *values)) return;
  chain.op = owners_.neutral(nodes_[chain.scores].op).front();
  chain.op->body = Attention{.batch = 1,
                             .heads = scores->batch,
                             .kv_heads = scores->batch,
                             .query_len = scores->m,
                             .kv_len = scores->n,
                             .head_dim = scores->k,
                             .value_dim = values->n,
                             .fused = false};
  const double elements = product_of(std::array{scores->batch, scores->m, scores->n});
  std::erase_if(chain.between, [&](std::size_t node) { return !holds_scores(node, elements); });
}

// Whether the operator works on a tensor of the scores' size; where it has no shapes, it counts.
bool AttentionFinder::holds_scores(std::size_t node, double elements) const {
  const OpArguments& arguments = timeline_.arguments[timeline_.ops.arguments[nodes_[node].op]];
  if (arguments.dims.empty()) return true;
  return std::any_of(arguments.dims.begin(), arguments.dims.end(),
                     [&](const auto& dims) { return product_of(dims) == elements; });
}

std::uint32_t AttentionFinder::use_of(const Chain& chain) {
  std::vector<std::string> between;
  for (const std::size_t node : chain.between) {
    std::string name(name_of(nodes_[node]));
    if (between.size() < kMostNames &&
        std::find(between.begin(), between.end(), name) == between.end())
      between.push_back(std::move(name));
  }
  std::string shape;
  if (chain.op)
    shape = fmt::format("{} {}", to_string(chain.op->dtypes.input), dims_text(chain.op->body));
  const auto [at, is_new] =
      use_ids_.try_emplace({shape, between}, static_cast<std::uint32_t>(uses_.size()));
  if (!is_new) return at->second;
  AttentionUse& use = uses_.emplace_back();
  use.op = chain.op;
  use.between = std::move(between);
  first_softmax_.push_back(nodes_[chain.softmax].op);
  return at->second;
}

void AttentionFinder::note_narrow(std::uint32_t activity, AttentionUse& use) const {
  if (timeline_.gpu.kind[activity] != GpuKind::kernel) return;
  const KernelFacts& facts = names_.facts(activity);
  if (facts.kernel_class != KernelClass::gemm || facts.alignment <= 0) return;
  std::optional<Dtype> dtype = facts.dtype;
  if (!dtype && use.op) dtype = use.op->dtypes.input;
  if (!dtype || facts.alignment * size_in_bytes(*dtype) >= kWholeLoad) return;
  use.narrow_time += to_seconds(timeline_.gpu.time.duration(activity));
}

void AttentionFinder::add_node(std::size_t node, std::uint32_t use, Seconds& time) {
  for (std::size_t i = nodes_[node].first; i < nodes_[node].end; ++i) {
    const std::uint32_t activity = launched_[i].activity;
    if (timeline_.gpu.kind[activity] == GpuKind::fill) continue;
    is_part_[activity] = true;
    time += to_seconds(timeline_.gpu.time.duration(activity));
    note_narrow(activity, uses_[use]);
  }
}

void AttentionFinder::add_forward(const Chain& chain, std::uint32_t use) {
  AttentionUse& sums = uses_[use];
  ++sums.count;
  add_node(chain.scores, use, sums.gemm_time);
  add_node(chain.values, use, sums.gemm_time);
  add_node(chain.softmax, use, sums.softmax_time);
  for (const std::size_t node : chain.between) add_node(node, use, sums.other_time);
  std::vector<std::size_t> all = chain.between;
  all.insert(all.end(), {chain.scores, chain.softmax, chain.values});
  for (const std::size_t node : all) note_forward(nodes_[node].op, {use, chain.softmax});
}

// The autograd nodes of these operators carry the number of the innermost that has one. Layers that
// run again number theirs within the node that runs them.
void AttentionFinder::note_forward(std::uint32_t op, const Member& member) {
  use_of_op_[op] = member;
  const auto is_operator = [&] {
    return op != kNone && links_.kind_of_op(timeline_, op) == RangeKind::operation;
  };
  while (is_operator() && timeline_.ops.sequence[op] == 0) op = links_.op_parent[op];
  if (!is_operator()) return;
  use_of_op_[op] = member;
  const std::uint32_t around = outermost_node(op);
  if (around != kNone) recomputed_[{around, timeline_.ops.sequence[op]}] = member;
}

std::uint32_t AttentionFinder::outermost_node(std::uint32_t op) const {
  std::uint32_t found = kNone;
  for (; op != kNone; op = links_.op_parent[op]) {
    if (links_.kind_of_op(timeline_, op) == RangeKind::autograd) found = op;
  }
  return found;
}

// The attention whose gradient the operator computes.
const AttentionFinder::Member* AttentionFinder::member_of(const ForwardOps& forward_ops,
                                                          std::uint32_t op) const {
  for (std::uint32_t node = op; node != kNone; node = links_.op_parent[node]) {
    if (recomputed_.empty()) break;
    if (links_.kind_of_op(timeline_, node) != RangeKind::autograd) continue;
    const auto again = recomputed_.find({outermost_node(node), timeline_.ops.sequence[node]});
    if (again != recomputed_.end()) return &again->second;
    break;
  }
  const std::uint32_t forward = forward_ops.of(op);
  const auto found = use_of_op_.find(forward);
  return forward == kNone || found == use_of_op_.end() ? nullptr : &found->second;
}

void AttentionFinder::add_backward() {
  const ForwardOps forward_ops(timeline_, links_);
  std::map<Member, bool> seen;
  for (const Launched& launched : launched_) {
    const std::uint32_t activity = launched.activity;
    if (is_part_[activity] || !is_backward(timeline_, links_, links_.gpu_op[activity])) continue;
    const Member* member = member_of(forward_ops, links_.gpu_op[activity]);
    if (member == nullptr) continue;
    AttentionUse& use = uses_[member->first];
    is_part_[activity] = true;
    use.backward_time += to_seconds(timeline_.gpu.time.duration(activity));
    note_narrow(activity, use);
    if (seen.try_emplace(*member, true).second) ++use.backward_count;
  }
}

AttentionUses AttentionFinder::result() {
  std::vector<SiteQuery> queries;
  for (const std::uint32_t op : first_softmax_) {
    queries.push_back({timeline_.ops.thread[op], timeline_.ops.time.start(op), op});
  }
  const std::vector<SiteRef> sites = view_.sites.at(queries);
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    uses_[i].site = site_of(view_, sites[i], first_softmax_[i]);
  }
  const auto time = [](const AttentionUse& use) {
    return use.gemm_time + use.softmax_time + use.other_time + use.backward_time;
  };
  std::stable_sort(uses_.begin(), uses_.end(),
                   [&](const AttentionUse& a, const AttentionUse& b) { return time(a) > time(b); });
  if (uses_.empty()) is_part_.clear();
  return {std::move(uses_), std::move(is_part_)};
}

AttentionUses AttentionFinder::find() {
  is_part_.assign(timeline_.gpu.time.size(), false);
  collect_nodes();
  for (std::size_t node = 0; node < nodes_.size() && uses_.size() < kMostUses; ++node) {
    if (!is_forward_softmax(node)) continue;
    const std::optional<Chain> chain = chain_at(node);
    if (chain) add_forward(*chain, use_of(*chain));
  }
  if (!uses_.empty()) add_backward();
  return result();
}

}  // namespace

AttentionUses find_attention(const HostView& view, const KernelNames& names) {
  const GpuActivities& gpu = view.timeline.gpu;
  bool has_softmax = false;
  for (std::uint32_t i = 0; i < gpu.time.size() && !has_softmax; ++i) {
    has_softmax =
        gpu.kind[i] == GpuKind::kernel && names.facts(i).kernel_class == KernelClass::softmax;
  }
  if (!has_softmax) return {};
  return AttentionFinder(view, names).find();
}

}  // namespace rooftile::trace
