#include "rooftile/analysis/trace/collectives.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "rooftile/analysis/trace/gain.h"
#include "rooftile/analysis/trace/use_groups.h"
#include "rooftile/base/text.h"

namespace rooftile {
namespace {

struct KindMark {
  std::string_view text;  // in lower case, without '_'
  CollectiveKind kind;
  std::string_view words;
};

// The first that a name contains: "allreduce" before "reduce".
constexpr KindMark kKinds[] = {
    {"alltoall", CollectiveKind::all_to_all, "all-to-all"},
    {"allgather", CollectiveKind::all_gather, "all-gather"},
    {"reducescatter", CollectiveKind::reduce_scatter, "reduce-scatter"},
    {"allreduce", CollectiveKind::all_reduce, "all-reduce"},
    {"crossdevicereduce", CollectiveKind::all_reduce, "all-reduce"},  // vLLM's
    {"broadcast", CollectiveKind::broadcast, "broadcast"},
    {"send", CollectiveKind::point_to_point, "send and receive"},
    {"recv", CollectiveKind::point_to_point, "send and receive"},
    {"dispatch", CollectiveKind::all_to_all, "all-to-all"},  // DeepEP's two halves
    {"combine", CollectiveKind::all_to_all, "all-to-all"},
};

std::optional<CollectiveKind> kind_of_name(std::string_view name) {
  std::string plain = lower(name);
  std::erase(plain, '_');
  for (const KindMark& mark : kKinds) {
    if (contains(plain, mark.text)) return mark.kind;
  }
  return std::nullopt;
}

using CollectiveKey = std::tuple<std::string, CollectiveShape, std::size_t>;

}  // namespace

std::optional<CollectiveKind> kind_of(const CollectiveUse& use) {
  if (const auto named = kind_of_name(use.shape.name)) return named;
  return kind_of_name(short_kernel_name(use.kernel));
}

std::string_view kind_words(std::optional<CollectiveKind> kind) {
  for (const KindMark& mark : kKinds) {
    if (mark.kind == kind) return mark.words;
  }
  return "communication";
}

double forward_share(const CollectiveUse& use) {
  if (use.count <= 0) return 0;
  const double count = static_cast<double>(use.count);
  const double others =
      static_cast<double>(use.in_backward) + static_cast<double>(use.after_backward);
  return (count - others) / count;
}

std::int64_t element_bytes(std::string_view dtype) {
  constexpr std::array<std::pair<std::string_view, std::int64_t>, 20> kSizes{
      {{"float", 4},  {"float32", 4}, {"half", 2},     {"float16", 2},       {"bfloat16", 2},
       {"double", 8}, {"float64", 8}, {"byte", 1},     {"char", 1},          {"int8", 1},
       {"uint8", 1},  {"bool", 1},    {"short", 2},    {"int", 4},           {"int32", 4},
       {"long", 8},   {"int64", 8},   {"longlong", 8}, {"float8_e4m3fn", 1}, {"float8_e5m2", 1}}};
  const std::string name = lower(dtype);
  for (const auto& [known, bytes] : kSizes) {
    if (name == known) return bytes;
  }
  return 0;
}

std::optional<Bytes> message_bytes(const CollectiveUse& use) {
  const std::optional<CollectiveKind> kind = kind_of(use);
  const std::int64_t element = element_bytes(use.shape.dtype);
  std::int64_t elements = use.shape.in_elements;
  if (kind == CollectiveKind::all_gather) elements = use.shape.out_elements;
  if (element == 0 || elements <= 0) return std::nullopt;
  return Bytes(static_cast<double>(elements) * static_cast<double>(element));
}

double bus_factor(std::optional<CollectiveKind> kind, std::int64_t ranks) {
  if (ranks < 2 || !kind) return 1;
  const double others = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  switch (*kind) {
    case CollectiveKind::all_reduce:
      return 2 * others;
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_to_all:
      return others;
    default:
      return 1;
  }
}

std::optional<Seconds> median_run(std::vector<Seconds> runs) {
  if (runs.empty()) return std::nullopt;
  return median(std::move(runs));
}

std::vector<SharedCollective> shared_collectives(std::span<const TraceSummary> ranks) {
  std::map<CollectiveKey, SharedCollective> by_key;
  for (const TraceSummary& rank : ranks) {
    for (const CollectiveUse& use : rank.collectives) {
      // Longer lists are cut, so they may not begin with the same run.
      if (use.runs.size() != static_cast<std::size_t>(use.count)) continue;
      SharedCollective& shared = by_key[{use.kernel, use.shape, use.runs.size()}];
      if (shared.first == nullptr) shared.first = &use;
      shared.runs.push_back(&use.runs);
    }
  }
  std::vector<SharedCollective> shared;
  for (auto& [key, collective] : by_key) {
    if (collective.runs.size() == ranks.size()) shared.push_back(std::move(collective));
  }
  return shared;
}

std::vector<Seconds> waits_of_ranks(std::span<const TraceSummary> ranks) {
  if (ranks.size() < 2) return {};
  const std::vector<SharedCollective> shared = shared_collectives(ranks);
  if (shared.empty()) return {};
  std::vector<Seconds> waited(ranks.size());
  for (const SharedCollective& collective : shared) {
    for (std::size_t run = 0; run < collective.runs.front()->size(); ++run) {
      const auto time_of = [&](std::size_t rank) { return (*collective.runs[rank])[run]; };
      Seconds shortest = time_of(0);
      for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
        shortest = std::min(shortest, time_of(rank));
      }
      for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        waited[rank] += (time_of(rank) - shortest) * window_part(ranks[rank]);
      }
    }
  }
  return waited;
}

LateRanks cost_of_late(std::span<const TraceSummary> all, std::vector<std::size_t> late) {
  LateRanks cost;
  cost.ranks = std::move(late);
  std::array<Seconds, 2> longest;
  std::vector<bool> is_late(all.size());
  for (const std::size_t rank : cost.ranks) is_late[rank] = true;
  const double others = static_cast<double>(all.size() - cost.ranks.size());
  for (const SharedCollective& collective : shared_collectives(all)) {
    for (std::size_t run = 0; run < collective.runs.front()->size(); ++run) {
      constexpr Seconds kNever(std::numeric_limits<double>::max());
      Seconds of_late = kNever, of_others = kNever, sum;
      for (std::size_t rank = 0; rank < all.size(); ++rank) {
        const Seconds time = (*collective.runs[rank])[run];
        Seconds& shortest = is_late[rank] ? of_late : of_others;
        shortest = std::min(shortest, time);
        if (!is_late[rank]) sum += time;
      }
      const Seconds shortest = std::min(of_late, of_others);
      ++cost.runs;
      if (of_late <= of_others) ++cost.last;
      const Seconds gain = std::max(Seconds(), of_others - of_late);
      cost.gain += gain;
      longest = {std::max(longest[0], gain), std::max(longest[1], std::min(longest[0], gain))};
      cost.own += of_late - shortest;
      cost.others += sum / others - shortest;
    }
  }
  cost.recurring = cost.gain - longest[0] - longest[1];
  const TraceSummary& first = all[cost.ranks.front()];
  for (Seconds* const time : {&cost.gain, &cost.recurring, &cost.own, &cost.others}) {
    *time = per_step(first, *time) * window_part(first);
  }
  return cost;
}

}  // namespace rooftile
