#include "rooftile/analysis/trace/lost_work.h"

#include <algorithm>
#include <vector>

namespace rooftile::trace {

LostWork lost_work(const Timeline& timeline, const Links& links) {
  std::vector<bool> has_work(timeline.calls.time.size());
  for (const std::uint32_t call : links.gpu_call) {
    if (call != kNone) has_work[call] = true;
  }
  LostWork lost;
  std::vector<Nanoseconds> without;
  Nanoseconds last = 0;  // launch with work
  for (std::uint32_t call = 0; call < has_work.size(); ++call) {
    const Nanoseconds start = timeline.calls.time.start(call);
    if (has_work[call]) last = std::max(last, start);
    if (links.kind_of_call(timeline, call) != CallKind::launch) continue;
    ++lost.all;
    if (!has_work[call] && timeline.calls.correlation[call] != 0) without.push_back(start);
  }
  std::erase_if(without, [&](Nanoseconds start) { return start <= last; });
  if (without.empty()) return lost;
  lost.launches = std::ssize(without);
  lost.from = *std::ranges::min_element(without);
  return lost;
}

bool ends_early(const LostWork& lost) {
  constexpr std::int64_t kFew = 10, kSmall = 20;  // one in so many
  return lost.launches > kFew && kSmall * lost.launches > lost.all;
}

}  // namespace rooftile::trace
