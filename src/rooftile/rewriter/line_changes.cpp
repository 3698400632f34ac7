#include "rooftile/rewriter/line_changes.h"

#include <algorithm>
#include <cstddef>

namespace rooftile {
namespace {

using Lines = std::vector<std::string_view>;

// Beyond this the texts have little in common, and all of the rest is one change.
constexpr std::ptrdiff_t kMaxDifferences = 2000;

// What is left of both texts behind their common start and before their common end.
class Middle {
 public:
  Middle(const Lines& a, const Lines& b) : a_(a), b_(b) {
    const std::size_t shorter = std::min(a.size(), b.size());
    while (begin_ < shorter && a[begin_] == b[begin_]) ++begin_;
    while (tail_ < shorter - begin_ && a[a.size() - 1 - tail_] == b[b.size() - 1 - tail_]) ++tail_;
  }

  std::vector<LineChange> changes() {
    if (a_size() == 0 && b_size() == 0) return {};
    if (a_size() == 0 || b_size() == 0 || !search()) {
      return {{begin_, begin_ + static_cast<std::size_t>(a_size()), begin_,
               begin_ + static_cast<std::size_t>(b_size())}};
    }
    return walk_back();
  }

 private:
  std::ptrdiff_t a_size() const { return std::ssize(a_) - to_signed(begin_ + tail_); }
  std::ptrdiff_t b_size() const { return std::ssize(b_) - to_signed(begin_ + tail_); }
  static std::ptrdiff_t to_signed(std::size_t size) { return static_cast<std::ptrdiff_t>(size); }

  bool equal(std::ptrdiff_t x, std::ptrdiff_t y) const {
    return a_[begin_ + static_cast<std::size_t>(x)] == b_[begin_ + static_cast<std::size_t>(y)];
  }

  // How far along a the diagonal k = x - y is reached with d differences, from those with d - 1.
  std::ptrdiff_t step(const std::vector<std::ptrdiff_t>& reached, std::ptrdiff_t d,
                      std::ptrdiff_t k) const {
    const auto at = [&](std::ptrdiff_t diagonal) {
      return reached[static_cast<std::size_t>(diagonal + d)];
    };
    return goes_down(reached, d, k) ? at(k + 1) : at(k - 1) + 1;
  }

  // Whether the last difference is a line of b; `reached` has diagonals -d to d at index 0 to 2 d.
  static bool goes_down(const std::vector<std::ptrdiff_t>& reached, std::ptrdiff_t d,
                        std::ptrdiff_t k) {
    if (k == -d) return true;
    if (k == d) return false;
    return reached[static_cast<std::size_t>(k - 1 + d)] <
           reached[static_cast<std::size_t>(k + 1 + d)];
  }

  // Fills history_, whose entry d is what was reached before step d. False when it takes too long.
  bool search() {
    std::vector<std::ptrdiff_t> reached{0, 0, 0};
    for (std::ptrdiff_t d = 0; d <= std::min(kMaxDifferences, a_size() + b_size()); ++d) {
      // Diagonals -d-1 to d+1, so that the neighbours of all are there.
      std::vector<std::ptrdiff_t> next(static_cast<std::size_t>(2 * d + 3), 0);
      for (std::ptrdiff_t k = -d; k <= d; k += 2) {
        std::ptrdiff_t x = d == 0 ? 0 : step(reached, d, k);
        while (x < a_size() && x - k < b_size() && equal(x, x - k)) ++x;
        next[static_cast<std::size_t>(k + d + 1)] = x;
        if (x >= a_size() && x - k >= b_size()) {
          history_.push_back(std::move(reached));
          return true;
        }
      }
      history_.push_back(std::move(reached));
      reached = std::move(next);
    }
    return false;
  }

  std::vector<LineChange> walk_back() const {
    std::vector<LineChange> changes;
    std::ptrdiff_t x = a_size(), y = b_size();
    for (std::ptrdiff_t d = std::ssize(history_) - 1; d > 0; --d) {
      const auto& reached = history_[static_cast<std::size_t>(d)];
      const std::ptrdiff_t k = x - y;
      const bool down = goes_down(reached, d, k);
      const std::ptrdiff_t after = step(reached, d, k);  // x behind the difference
      const std::ptrdiff_t from_x = down ? after : after - 1;
      const std::ptrdiff_t from_y = down ? after - k - 1 : after - k;
      add_front(changes, from_x, after, from_y, after - k);
      x = from_x;
      y = from_y;
    }
    std::ranges::reverse(changes);
    return changes;
  }

  // Joins the difference with the one that follows it without an equal line between.
  void add_front(std::vector<LineChange>& changes, std::ptrdiff_t a_begin, std::ptrdiff_t a_end,
                 std::ptrdiff_t b_begin, std::ptrdiff_t b_end) const {
    const auto place = [&](std::ptrdiff_t at) { return begin_ + static_cast<std::size_t>(at); };
    LineChange change{place(a_begin), place(a_end), place(b_begin), place(b_end)};
    if (!changes.empty() && changes.back().a_begin == change.a_end &&
        changes.back().b_begin == change.b_end) {
      change.a_end = changes.back().a_end;
      change.b_end = changes.back().b_end;
      changes.pop_back();
    }
    changes.push_back(change);
  }

  const Lines& a_;
  const Lines& b_;
  std::size_t begin_ = 0, tail_ = 0;  // lines in common
  std::vector<std::vector<std::ptrdiff_t>> history_;
};

}  // namespace

std::vector<LineChange> line_changes(const std::vector<std::string_view>& a,
                                     const std::vector<std::string_view>& b) {
  return Middle(a, b).changes();
}

}  // namespace rooftile
