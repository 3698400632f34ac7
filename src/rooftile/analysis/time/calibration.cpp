#include "rooftile/analysis/time/calibration.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "rooftile/analysis/time/section_reader.h"
#include "rooftile/base/embedded.h"

namespace rooftile {
namespace {

using nlohmann::json;

Result<json> parse_embedded(std::string_view name) {
  for (const EmbeddedFile& file : embedded_calibration()) {
    if (file.name != name) continue;
    json parsed = json::parse(file.text, nullptr, false);
    if (!parsed.is_object()) return fail("found no JSON object, expected one", std::string(name));
    return parsed;
  }
  return fail("found no such calibration file", std::string(name));
}

// Calls visit(key, section) for every section, in the order of the files.
template <class Visit>
void visit_sections(Calibration& calibration, const Visit& visit) {
  visit("tensor_gemm", calibration.tensor_gemm);
  visit("fp8_gemm", calibration.fp8_gemm);
  visit("cuda_gemm", calibration.cuda_gemm);
  visit("alignment", calibration.alignment);
  visit("stream", calibration.stream);
  visit("convolution", calibration.convolution);
  visit("attention", calibration.attention);
  visit("recurrent", calibration.recurrent);
  visit("collective", calibration.collective);
}

template <class Constants>
void read_alternatives(SectionReader&, std::vector<Alternative<Constants>>&) {}
void read_alternatives(SectionReader& reader,
                       std::vector<Alternative<GemmConstants>>& alternatives) {
  const json* found = reader.optional_member("alternatives");
  if (!found) return;
  constexpr std::size_t kMost = 16;
  if (!found->is_array() || found->size() > kMost) {
    return reader.report(fmt::format("\"alternatives\": expected a list of at most {}", kMost));
  }
  for (const json& entry : *found) {
    SectionReader inner(entry, fmt::format("{}, alternatives", reader.where()));
    Alternative<GemmConstants>& alternative = alternatives.emplace_back();
    inner.number("weight", alternative.weight, 0, 1);
    read_constants(inner, alternative.constants);
    if (const auto error = inner.finish()) reader.report(error->message);
  }
}

template <class Constants>
std::optional<Error> read_own_section(SectionReader reader, Section<Constants>& section) {
  section = {};
  reader.text("origin", section.origin);
  reader.optional_texts("fitted_on", section.fitted_on);
  if (reader.optional_member("residual_of")) reader.text("residual_of", section.residual_of);
  if (reader.optional_member("residual_widening")) {
    reader.number("residual_widening", section.residual_widening, 1, 10);
  }
  read_constants(reader, section.constants);
  read_alternatives(reader, section.alternatives);
  return reader.finish();
}

// A generation that borrows the kernels of another may need less energy for a flop: the rate that
// its power limit allows is that much higher.
template <class Constants>
void read_energy(SectionReader&, Constants&, double&) {}
void read_energy(SectionReader& reader, GemmConstants&, double& ratio) {
  constexpr const char* kKey = "energy_per_flop_against_donor";
  if (reader.optional_member(kKey)) reader.number(kKey, ratio, 0.1, 10);
}
template <class Constants>
void scale_energy(Constants&, double) {}
void scale_energy(GemmConstants& constants, double ratio) {
  constants.reference_watts_per_flop_rate *= ratio;
}

// The section of the file itself, or of the file it names under "use".
template <class Constants>
std::optional<Error> read_section(const json& file, const std::string& name, const char* key,
                                  Section<Constants>& section, bool may_borrow = true) {
  const std::string where = fmt::format("{}, {}", name, key);
  const auto found = file.find(key);
  if (found == file.end() || !found->is_object()) return Error{"found no such section", where};
  if (!found->contains("use")) return read_own_section(SectionReader(*found, where), section);
  if (!may_borrow) return Error{"found \"use\" in a section that others use", where};
  SectionReader reader(*found, where);
  std::string donor, reason;
  double widening = 1, energy = 1;
  reader.text("use", donor);
  reader.text("reason", reason);
  reader.number("widening", widening, 1, 10);
  read_energy(reader, section.constants, energy);
  if (const auto error = reader.finish()) return error;
  const auto donor_file = parse_embedded(donor);
  if (!donor_file) return donor_file.error();
  if (const auto error = read_section(*donor_file, donor, key, section, false)) return error;
  section.origin = fmt::format("{}; {}", section.origin, reason);
  section.widening = widening;
  section.own = false;
  scale_energy(section.constants, energy);
  return std::nullopt;
}

std::optional<Error> read_sections(const json& file, Calibration& calibration) {
  std::optional<Error> first;
  visit_sections(calibration, [&](const char* key, auto& section) {
    if (!first) first = read_section(file, calibration.name, key, section);
  });
  return first;
}

std::optional<Error> read_header(const json& file, Calibration& calibration) {
  SectionReader reader(file, calibration.name);
  reader.text("generation", calibration.generation);
  visit_sections(calibration, [&](const char* key, auto&) { reader.member(key); });
  return reader.finish();
}

std::optional<Error> read_pace(const json& file, const std::string& place,
                               Calibration& calibration) {
  const auto found = file.find("pace");
  if (found == file.end()) return std::nullopt;
  SectionReader reader(*found, fmt::format("{}, pace", place));
  reader.number("sm_clock", calibration.sm_clock, 0.01, 10);
  reader.number("memory_clock", calibration.memory_clock, 0.01, 10);
  return reader.finish();
}

// The sections that a device file brings itself take the place of the generation's.
std::optional<Error> replace_sections(const Device& device, Calibration& calibration) {
  const json file = json::parse(device.time_model, nullptr, false);
  const std::string place = fmt::format("{}, time_model", device.id);
  if (!file.is_object()) return Error{"found no JSON object, expected one", place};
  std::optional<Error> first = read_pace(file, place, calibration);
  std::set<std::string> known{"residual", "pace"};
  if (const auto residual = file.find("residual"); residual != file.end()) {
    if (!residual->is_boolean()) return Error{"\"residual\": expected true or false", place};
    calibration.residual = residual->get<bool>();
  }
  visit_sections(calibration, [&](const char* key, auto& section) {
    known.insert(key);
    const auto found = file.find(key);
    if (first || found == file.end()) return;
    auto replaced = section.own ? std::optional(section.constants) : std::nullopt;
    first = read_own_section(SectionReader(*found, fmt::format("{}, {}", place, key)), section);
    section.this_gpu = true;
    section.replaced = std::move(replaced);
  });
  for (const auto& [key, unused] : file.items()) {
    if (!first && !known.contains(key)) {
      first = Error{fmt::format("found unknown section \"{}\"", key), place};
    }
  }
  return first;
}

// "sm80" -> 80; empty for any other name.
std::optional<int> compute_capability_of(std::string_view name) {
  if (!name.starts_with("sm")) return std::nullopt;
  name.remove_prefix(2);
  int capability = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), capability);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return capability;
}

