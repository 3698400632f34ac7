// Which shapes are worth timing: near the present one in every size and in parameters.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "rooftile/tuner/shape_search.h"

namespace rooftile {
namespace {

// Of each width and of the depth: further, the model is another one.
constexpr double kReach = 1.0 / 3;
// Head sizes that fused attention kernels are compiled for.
constexpr std::array<std::int64_t, 3> kHeadSizes{64, 96, 128};
constexpr std::array<std::int64_t, 2> kVocabularyMultiples{64, 128};

std::int64_t rounded_up(std::int64_t size, std::int64_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

// Tensor parallelism deals heads out: over at least half as many GPUs of a node as now.
bool divides_like(std::int64_t heads, std::int64_t present) {
  constexpr std::int64_t kNode = 8;
  const std::int64_t gpus = std::gcd(present, kNode);
  return heads == present || heads % std::max<std::int64_t>(gpus / 2, 1) == 0;
}

class Neighbourhood {
 public:
  explicit Neighbourhood(const ShapeSearch& search) : search_(search) {}

  std::vector<ModelShape> shapes() {
    for (const std::int64_t hidden : widths(ShapeSize::hidden)) {
      ModelShape shape = search_.present;
      set(shape, ShapeSize::hidden, hidden);
      for (const ModelShape& with_heads : head_choices(shape)) add_depths(with_heads);
    }
    nearest_first();
    return std::move(shapes_);
  }

 private:
  bool has(ShapeSize size) const { return search_.present.contains(size); }
  std::int64_t now(ShapeSize size) const { return search_.present.at(size); }
  static void set(ModelShape& shape, ShapeSize size, std::int64_t value) {
    if (shape.contains(size)) shape[size] = value;
  }

  std::optional<std::int64_t> fixed(ShapeSize size) const {
    const auto found = search_.fixed.find(size);
    return found == search_.fixed.end() ? std::nullopt : std::optional(found->second);
  }

  // Multiples within reach, and the present size.
  std::vector<std::int64_t> widths(ShapeSize size) const {
    if (const auto value = fixed(size)) return {*value};
    if (!has(size)) return {0};
    return multiples_around(now(size), now(size), search_.multiple);
  }

  static std::vector<std::int64_t> multiples_around(std::int64_t middle, std::int64_t present,
                                                    std::int64_t multiple) {
    std::set<std::int64_t> sizes{present};
    const auto low = static_cast<std::int64_t>(to_double(middle) * (1 - kReach));
    const auto high = static_cast<std::int64_t>(to_double(middle) * (1 + kReach));
    for (std::int64_t size = rounded_up(std::max<std::int64_t>(low, 1), multiple); size <= high;
         size += multiple) {
      sizes.insert(size);
    }
    return {sizes.begin(), sizes.end()};
  }

  std::vector<ModelShape> head_choices(const ModelShape& shape) const {
    if (!has(ShapeSize::heads) || !has(ShapeSize::hidden)) return {shape};
    std::set<std::int64_t> head_sizes(kHeadSizes.begin(), kHeadSizes.end());
    head_sizes.insert(present_head_size());
    std::vector<ModelShape> choices;
    for (const std::int64_t head_size : head_sizes) {
      const std::int64_t width = attention_width(shape.at(ShapeSize::hidden));
      if (width % head_size != 0) continue;
      add_kv_choices(shape, width / head_size, head_size, choices);
    }
    return choices;
  }

  std::int64_t present_head_size() const {
    if (has(ShapeSize::head_size)) return now(ShapeSize::head_size);
    return std::max<std::int64_t>(1, now(ShapeSize::hidden) / now(ShapeSize::heads));
  }

  // Of all query heads: in the present proportion to the hidden size.
  std::int64_t attention_width(std::int64_t hidden) const {
    if (!has(ShapeSize::head_size)) return hidden;
    const double ratio = to_double(now(ShapeSize::heads) * now(ShapeSize::head_size)) /
                         to_double(now(ShapeSize::hidden));
    return static_cast<std::int64_t>(std::llround(ratio * to_double(hidden)));
  }

  // The same number of key-value heads, or as many queries to each.
  void add_kv_choices(ModelShape shape, std::int64_t heads, std::int64_t head_size,
                      std::vector<ModelShape>& choices) const {
    if (!allowed(ShapeSize::heads, heads) || !allowed(ShapeSize::head_size, head_size)) return;
    if (!fixed(ShapeSize::heads) && !divides_like(heads, now(ShapeSize::heads))) return;
    set(shape, ShapeSize::heads, heads);
    set(shape, ShapeSize::head_size, head_size);
    if (!has(ShapeSize::kv_heads)) return choices.push_back(std::move(shape));
    const std::int64_t kv = now(ShapeSize::kv_heads), all = now(ShapeSize::heads);
    std::set<std::int64_t> kv_heads;
    if (kv != all && heads % kv == 0) kv_heads.insert(kv);
    if (kv > 0 && all % kv == 0 && heads % (all / kv) == 0) kv_heads.insert(heads / (all / kv));
    for (const std::int64_t count : kv_heads) {
      if (!allowed(ShapeSize::kv_heads, count)) continue;
      if (!fixed(ShapeSize::kv_heads) && !divides_like(count, kv)) continue;
      set(shape, ShapeSize::kv_heads, count);
      choices.push_back(shape);
    }
  }

  bool allowed(ShapeSize size, std::int64_t value) const {
    const auto wanted = fixed(size);
    return !wanted || *wanted == value;
  }

  std::vector<std::int64_t> depths() const {
    if (const auto value = fixed(ShapeSize::layers)) return {*value};
    if (!has(ShapeSize::layers)) return {0};
    return multiples_around(now(ShapeSize::layers), now(ShapeSize::layers), 1);
  }

  std::vector<std::int64_t> vocabularies() const {
    if (const auto value = fixed(ShapeSize::vocabulary)) return {*value};
    if (!has(ShapeSize::vocabulary)) return {0};
    std::set<std::int64_t> sizes{now(ShapeSize::vocabulary)};
    for (const std::int64_t multiple : kVocabularyMultiples) {
      sizes.insert(rounded_up(now(ShapeSize::vocabulary), multiple));
    }
    return {sizes.begin(), sizes.end()};
  }

  std::vector<std::int64_t> ffn_widths(std::int64_t hidden) const {
    if (const auto value = fixed(ShapeSize::ffn)) return {*value};
    if (!has(ShapeSize::ffn)) return {0};
    const std::int64_t present = now(ShapeSize::ffn);
    if (!has(ShapeSize::hidden)) return multiples_around(present, present, search_.multiple);
    const double ratio = to_double(present) / to_double(now(ShapeSize::hidden));
    const auto middle = static_cast<std::int64_t>(ratio * to_double(hidden));
    return multiples_around(middle, present, search_.multiple);
  }

  double parameters(const ModelShape& shape) const {
    const std::optional<Workload> workload = search_.build(shape);
    return workload ? count_parameters(*workload) : 0;
  }

  // Parameters are linear in layers and in FFN width, which four builds show; the vocabulary stays
  // the present one, so that padding it is never paid for elsewhere.
  void add_depths(ModelShape shape) {
    if (const auto value = fixed(ShapeSize::vocabulary)) set(shape, ShapeSize::vocabulary, *value);
    const std::vector<std::int64_t> layers = depths();
    const std::vector<std::int64_t> ffn =
        ffn_widths(has(ShapeSize::hidden) ? shape.at(ShapeSize::hidden) : 0);
    const auto at = [&](std::int64_t depth, std::int64_t width) {
      set(shape, ShapeSize::layers, depth);
      set(shape, ShapeSize::ffn, width);
      return parameters(shape);
    };
    const double low_low = at(layers.front(), ffn.front()),
                 low_high = at(layers.front(), ffn.back());
    const double high_low = at(layers.back(), ffn.front()),
                 high_high = at(layers.back(), ffn.back());
    const auto between = [](double from, double to, std::int64_t first, std::int64_t last,
                            std::int64_t here) {
      return last == first ? from
                           : from + (to - from) * to_double(here - first) / to_double(last - first);
    };
    for (const std::int64_t depth : layers) {
      const double least = between(low_low, high_low, layers.front(), layers.back(), depth);
      const double most = between(low_high, high_high, layers.front(), layers.back(), depth);
      for (const std::int64_t width : ffn) {
        if (!is_near(between(least, most, ffn.front(), ffn.back(), width))) continue;
        set(shape, ShapeSize::layers, depth);
        set(shape, ShapeSize::ffn, width);
        add_vocabularies(shape);
      }
    }
  }

  bool is_near(double count) {
    if (present_parameters_ <= 0) present_parameters_ = parameters(search_.present);
    return count > 0 &&
           std::abs(count / present_parameters_ - 1) <= search_.parameters * (1 + 1e-9);
  }

  void add_vocabularies(ModelShape shape) {
    for (const std::int64_t vocabulary : vocabularies()) {
      set(shape, ShapeSize::vocabulary, vocabulary);
      add_batches(shape);
    }
  }

  void add_batches(ModelShape shape) {
    if (!has(ShapeSize::batch)) return shapes_.push_back(std::move(shape));
    std::set<std::int64_t> batches(search_.batches.begin(), search_.batches.end());
    batches.insert(now(ShapeSize::batch));
    if (const auto value = fixed(ShapeSize::batch)) batches = {*value};
    for (const std::int64_t batch : batches) {
      set(shape, ShapeSize::batch, batch);
      shapes_.push_back(shape);
    }
  }

  double distance(const ModelShape& shape) const {
    double sum = 0;
    for (const auto& [size, value] : shape) {
      if (size == ShapeSize::batch) continue;  // a shape is tried at all batches or at none
      sum += std::abs(std::log(to_double(std::max<std::int64_t>(value, 1)) / to_double(now(size))));
    }
    return sum;
  }

  void nearest_first() {
    std::ranges::stable_sort(shapes_, [&](const ModelShape& a, const ModelShape& b) {
      return distance(a) < distance(b);
    });
    if (shapes_.size() > search_.most) shapes_.resize(search_.most);
  }

  const ShapeSearch& search_;
  std::vector<ModelShape> shapes_;
  double present_parameters_ = 0;
};

}  // namespace

std::vector<ModelShape> nearby_shapes(const ShapeSearch& search) {
  return Neighbourhood(search).shapes();
}

}  // namespace rooftile
