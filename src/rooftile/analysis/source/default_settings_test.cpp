#include "rooftile/script/reach/default_settings.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "rooftile/analysis/source/chosen_precision.h"
#include "rooftile/analysis/source/trained_parts.h"
#include "rooftile/readers/python/read_python.h"
#include "tests/support/temporary_folder.h"

namespace rooftile::source {
namespace {

// Scripts that take a class under one name from whichever file their settings name. What the other
// files say of the precision does not count.
TEST(DefaultSettings, SayWhichImportsRunAndHowLargeLayersAre) {
  TemporaryFolder folder;
  const auto model = [](std::string_view name, std::string_view more) {
    return fmt::format(R"py(
import torch
from torch import nn


class {0}:
    def __init__(self, opt):
        self.net = nn.Conv2d(opt["net"]["width"], opt["net"]["width"], 3).cuda()
        self.optimizer = torch.optim.Adam(self.net.parameters())
        {1}

    def optimize(self, x):
        loss = self.net(x.cuda()).mean()
        loss.backward()
        self.optimizer.step()
)py",
                       name, more);
  };
  folder.write("plain.py", model("Plain", "pass"));
  folder.write("gan.py", model("GAN", R"py(self.critic = torch.optim.Adam(netD.parameters())
        self.context = torch.autocast("cuda"))py"));
  folder.write("choose.py", R"py(
import torch


def define(opt):
    kind = opt["model"].lower()
    if kind in ("plain", "simple"):
        from plain import Plain as Model
    elif kind == "gan":
        from gan import GAN as Model
    else:
        raise NotImplementedError(kind)
    return Model(opt)
)py");
  const auto script = [](std::string_view path) {
    return fmt::format(R"py(
import json

import torch
from choose import define


def main(path="{}"):
    model = define(json.load(open(path)))
    for x in loader:
        model.optimize(x)


if __name__ == "__main__":
    main()
)py",
                       path);
  };
  folder.write("train.py", script("options/plain.json"));
  folder.write("train_gan.py", script("options/gan.json"));
  folder.write("options/plain.json", R"js({"model": "Plain"  // or "gan", see https://a.b
    , "net": {"width": 64}})js");
  folder.write("options/gan.json", R"js({"model": "gan", "net": {"width": 8}})js");
  const std::string path = folder.path().string();
  const auto facts = read_python({&path, 1});
  ASSERT_TRUE(facts) << facts.error().message;
  std::string all;
  for (const Program& program : facts->programs) {
    all += std::filesystem::path(program.entry->path).filename().string() + ":";
    for (const File* file : program.files) {
      if (runs_by_default(*facts, program, *file)) {
        all += " " + std::filesystem::path(file->path).filename().string();
      }
    }
    const auto layer = trained_layer(*facts, program, tensor_core_sized_layer);
    if (layer) all += " (" + layer->layer.text + ")";
    all += chooses_precision(*facts, program) ? ", in a chosen precision\n" : "\n";
  }
  EXPECT_EQ(all,
            "train.py: train.py choose.py plain.py (Conv2d of 64 to 64 channels)\n"
            "train_gan.py: train_gan.py choose.py gan.py, in a chosen precision\n");
}

// A text may name any file of the machine: only those of the project are read.
TEST(DefaultSettings, OfOtherFoldersAreNotRead) {
  TemporaryFolder folder;
  folder.write("project/setup.py", "");
  folder.write("project/inside.json", R"js({"net": {"width": 64}})js");
  folder.write("outside.json", R"js({"net": {"width": 8}})js");
  const auto width = [&](const std::string& path) {
    folder.write("project/train.py", fmt::format(R"py(
import json
import torch

def train(opt):
    use(opt["net"]["width"])
    for x in loader:
        torch.relu(x.cuda()).mean().backward()

if __name__ == "__main__":
    train(json.load(open("{}")))
)py",
                                                 path));
    const std::string project = (folder.path() / "project").string();
    const auto facts = read_python({&project, 1});
    if (!facts || facts->programs.empty()) return std::string("no program");
    for (const Call* call : facts->method_calls("use")) {
      const auto value =
          default_setting(*facts, facts->programs.front(), *call->arguments[0].value);
      return std::string(value.value_or("unknown"));
    }
    return std::string("no call");
  };
  EXPECT_EQ(width("inside.json"), "64");
  EXPECT_EQ(width("../outside.json"), "unknown");
  EXPECT_EQ(width((folder.path() / "outside.json").string()), "unknown");
}

}  // namespace
}  // namespace rooftile::source
