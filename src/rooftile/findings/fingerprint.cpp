#include "rooftile/findings/fingerprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "rooftile/base/path.h"

namespace rooftile {
namespace {

// FNV-1a: short, and the same on all machines.
std::string hashed(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3;
  }
  return fmt::format("{:016x}", hash);
}

std::string identity(const Finding& finding, std::string_view rule) {
  const Provenance& at = finding.location;
  const std::string file = normal_path(at.file);
  if (finding.spot.line > 0) {
    return fmt::format("{}\n{}\n{}", rule, file, finding.spot.code);
  }
  return fmt::format("{}\n{}\n{}\n{}", rule, file, at.module, at.node);
}

}  // namespace

void add_fingerprints(std::vector<Finding>& findings) {
  std::vector<std::size_t> order(findings.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // Equal lines are numbered as they stand in the file, whatever the ranking.
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return findings[i].spot.line; });
  std::map<std::string, int> repeats;
  for (const std::size_t i : order) {
    const std::string key = identity(findings[i], findings[i].rule);
    findings[i].fingerprint = fmt::format("{}:{}", hashed(key), ++repeats[key]);
  }
}

std::string fingerprint_as(const Finding& finding, std::string_view rule) {
  const std::size_t number = std::min(finding.fingerprint.find(':'), finding.fingerprint.size());
  return hashed(identity(finding, rule)) + finding.fingerprint.substr(number);
}

}  // namespace rooftile
