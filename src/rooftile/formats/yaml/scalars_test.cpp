#include "rooftile/formats/yaml/scalars.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace rooftile::yaml {
namespace {

std::vector<std::string> lines_of(std::string_view text) {
  const Result<std::vector<Scalar>> scalars = read_scalars(text);
  if (!scalars) return {"error: " + scalars.error().message};
  std::vector<std::string> lines;
  for (const Scalar& each : *scalars) {
    const char* quote = each.quoted ? "'" : "";
    lines.push_back(fmt::format("{}: {}={}{}{}", each.line, each.path, quote, each.text, quote));
  }
  return lines;
}

using ::testing::ElementsAre;
using ::testing::StartsWith;

TEST(YamlScalars, StandUnderTheKeysThatLeadToThem) {
  EXPECT_THAT(
      lines_of("train:\n  workers: 4\n  size: {x: 3, y: '7'}\nname: net # why\n"),
      ElementsAre("1: train.workers=4", "2: train.size.x=3", "2: train.size.y='7'", "3: name=net"));
}

TEST(YamlScalars, OfListsByNumber) {
  EXPECT_THAT(lines_of("defaults:\n  - model: a\n  - _self_\nx: [1, [2, 3]]\nempty:\n"),
              ElementsAre("1: defaults.0.model=a", "2: defaults.1=_self_", "3: x.0=1", "3: x.1.0=2",
                          "3: x.1.1=3", "4: empty="));
}

TEST(YamlScalars, LeaveOutAliasesAndKeysThatAreNoScalars) {
  EXPECT_THAT(lines_of("a: &x\n  b: 1\nc: *x\n? [p, q]\n: 2\n? {r: s}\n: {t: 3}\nd: 4\n"),
              ElementsAre("1: a.b=1", "7: d=4"));
}

TEST(YamlScalars, OfTheFirstDocumentOnly) {
  EXPECT_THAT(lines_of("a: 1\n---\nb: 2\n"), ElementsAre("0: a=1"));
  EXPECT_THAT(lines_of(""), ElementsAre());
}

TEST(YamlScalars, AreRefusedWithTheirLine) {
  EXPECT_THAT(lines_of("a: 1\nb: [\n"), ElementsAre(StartsWith("error: is no YAML: ")));
  EXPECT_THAT(lines_of(std::string(100, '[')), ElementsAre("error: is nested too deeply"));
  EXPECT_THAT(lines_of(std::string(2'000'000, ' ')), ElementsAre(StartsWith("error: is larger")));
}

}  // namespace
}  // namespace rooftile::yaml
