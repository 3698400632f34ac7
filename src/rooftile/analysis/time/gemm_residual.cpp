#include "rooftile/analysis/time/gemm_residual.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>
#include <mutex>

#include "rooftile/analysis/time/section_reader.h"
#include "rooftile/base/embedded.h"

namespace rooftile {
namespace {

using nlohmann::json;

constexpr double kFadeOctaves = 0.5;
constexpr int kMaxDepth = 32;
constexpr std::size_t kLog2Us = 6;
static_assert(kResidualFeatures[kLog2Us] == "log2_us");

double octaves_outside(const ResidualSupport& support, double size) {
  return std::max({0.0, std::log2(support.low / size), std::log2(size / support.high)});
}

// [feature, threshold, left …, right …] or [-1, value], one after the other.
class TreeReader {
 public:
  explicit TreeReader(const json& numbers) : numbers_(numbers) {}

  bool read(std::vector<ResidualNode>& nodes) {
    return numbers_.is_array() && read_node(nodes, 0) && next_ == numbers_.size();
  }

 private:
  bool read_node(std::vector<ResidualNode>& nodes, int depth) {
    if (depth > kMaxDepth || next_ + 2 > numbers_.size()) return false;
    const json& feature = numbers_[next_++];
    const json& value = numbers_[next_++];
    if (!feature.is_number_integer() || !value.is_number()) return false;
    const auto index = feature.get<std::int64_t>();
    if (index < -1 || index >= static_cast<std::int64_t>(kResidualFeatures.size())) return false;
    const std::size_t at = nodes.size();
    nodes.push_back({value.get<float>(), static_cast<std::int16_t>(index), 0});
    if (index < 0) return true;
    if (!read_node(nodes, depth + 1)) return false;
    nodes[at].right = static_cast<std::int16_t>(nodes.size() - at);
    return read_node(nodes, depth + 1);
  }

