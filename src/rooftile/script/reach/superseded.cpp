#include "rooftile/script/reach/superseded.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "rooftile/base/text.h"
#include "rooftile/script/reach/programs.h"
#include "rooftile/workload/source_store.h"

namespace rooftile::source {
namespace {

struct Superseded {
  std::unordered_map<const Program*, bool> known;
};

// Of "nets/run-v2-small/train.py" it is 2, of all that begin with "nets/run-".
struct Version {
  std::string_view before;
  int number = 0;
};

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

std::optional<Version> version_of(std::string_view path) {
  for (std::size_t at = 1; at + 1 < path.size(); ++at) {
    const bool begins = (path[at] == 'v' || path[at] == 'V') && is_digit(path[at + 1]) &&
                        std::string_view("/-_. ").find(path[at - 1]) != std::string_view::npos;
    if (!begins) continue;
    int number = 0;
    constexpr int kLargest = 1000;
    for (std::size_t i = at + 1; i < path.size() && is_digit(path[i]) && number < kLargest; ++i) {
      number = 10 * number + (path[i] - '0');
    }
    return Version{path.substr(0, at), number};
  }
  return std::nullopt;
}

bool is_later_version(std::string_view other, std::string_view own) {
  const auto later = version_of(other);
  const auto version = version_of(own);
  return later && version && later->before == version->before && later->number > version->number;
}

std::unordered_set<std::string_view> lines_of(const File& file) {
  constexpr std::size_t kShort = 8;  // `else:`
  std::unordered_set<std::string_view> lines;
  std::string_view rest = file.text;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = trim(rest.substr(0, end));
    if (line.size() >= kShort) lines.insert(line);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return lines;
}

// A script of the same name in a folder above that has most of its lines.
bool is_copied_from(const File& own, const File& other) {
  const std::size_t slash = own.path.rfind('/');
  const std::size_t end = other.path.rfind('/');
  if (slash == std::string::npos || end == std::string::npos || end >= slash) return false;
  const bool is_above = own.path.substr(slash) == other.path.substr(end) &&
                        own.path.starts_with(other.path.substr(0, end + 1));
  if (!is_above) return false;
  constexpr double kMost = 0.7;
  const auto lines = lines_of(own);
  const auto others = lines_of(other);
  const auto shared =
      std::ranges::count_if(lines, [&](std::string_view line) { return others.contains(line); });
  return static_cast<double>(shared) >= kMost * static_cast<double>(lines.size());
}

bool has_successor(const SourceFacts& facts, const Program& program) {
  if (program.entry == nullptr) return false;
  const File& own = *program.entry;
  const auto& started = facts.store().started;
  return std::ranges::any_of(training_programs(facts), [&](const Program* each) {
    const File* other = each->entry;
    if (other == nullptr || other == &own) return false;
    const bool is_outdated = !started.contains(&own) && started.contains(other);
    return (is_outdated && is_later_version(other->path, own.path)) || is_copied_from(own, *other);
  });
}

}  // namespace

bool is_superseded(const SourceFacts& facts, const File& file) {
  auto programs = training_programs_of(facts, file);
  // What else imports a script takes some classes of it.
  const auto own = std::ranges::find(programs, &file, &Program::entry);
  if (own != programs.end()) programs = {*own};
  auto& known = facts.store().kept<Superseded>().known;
  return !programs.empty() && std::ranges::all_of(programs, [&](const Program* program) {
    const auto [place, is_new] = known.try_emplace(program, false);
    if (is_new) place->second = has_successor(facts, *program);
    return place->second;
  });
}

}  // namespace rooftile::source
