#include "rooftile/readers/python/torch_version.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "rooftile/pipeline/fix.h"
#include "rooftile/readers/python/read_python.h"
#include "rooftile/rooftile.h"
#include "tests/support/temporary_folder.h"

namespace rooftile::source {
namespace {

TEST(TorchVersion, IsTheLowestThatIsStated) {
  const auto version = [](std::string_view text) {
    const auto found = stated_torch(text);
    return found ? found->major * 100 + found->minor : 0;
  };
  EXPECT_EQ(version("numpy\ntorch>=1.8,<3\n"), 108);
  EXPECT_EQ(version("  - pytorch=1.12.1=py3.8_cuda11\n"), 112);
  EXPECT_EQ(version("install_requires=['torch >= 2.1']"), 201);
  EXPECT_EQ(version("torch = \"^2.3.0\""), 203);
  EXPECT_EQ(version("Tested with PyTorch 1.10+ and **PyTorch** 2.0"), 110);
  EXPECT_EQ(version("PyTorch 1.10"), 110);
  EXPECT_EQ(version("torch 1.10"), 110);
  EXPECT_EQ(version("xPyTorch 1.10, ytorch 1.11, x-torch 1.12"), 0);
  EXPECT_EQ(version("torch==2.4.0+cu121\ntorchvision==0.9\n"), 204);
  EXPECT_EQ(version("torch<2.0\ntorch-scatter==1.2\npip install torch\nimport torch.nn"), 0);
  EXPECT_EQ(version("torch"), 0);
  EXPECT_EQ(version("torch==1.8\ntorch==1.7\ntorch==2.0\n"), 107);
  EXPECT_EQ(version("torch==1"), 0);
  EXPECT_EQ(version("torch==1.x"), 0);
  EXPECT_EQ(version("torch 123.456"), 12'756);
  EXPECT_EQ(version("torch 1234.5"), 0);
  EXPECT_EQ(version("torch 1.1234"), 0);
  EXPECT_EQ(version("torch 99999999999.1"), 0);
}

TEST(TorchVersion, IsOfTheNearestFolderThatStatesIt) {
  TemporaryFolder folder;
  const auto version = [](std::vector<std::string> paths) {
    const auto found = torch_version_of(paths);
    return found ? found->major * 100 + found->minor : 0;
  };
  folder.write(".git/HEAD", "");
  const std::string train = folder.write("src/train.py", "");
  const std::string test = folder.write("test/test.py", "");
  EXPECT_EQ(version({train}), 0);
  folder.write("README.md", "PyTorch 1.4");
  EXPECT_EQ(version({train}), 104);
  folder.write("requirements.txt", "torch>=1.8\n");
  folder.write("setup.py", "install_requires=['torch>=1.6']\n");
  EXPECT_EQ(version({train}), 106) << "the lowest of one folder";
  folder.write("src/README.rst", "PyTorch 1.9");
  EXPECT_EQ(version({train}), 109);
  EXPECT_EQ(version({train, train}), 109);
  EXPECT_EQ(version({train, test}), 106);
  EXPECT_EQ(version({test, train}), 106);
  EXPECT_EQ(version({(folder / "src").string()}), 109);
}

const std::string kOldNames =
    "import torch\n"
    "from torch import nn\n"
    "model = nn.Linear(512, 512).cuda()\n"
    "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    "for x, y in loader:\n"
    "    with torch.cuda.amp.autocast():\n"
    "        loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())\n"
    "    loss.backward()\n"
    "    optimizer.step()\n";

std::size_t fixed_files(const TemporaryFolder& folder) {
  const std::string paths[] = {(folder / "src/train.py").string()};
  FixOptions options;
  options.rules = {find_rule("precision/deprecated-amp-api")};
  return fix_scripts(paths, options)->files.size();
}

// torch.autocast came with 1.10.
TEST(TorchVersion, DecidesWhichEditsAreMade) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / "src");
  std::filesystem::create_directories(folder / ".git");
  folder.write("src/train.py", kOldNames);
  EXPECT_EQ(fixed_files(folder), 1U);
  folder.write("README.md", "Needs PyTorch 1.8 or later.\n");
  EXPECT_EQ(fixed_files(folder), 0U);
  folder.write("requirements/requirements.txt", "torch==1.9.0+cu113\n");
  EXPECT_EQ(fixed_files(folder), 0U);
  std::filesystem::remove(folder / "requirements/requirements.txt");
  folder.write("requirements.txt", "torch>=1.10\n");
  EXPECT_EQ(fixed_files(folder), 1U) << "requirements are read before the readme";
}

const std::string kOpenDevice =
    "import torch\n"
    "from torch import nn\n"
    "def train(model, loader, device):\n"
    "    model = model.to(device)\n"
    "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    "    for x, y in loader:\n"
    "        loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))\n"
    "        loss.backward()\n"
    "        optimizer.step()\n"
    "train(nn.Linear(8, 8), make_loader(), cfg.accelerator)\n";

bool trains_on_gpu(const std::string& path, bool on_gpu) {
  PythonOptions options;
  options.on_gpu = on_gpu;
  const std::string paths[] = {path};
  const Result<SourceFacts> facts = read_python(paths, options);
  return facts && facts->programs.size() == 1 && facts->programs.front().trains_on_gpu;
}

// The user's word decides what the source leaves open, and nothing else.
TEST(OpenDevices, AreGpusByTheUsersWord) {
  TemporaryFolder folder;
  const std::string file = folder.write("train.py", kOpenDevice);
  EXPECT_TRUE(trains_on_gpu(file, false)) << "the script is named itself";
  EXPECT_FALSE(trains_on_gpu(folder.path().string(), false));
  EXPECT_TRUE(trains_on_gpu(folder.path().string(), true));
  std::string on_host = kOpenDevice;
  on_host.replace(on_host.find("cfg.accelerator"), 15, "\"cpu\"");
  folder.write("train.py", on_host);
  EXPECT_FALSE(trains_on_gpu(file, true));
}

// Also where no variable of that name holds it.
TEST(OpenDevices, AreKnownByTheirNames) {
  TemporaryFolder folder;
  const std::pair<const char*, bool> cases[] = {
      {"cfg.accelerator", true}, {"cfg['device']", true}, {"cfg.dev", true},
      {"get_device()", true},    {"cfg.develop", false},  {"cfg['place']", false},
      {"load(device)", false},
  };
  for (const auto& [place, is_gpu] : cases) {
    std::string text = kOpenDevice;
    for (std::size_t at = text.find("to(device)"); at != text.npos; at = text.find("to(device)")) {
      text.replace(at, 10, "to(place)");
    }
    text.replace(text.find("    model ="), 0, "    place = " + std::string(place) + "\n");
    EXPECT_EQ(trains_on_gpu(folder.write("train.py", text), false), is_gpu) << place;
  }
}

}  // namespace
}  // namespace rooftile::source