  const json& numbers_;
  std::size_t next_ = 0;
};

void read_support(SectionReader& reader, const char* key, const json* found,
                  ResidualSupport& support) {
  if (!found) return;
  const bool pair =
      found->is_array() && found->size() == 2 && (*found)[0].is_number() && (*found)[1].is_number();
  if (!pair) return reader.report(fmt::format("\"{}\": expected [low, high]", key));
  support = {(*found)[0].get<double>(), (*found)[1].get<double>()};
  if (support.low < 1 || support.high < support.low) {
    reader.report(fmt::format("\"{}\": expected 1 <= low <= high", key));
  }
}

void read_ids(SectionReader& reader, std::vector<std::string>& ids) {
  const json* found = reader.member("applies_to");
  if (!found) return;
  const bool texts = found->is_array() &&
                     std::ranges::all_of(*found, [](const json& id) { return id.is_string(); });
  if (!texts) return reader.report("\"applies_to\": expected device ids");
  ids = found->get<std::vector<std::string>>();
}

void read_trees(SectionReader& reader, ResidualModel& model) {
  const json* found = reader.member("trees");
  if (!found) return;
  if (!found->is_array()) return reader.report("\"trees\": expected a list");
  for (const json& tree : *found) {
    model.roots.push_back(static_cast<std::uint32_t>(model.nodes.size()));
    if (!TreeReader(tree).read(model.nodes)) return reader.report("\"trees\": found a broken tree");
  }
}

void check_features(SectionReader& reader) {
  const json* found = reader.member("features");
  if (!found) return;
  const auto is = [](const json& a, std::string_view b) { return a.is_string() && a == b; };
  const bool known = found->is_array() && found->size() <= kResidualFeatures.size() &&
                     std::equal(found->begin(), found->end(), kResidualFeatures.begin(), is);
  if (!known) reader.report("\"features\": expected the first of the library's, in their order");
}

using ModelPointer = std::shared_ptr<const ResidualModel>;

ModelPointer parse(const EmbeddedFile& file) {
  auto model = read_residual(file.name, file.text);
  // The files are compiled in and each is read by a test, so this is a programmer's mistake.
  assert(model.has_value());
  return model ? std::make_shared<const ResidualModel>(std::move(*model)) : nullptr;
}

// The largest power of two up to 16 that divides a size.
float alignment_of(double size) {
  const auto whole = static_cast<std::uint64_t>(size);
  return static_cast<float>(std::min<std::uint64_t>(whole & (~whole + 1), 16));
}

}  // namespace

ResidualFeatures residual_features(const GemmWork& work, const GemmParts& parts, int sms) {
  const auto log2_of = [](double x) { return static_cast<float>(std::log2(std::max(x, 1e-12))); };
  const double rows = parts.tile.tile.rows, cols = parts.tile.tile.cols;
  const double row_tiles = std::ceil(work.m / rows), col_tiles = std::ceil(work.n / cols);
  const double waves = row_tiles * col_tiles * parts.split_k / std::max(sms, 1);
  const double blocks = work.batch * waves;
  return {log2_of(work.m),
          log2_of(work.n),
          log2_of(work.k),
          log2_of(parts.compute / parts.total),
          log2_of(parts.memory / parts.total),
          log2_of(parts.power / parts.total),
          log2_of(parts.total * 1e6),
          log2_of(rows),
          log2_of(cols),
          log2_of(parts.split_k),
          log2_of(waves),
          static_cast<float>(waves / std::ceil(waves)),
          static_cast<float>(parts.total / parts.best),
          static_cast<float>(work.m / (rows * row_tiles)),
          static_cast<float>(work.n / (cols * col_tiles)),
          log2_of(work.operand_bytes),
          log2_of(work.batch),
          log2_of(blocks),
          alignment_of(work.n),
          alignment_of(work.k)};
}

double ResidualModel::octaves_beyond(const GemmWork& work, double modelled_us) const {
  return octaves_outside(m, work.m) + octaves_outside(n, work.n) + octaves_outside(k, work.k) +
         octaves_outside(batch, work.batch) + octaves_outside(us, modelled_us);
}

bool ResidualModel::supports(const GemmWork& work, double modelled_us) const {
  return octaves_beyond(work, modelled_us) <= 0;
}

double ResidualModel::factor(const ResidualFeatures& features, const GemmWork& work) const {
  const double modelled_us = std::exp2(features[kLog2Us]);
  const double weight = 1 - octaves_beyond(work, modelled_us) / kFadeOctaves;
  if (weight <= 0) return 1;
  float sum = 0;
  for (const std::uint32_t root : roots) {
    const ResidualNode* node = &nodes[root];
    while (node->feature >= 0) {
      const bool left = features[static_cast<std::size_t>(node->feature)] <= node->value;
      node += left ? 1 : node->right;
    }
    sum += node->value;
  }
  return std::exp(weight * std::clamp(static_cast<double>(sum), -limit, limit));
}

Result<ResidualModel> read_residual(std::string_view name, std::string_view text) {
  const json file = json::parse(text, nullptr, false);
  if (!file.is_object()) return fail("found no JSON object, expected one", std::string(name));
  SectionReader reader(file, std::string(name));
  ResidualModel model;
  reader.text("gpu", model.gpu);
  read_ids(reader, model.applies_to);
  reader.text("product", model.product);
  reader.text("origin", model.origin);
  read_support(reader, "m", reader.member("m"), model.m);
  read_support(reader, "n", reader.member("n"), model.n);
  read_support(reader, "k", reader.member("k"), model.k);
  read_support(reader, "batch", reader.optional_member("batch"), model.batch);
  read_support(reader, "us", reader.optional_member("us"), model.us);
  reader.part("limit", model.limit);
  reader.intervals("measured_over_predicted", model.intervals);
  check_features(reader);
  read_trees(reader, model);
  if (const auto error = reader.finish()) return tl::unexpected(*error);
  return model;
}

// Files are named DEVICE_PRODUCT: that of the device itself first; those of others may count it
// among their sisters. The text is searched before it is parsed: start-up pays for what applies.
ModelPointer residual_for(std::string_view device_id, std::string_view product) {
  static std::mutex mutex;
  static std::map<std::string_view, ModelPointer> parsed;
  const std::lock_guard lock(mutex);
  const std::string quoted = fmt::format("\"{}\"", device_id);
  const auto applies = [&](const EmbeddedFile& file) {
    if (file.text.find(quoted) == std::string_view::npos) return false;
    auto known = parsed.find(file.name);
    if (known == parsed.end()) known = parsed.emplace(file.name, parse(file)).first;
    return known->second && std::ranges::find(known->second->applies_to, device_id) !=
                                known->second->applies_to.end();
  };
  for (const bool own : {true, false}) {
    for (const EmbeddedFile& file : embedded_residuals()) {
      const bool fits = file.name.ends_with(product) && file.name.starts_with(device_id) == own;
      if (fits && applies(file)) return parsed.at(file.name);
    }
  }
  return nullptr;
}

}  // namespace rooftile
