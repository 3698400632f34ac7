#include "rooftile/analysis/trace/python_sites.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/support/timeline_text.h"

namespace rooftile::trace {
namespace {

TEST(PythonSites, TellsFramesApart) {
  const std::vector<std::pair<const char*, FrameKind>> cases{
      {"train.py(88): train_step", FrameKind::user},
      {"/home/me/project/train.py(88): main", FrameKind::user},
      {"my_package/model.py(3): forward", FrameKind::user},
      {"torch/nn/modules/module.py(1532): _call_impl", FrameKind::internal},
      {"/opt/conda/lib/python3.10/site-packages/torch/optim/sgd.py(1): step", FrameKind::internal},
      {"/opt/conda/lib/python3.10/site-packages/timm/x.py(1): f", FrameKind::library},
      {"/usr/lib/python3.10/runpy.py(196): _run_module_as_main", FrameKind::internal},
      {"threading.py(1032): _bootstrap", FrameKind::internal},
      {"transformers/models/bert/modeling_bert.py(5): forward", FrameKind::library},
      {"<built-in method item of Tensor object at 0x7f>", FrameKind::internal},
      {"<frozen os>(808): getenv", FrameKind::internal},
      {"nn.Module: Linear_0", FrameKind::module},
      {"", FrameKind::internal},
  };
  for (const auto& [name, kind] : cases) EXPECT_EQ(frame_kind(name), kind) << name;
}

TEST(PythonSites, ReadsTheLineOfFrames) {
  EXPECT_EQ(source_of_frames("a/train.py(88): f").line, 88);
  EXPECT_EQ(source_of_frames("torch/x.py(1): g;a/train.py(80): <module>").file, "a/train.py");
  EXPECT_EQ(source_of_frames("timm/x.py(1): g;torch/y.py(2): h").file, "timm/x.py");
  EXPECT_EQ(source_of_frames("train.py(1): f;main.py(2): g").file, "train.py");
  EXPECT_EQ(source_of_frames("timm/x.py(1): f;PIL/y.py(2): g").file, "timm/x.py");
  for (const char* const text :
       {"", "nn.Module: A_0", "train.py(x): f", "train.py(5", "train.py("}) {
    EXPECT_EQ(source_of_frames(text), Provenance{}) << text;
  }
}

TEST(PythonSites, FindsTheInnermostUserLineAndModules) {
  const auto timeline = parse_timeline(R"(
python main 0us 100us train.py(80): <module>
python main 10us 80us train.py(54): step
python main 20us 60us nn.Module: Net_0
python main 25us 50us nn.Module: Block_1
python main 30us 40us nn.Module: Linear_2
python main 31us 30us torch/nn/functional.py(9): linear
op main 40us 5us aten::item
)");
  ASSERT_TRUE(timeline);
  const Links links = link_events(*timeline);
  PythonSites sites(*timeline, links);
  const auto found = sites.at({{0, 40'000}, {0, 5'000}, {0, 100'000}, {3, 0}, {0, 89'000}});
  EXPECT_EQ(sites.module_path(found[0]), "Block_1.Linear_2");
  EXPECT_EQ(sites.source(found[0]).line, 54);
  EXPECT_EQ(sites.module_path(found[1]), "");
  EXPECT_EQ(sites.source(found[1]).line, 80);
  EXPECT_EQ(found[2], SiteRef{});
  EXPECT_EQ(found[3], SiteRef{});
  EXPECT_EQ(sites.source(found[4]).line, 54);
}

// Older recordings name the stack and the module with each operator.
TEST(PythonSites, TakesThePlaceThatOperatorsName) {
  auto timeline = parse_timeline(R"(
op main 0us 100us aten::linear
op main 10us 50us aten::addmm
op main 20us 20us aten::mm
)");
  ASSERT_TRUE(timeline);
  Column<std::uint32_t> modules, stacks;
  for (const char* module : {"Net", "Linear_2", ""}) {
    modules.push_back(timeline->strings.id_of(module));
  }
  for (const char* stack :
       {"timm/y.py(1): g;train.py(80): step", "torch/x.py(1): f;train.py(80): step", ""}) {
    stacks.push_back(timeline->strings.id_of(stack));
  }
  timeline->ops.module = std::move(modules);
  timeline->ops.stack = std::move(stacks);
  const Links links = link_events(*timeline);
  PythonSites sites(*timeline, links);
  const auto found = sites.at({{0, 25'000, 2}, {0, 5'000, 0}, {0, 5'000, kNone}});
  EXPECT_EQ(sites.module_path(found[0]), "Linear_2");
  EXPECT_EQ(sites.source(found[0]).line, 80);
  EXPECT_EQ(sites.module_path(found[1]), "Net");
  EXPECT_EQ(found[1].frame, found[0].frame);  // one line is one place
  EXPECT_EQ(found[2], SiteRef{});
}

}  // namespace
}  // namespace rooftile::trace