// The newest generation that is not newer than the GPU; the oldest for still older ones.
std::string_view generation_for(int compute_capability) {
  std::string_view best, oldest;
  int best_capability = -1, oldest_capability = 1 << 20;
  for (const EmbeddedFile& file : embedded_calibration()) {
    const auto capability = compute_capability_of(file.name);
    if (!capability) continue;
    if (*capability <= compute_capability && *capability > best_capability) {
      best_capability = *capability;
      best = file.name;
    }
    if (*capability < oldest_capability) {
      oldest_capability = *capability;
      oldest = file.name;
    }
  }
  return best.empty() ? oldest : best;
}

}  // namespace

std::vector<std::string> calibration_names() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded_calibration()) names.emplace_back(file.name);
  return names;
}

Result<Calibration> read_calibration(std::string_view name) {
  Calibration calibration;
  calibration.name = name;
  const auto file = parse_embedded(name);
  if (!file) return tl::unexpected(file.error());
  if (const auto error = read_header(*file, calibration)) return tl::unexpected(*error);
  if (const auto error = read_sections(*file, calibration)) return tl::unexpected(*error);
  return calibration;
}

namespace {

std::shared_ptr<const Calibration> generation_calibration(int compute_capability) {
  static std::mutex mutex;
  static std::map<std::string_view, std::shared_ptr<const Calibration>> parsed;
  const std::string_view name = generation_for(compute_capability);
  const std::lock_guard lock(mutex);
  const auto known = parsed.find(name);
  if (known != parsed.end()) return known->second;
  auto calibration = read_calibration(name);
  // The files are compiled in and each is read by a test, so this is a programmer's mistake.
  assert(calibration.has_value());
  if (!calibration) std::abort();
  auto shared = std::make_shared<const Calibration>(std::move(*calibration));
  return parsed.emplace(name, std::move(shared)).first->second;
}

}  // namespace

Result<std::shared_ptr<const Calibration>> calibration_for(const Device& device) {
  auto shared = generation_calibration(device.compute_capability);
  if (device.time_model.empty()) return shared;
  Calibration own = *shared;
  if (const auto error = replace_sections(device, own)) return tl::unexpected(*error);
  return std::make_shared<const Calibration>(std::move(own));
}

}  // namespace rooftile
