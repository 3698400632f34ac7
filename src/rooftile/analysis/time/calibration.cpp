#include "rooftile/analysis/time/calibration.h"

#include <array>
#include <cassert>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>

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
    inner.part("weight", alternative.weight);
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
    reader.exponent("residual_widening", section.residual_widening);
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
  if (reader.optional_member(kKey)) reader.factor(kKey, ratio);
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
  reader.exponent("widening", widening);
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
  SectionReader reader(file, calibration.name);
  reader.member("generation");
  std::optional<Error> first;
  visit_sections(calibration, [&](const char* key, auto& section) {
    if (!first && reader.member(key)) first = read_section(file, calibration.name, key, section);
  });
  return first ? first : reader.finish();
}

std::optional<Error> read_pace(SectionReader& file, Calibration& calibration) {
  const json* const found = file.optional_member("pace");
  if (!found) return std::nullopt;
  SectionReader reader(*found, fmt::format("{}, pace", file.where()));
  reader.factor("sm_clock", calibration.sm_clock);
  reader.factor("memory_clock", calibration.memory_clock);
  return reader.finish();
}

// The sections that a device file brings itself take the place of the generation's.
std::optional<Error> replace_sections(const Device& device, Calibration& calibration) {
  const json file = json::parse(device.time_model, nullptr, false);
  SectionReader reader(file, fmt::format("{}, time_model", device.id));
  if (reader.optional_member("residual")) reader.flag("residual", calibration.residual);
  std::optional<Error> first = read_pace(reader, calibration);
  visit_sections(calibration, [&](const char* key, auto& section) {
    const json* const found = reader.optional_member(key);
    if (first || !found) return;
    auto replaced = section.own ? std::optional(section.constants) : std::nullopt;
    const std::string where = fmt::format("{}, {}", reader.where(), key);
    first = read_own_section(SectionReader(*found, where), section);
    section.this_gpu = true;
    section.replaced = std::move(replaced);
  });
  return first ? first : reader.finish();
}

// Calibrations are named "sm80".
int compute_capability_of(std::string_view name) {
  int capability = 0;
  std::from_chars(name.data() + 2, name.data() + name.size(), capability);
  return capability;
}

// The newest generation that is not newer than the GPU; the oldest for still older ones.
std::string_view generation_for(int compute_capability) {
  std::map<int, std::string_view> generations;
  for (const EmbeddedFile& file : embedded_calibration()) {
    generations.emplace(compute_capability_of(file.name), file.name);
  }
  const auto newer = generations.upper_bound(compute_capability);
  return (newer == generations.begin() ? newer : std::prev(newer))->second;
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
