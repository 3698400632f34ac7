// Small changes of what the specs have, each judged as before: scripts with other statements and
// expressions, workloads and recordings with other lines, words and numbers. tests/golden/variants
// has a line for each with a hash of all that is concluded, and what is new and what is gone.
#include "tests/support/variants.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "rooftile/base/text.h"
#include "spec_cases.h"
#include "tests/fuzz/line_mutator.h"
#include "tests/fuzz/script_mutator.h"
#include "tests/support/conclusions.h"

namespace rooftile {
namespace {

constexpr int kOfScript = 1, kOfWorkload = 3, kOfTrace = 4;  // variants of a case
constexpr int kStepsOfScript = 4, kSteps = 2;                // changes of a variant

// Workloads are judged on these in turn: one of each generation.
constexpr std::array kDevices{"h100_sxm", "a100_sxm_80gb", "v100_sxm2", "t4", "p100_sxm2",
                              "rtx_3090", "l40s",          "b200",      "p4", "rtx_5090"};

// Scripts of all specs, by hash, whose statements come into others.
const std::map<std::uint32_t, std::string>& donors() {
  static const std::map<std::uint32_t, std::string> texts = [] {
    std::map<std::uint32_t, std::string> found;
    for (const fs::path& file : spec_files()) {
      for (SpecCase& one : cases_of(file)) {
        take_marks(*find_rule(one.rule), one.scripts);
        for (ScriptFile& script : one.scripts) {
          const std::uint32_t key = hash_of(script.text);
          found.emplace(key, std::move(script.text));
        }
      }
    }
    return found;
  }();
  return texts;
}

// The next one by hash: a new spec changes few choices.
const std::string& donor_for(std::uint32_t seed, std::uint32_t step) {
  const auto found = donors().lower_bound(hash_of(fmt::format("{} {}", seed, step)));
  return found == donors().end() ? donors().begin()->second : found->second;
}

// Without comments: they mark findings.
std::string without_comments(const std::string& text) {
  std::string plain;
  for (const std::string_view line : split(text, '\n')) {
    plain += std::string(trim(line.substr(0, line.find('#') == 0 ? 0 : line.find(" #")))) + "\n";
  }
  return plain;
}

struct Variant {
  std::string text, change;

  void take(std::string next) {
    if (next == text) return;
    change += (change.empty() ? "" : "; ") + change_text(text, next);
    text = std::move(next);
  }
};

Variant script_variant(const std::string& script, std::uint32_t seed) {
  Variant variant{script, ""};
  for (std::uint32_t step = 0; step < kStepsOfScript; ++step) {
    const auto parts = fuzzing::parts_of(variant.text);
    const auto others = fuzzing::parts_of(donor_for(seed, step));
    if (!parts || !others) break;
    variant.take(fuzzing::ScriptMutator(*parts, *others, seed + step).mutate());
  }
  return variant;
}

Variant line_variant(const std::string& text, std::uint32_t seed) {
  Variant variant{text, ""};
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    variant.take(fuzzing::LineMutator(variant.text, seed + step).mutate());
  }
  return variant;
}

// All variants of the cases of a spec.
class VariantsOfSpec : public testing::Test {
 public:
  explicit VariantsOfSpec(fs::path spec)
      : spec_(std::move(spec)),
        variants_(kRoot / "tests/golden/variants" / (rule_of(spec_) + ".txt")) {}

  void TestBody() override {
    for (SpecCase& one : cases_of(spec_)) {
      take_marks(*find_rule(one.rule), one.scripts);
      if (one.scripts.empty()) one.text = without_comments(one.text);
      if (one.scripts.empty()) {
        variants_.seed(one.heading, lines_of(one, model_of(one)));
      } else {
        variants_.title(one.heading);
      }
      const int count = !one.scripts.empty() ? kOfScript : one.is_trace ? kOfTrace : kOfWorkload;
      for (int i = 0; i < count; ++i) add(one, hash_of(fmt::format("{} {}", one.heading, i)));
    }
    variants_.expect();
  }

 private:
  static std::vector<std::string> lines_of(const SpecCase& one, const TimeModel& model) {
    const Result<Workload> workload = read_case(one);
    if (workload) return conclusions(*workload, model);
    return {"error " + workload.error().where};
  }

  void add(SpecCase one, std::uint32_t seed) {
    if (one.scripts.empty()) {
      const Variant variant = line_variant(one.text, seed);
      const char* const device = kDevices[seed % kDevices.size()];
      one.text = variant.text;
      variants_.add(fmt::format("{} on {}", variant.change, device),
                    lines_of(one, model_on(device)));
      return;
    }
    std::string& script = one.scripts[seed % one.scripts.size()].text;
    const Variant variant = script_variant(script, seed);
    script = variant.text;
    variants_.add(variant.change, lines_of(one, model_of(one)));
  }

  fs::path spec_;
  Variants variants_;
};

const bool kRegistered = [] {
  for (const fs::path& file : spec_files()) {
    testing::RegisterTest("Variants", test_name(rule_of(file)).c_str(), nullptr, nullptr,
                          file.c_str(), 1,
                          [file]() -> VariantsOfSpec* { return new VariantsOfSpec(file); });
  }
  return true;
}();

}  // namespace
}  // namespace rooftile
