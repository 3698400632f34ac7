#include "rooftile/script/library/library.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "rooftile/base/embedded.h"
#include "rooftile/formats/toml/library_file.h"

namespace rooftile::script {
namespace {

using source::TypeKind;
using toml_file::LibraryCalls;
using toml_file::LibraryFile;

constexpr std::pair<std::string_view, LibraryCall> kGives[] = {
    {"unknown", {}},
    {"new_tensor", {Gives::new_tensor}},
    {"gpu_tensor", {Gives::gpu_tensor}},
    {"from_tensors", {Gives::from_tensors}},
    {"wrapped", {Gives::wrapped}},
    {"argument", {Gives::argument}},
    {"number", {Gives::number}},
    {"text", {Gives::text}},
    {"container", {Gives::container}},
    {"array", {Gives::array}},
    {"plain_object", {Gives::host_object}},
    {"module", {Gives::instance, TypeKind::module}},
    {"loss", {Gives::instance, TypeKind::loss}},
    {"optimizer", {Gives::instance, TypeKind::optimizer}},
    {"scheduler", {Gives::instance, TypeKind::scheduler}},
    {"loader", {Gives::instance, TypeKind::loader}},
    {"dataset", {Gives::instance, TypeKind::dataset}},
    {"sampler", {Gives::instance, TypeKind::sampler}},
    {"scaler", {Gives::instance, TypeKind::scaler}},
    {"device", {Gives::instance, TypeKind::device}},
    {"profiler", {Gives::instance, TypeKind::profiler}},
    {"accelerator", {Gives::instance, TypeKind::accelerator}},
    {"trainer", {Gives::instance, TypeKind::trainer}},
    {"host_object", {Gives::instance, TypeKind::host_object}},
};

std::optional<LibraryCall> call_of(std::string_view gives) {
  for (const auto& [name, call] : kGives) {
    if (name == gives) return call;
  }
  return std::nullopt;
}

// "2.0"
std::optional<source::TorchVersion> version_of(std::string_view text) {
  source::TorchVersion version;
  const char* end = text.data() + text.size();
  const auto major = std::from_chars(text.data(), end, version.major);
  if (major.ec != std::errc() || major.ptr == end || *major.ptr != '.') return std::nullopt;
  const auto minor = std::from_chars(major.ptr + 1, end, version.minor);
  return minor.ec == std::errc() && minor.ptr == end ? std::optional(version) : std::nullopt;
}

std::string_view first_part(std::string_view name) { return name.substr(0, name.find('.')); }

bool is_pattern(std::string_view name) { return name.find_first_of("*[") != std::string::npos; }

bool has_capital(std::string_view text) {
  return std::ranges::any_of(text, [](char c) { return c >= 'A' && c <= 'Z'; });
}

std::string without_stars(std::string_view text) {
  return std::string(text.substr(0, text.find('*')));
}

// Names below a module that are public elsewhere.
struct Home {
  std::string prefix, shown;
  bool flattens = false;  // modules in between go too
};

struct Libraries {
  std::unordered_map<std::string, LibraryCall> calls;
  // By the first part of the name, in the order of the file; empty for any.
  std::unordered_map<std::string, std::vector<std::pair<std::string, LibraryCall>>> patterns;
  std::unordered_map<std::string, std::string> spellings;
  std::vector<Home> homes;  // the longest first
  std::unordered_map<std::string, std::vector<std::string>> exports;
  std::unordered_set<std::string> dtypes, builtins, true_with_gpu;
  std::vector<std::string> keeps_results;
  std::vector<std::pair<std::string, source::TorchVersion>> since;

