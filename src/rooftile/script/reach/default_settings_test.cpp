#include "rooftile/script/reach/default_settings.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "rooftile/readers/python/read_python.h"
#include "tests/support/temporary_folder.h"

namespace rooftile::source {
namespace {

// What the settings of a program say of what `use` is given, behind a line before it.
std::string setting_used(const std::string& line, const std::string& used) {
  TemporaryFolder folder;
  folder.write("setup.py", "");
  folder.write("settings.json", R"js({"net": {"width": 64, "kind": "Wide", "depth": 8},
    "loss": {"kind": "huber", "depth": 8}})js");
  folder.write("train.py", fmt::format(R"py(
import json
import torch

def train(opt, key):
    {}
    use({})
    for x in loader:
        torch.relu(x.cuda()).mean().backward()

if __name__ == "__main__":
    train(json.load(open("settings.json")), choose())
)py",
                                       line, used));
  const std::string path = folder.path().string();
  const auto facts = read_python({&path, 1});
  if (!facts || facts->programs.empty()) return "no program";
  const auto& calls = facts->method_calls("use");
  if (calls.size() != 1) return "no call";
  const Expr& asked = *calls.front()->arguments[0].value;
  return std::string(default_setting(*facts, facts->programs.front(), asked).value_or("unknown"));
}

TEST(DefaultSetting, IsFoundByItsKeys) {
  const std::pair<const char*, const char*> cases[] = {
      {"opt['net']['width']", "64"},
      {"opt['net'].get('width')", "64"},
      {"opt.get('net').get('width', 8)", "64"},
      {"opt.get('net', {})['width']", "64"},
      {"opt.net.width", "64"},
      {"opt['width']", "64"},
      {"width", "unknown"},
      {"opt['net']['kind'].lower()", "Wide"},
      {"opt['net']['kind'].upper()", "Wide"},
      {"opt['net']['kind'].strip()", "Wide"},
      {"opt['net']['kind'].split()", "unknown"},
      {"opt['loss']['kind']", "huber"},
      {"opt['kind']", "unknown"},  // of two values
      {"opt['depth']", "8"},       // twice the same
      {"opt['net']['rate']", "unknown"},
      {"opt['et']['width']", "unknown"},
      {"opt['net'][key]", "unknown"},
      {"opt['net'].get(key)", "unknown"},
      {"opt['net'].get()", "unknown"},
      {"read(opt)", "unknown"},
      {"self.opt['net']['width']", "64"},
  };
  for (const auto& [used, setting] : cases) {
    EXPECT_EQ(setting_used("pass", used), setting) << used;
  }
}

TEST(DefaultSetting, IsFoundBehindVariables) {
  EXPECT_EQ(setting_used("net = opt['net']", "net['width']"), "64");
  EXPECT_EQ(setting_used("net = opt.get('net')", "net.get('kind').lower()"), "Wide");
}

}  // namespace
}  // namespace rooftile::source