  void add(const LibraryFile& file) {
    for (const LibraryCalls& each : file.calls) {
      const LibraryCall call = call_of(each.gives).value_or(LibraryCall());
      for (const std::string& name : each.names) {
        if (is_pattern(name)) {
          const std::string_view part = first_part(name);
          patterns[is_pattern(part) ? "" : std::string(part)].emplace_back(name, call);
        } else {
          calls.emplace(name, call);
        }
      }
    }
    spellings.insert(file.spellings.begin(), file.spellings.end());
    for (const auto& [from, to] : file.homes) {
      homes.push_back({without_stars(from), without_stars(to), from.ends_with("**")});
    }
    exports.insert(file.exports.begin(), file.exports.end());
    dtypes.insert(file.dtypes.begin(), file.dtypes.end());
    builtins.insert(file.builtins.begin(), file.builtins.end());
    true_with_gpu.insert(file.true_with_gpu.begin(), file.true_with_gpu.end());
    keeps_results.insert(keeps_results.end(), file.keeps_results.begin(), file.keeps_results.end());
    for (const auto& [name, version] : file.since) {
      since.emplace_back(name, version_of(version).value_or(source::TorchVersion()));
    }
  }
};

// A test loads each file, so that none of them fails here.
const Libraries& libraries() {
  static const Libraries all = [] {
    Libraries read;
    for (const EmbeddedFile& file : embedded_libraries()) {
      const auto parsed = toml_file::parse_library(file.text, std::string(file.name));
      if (parsed) read.add(*parsed);
    }
    std::ranges::stable_sort(read.homes, std::ranges::greater(),
                             [](const Home& home) { return home.prefix.size(); });
    return read;
  }();
  return all;
}

const LibraryCall* first_fit(const std::string& part, std::string_view name) {
  constexpr std::size_t kMaxName = 512;  // longer ones are made to be slow
  if (name.size() > kMaxName) return nullptr;
  const auto found = libraries().patterns.find(part);
  if (found == libraries().patterns.end()) return nullptr;
  for (const auto& [pattern, call] : found->second) {
    if (fits(pattern, name)) return &call;
  }
  return nullptr;
}

// The name below its public home; empty where it has no other.
std::string moved_home(std::string_view full_name) {
  for (const Home& home : libraries().homes) {
    if (!full_name.starts_with(home.prefix)) continue;
    const std::string_view rest = full_name.substr(home.prefix.size());
    const std::size_t dot = rest.rfind('.');
    if (!home.flattens || dot == std::string_view::npos) return home.shown + std::string(rest);
    if (has_capital(rest.substr(0, dot))) return {};
    return home.shown + std::string(rest.substr(dot + 1));
  }
  return {};
}

}  // namespace

bool fits(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern.starts_with("*")) {
    const bool spans = pattern.starts_with("**");
    const std::string_view rest = pattern.substr(spans ? 2 : 1);
    for (std::size_t end = 0; end <= name.size(); ++end) {
      if (fits(rest, name.substr(end))) return true;
      if (!spans && end < name.size() && name[end] == '.') return false;
    }
    return false;
  }
  if (name.empty()) return false;
  constexpr std::string_view kCapital = "[A-Z]", kSmall = "[a-z]";
  const bool is_letter = pattern.starts_with(kCapital) || pattern.starts_with(kSmall);
  if (!is_letter) return pattern[0] == name[0] && fits(pattern.substr(1), name.substr(1));
  return name[0] >= pattern[1] && name[0] <= pattern[3] &&
         fits(pattern.substr(kCapital.size()), name.substr(1));
}

std::string canonical_name(std::string_view full_name) {
  constexpr int kMaxMoves = 8;  // a home may lead to another one, but not for ever
  std::string name(full_name);
  for (int i = 0; i < kMaxMoves; ++i) {
    const auto same = libraries().spellings.find(name);
    if (same != libraries().spellings.end()) return same->second;
    std::string moved = moved_home(name);
    if (moved.empty() || moved == name) break;
    name = std::move(moved);
  }
  return name;
}

LibraryCall library_call(std::string_view full_name) {
  const auto exact = libraries().calls.find(std::string(full_name));
  if (exact != libraries().calls.end()) return exact->second;
  const LibraryCall* found = first_fit(std::string(first_part(full_name)), full_name);
  if (found == nullptr) found = first_fit("", full_name);
  return found == nullptr ? LibraryCall() : *found;
}

bool is_builtin(std::string_view name) { return libraries().builtins.contains(std::string(name)); }

bool is_dtype(std::string_view full_name) {
  constexpr std::string_view kPackage = "torch.";
  return full_name.starts_with(kPackage) &&
         libraries().dtypes.contains(std::string(full_name.substr(kPackage.size())));
}

bool exports(std::string_view package, std::string_view name) {
  const auto known = libraries().exports.find(std::string(package));
  if (known == libraries().exports.end()) return false;
  if (libraries().calls.contains(fmt::format("{}.{}", package, name))) return true;
  for (const std::string& pattern : known->second) {
    const bool is_not = pattern.starts_with('!');
    if (fits(std::string_view(pattern).substr(is_not ? 1 : 0), name)) return !is_not;
  }
  return false;
}

bool is_true_with_gpu(std::string_view full_name) {
  return libraries().true_with_gpu.contains(std::string(full_name));
}

source::TorchVersion torch_needed_by(std::string_view text) {
  source::TorchVersion needed;
  for (const auto& [name, version] : libraries().since) {
    if (text.find(name) != std::string_view::npos) needed = std::max(needed, version);
  }
  return needed;
}

bool keeps_results(std::string_view full_name, std::string_view word) {
  return std::ranges::any_of(libraries().keeps_results, [&](const std::string& pattern) {
    return fits(pattern, full_name) || pattern == word;
  });
}

Result<void> check_library(std::string_view text, const std::string& path) {
  const auto parsed = toml_file::parse_library(text, path);
  if (!parsed) return tl::unexpected(parsed.error());
  for (const LibraryCalls& each : parsed->calls) {
    const std::string where = fmt::format("{}:{}", path, each.line);
    if (!call_of(each.gives)) {
      std::string known;
      for (const auto& [name, call] : kGives) known += fmt::format(" {}", name);
      return fail(fmt::format("found gives = \"{}\", expected one of{}", each.gives, known), where);
    }
    if (each.names.empty()) return fail("found no names, expected those of the calls", where);
  }
  for (const auto& [name, version] : parsed->since) {
    if (version_of(version)) continue;
    return fail(
        fmt::format("found {} since \"{}\", expected a version such as \"2.0\"", name, version),
        path);
  }
  return {};
}

}  // namespace rooftile::script
