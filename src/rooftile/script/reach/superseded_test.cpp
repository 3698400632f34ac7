#include "rooftile/script/reach/superseded.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "rooftile/readers/python/read_python.h"
#include "tests/support/temporary_folder.h"

namespace rooftile::source {
namespace {

std::string script(const std::string& rate) {
  return "import torch\n"
         "model = torch.nn.Linear(8, 8).cuda()\n"
         "optimizer = torch.optim.SGD(model.parameters(), lr=" +
         rate +
         ")\n"
         "for x in torch.utils.data.DataLoader(data):\n"
         "    model(x.cuda()).sum().backward()\n"
         "    optimizer.step()\n";
}

// Of the scripts at the paths those that are superseded.
std::string superseded(TemporaryFolder& folder, const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::filesystem::create_directories((folder / path).parent_path());
    folder.write(path, script(std::to_string(files.size())));
    files.push_back((folder / path).string());
  }
  const SourceFacts facts = read_python(files).value();
  std::string found;
  for (std::size_t i = 0; i < files.size(); ++i) {
    for (const auto& file : facts.files) {
      if (file->path == files[i] && is_superseded(facts, *file)) found += paths[i] + " ";
    }
  }
  return found;
}

TEST(Superseded, ByALaterVersionThatIsStarted) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / ".git");
  const std::vector<std::string> scripts{"net-v1/train.py", "net-v2-big/train.py", "v3/train.py"};
  EXPECT_EQ(superseded(folder, scripts), "") << "nothing says which one is started";
  folder.write("net-v2-big/run.sh", "python train.py\n");
  EXPECT_EQ(superseded(folder, scripts), "net-v1/train.py ");
  folder.write("README.md", "python net-v1/train.py\n");
  EXPECT_EQ(superseded(folder, scripts), "") << "both are";
}

TEST(Superseded, ByTheScriptThatItIsACopyOf) {
  TemporaryFolder folder;
  EXPECT_EQ(superseded(folder, {"train.py", "third_party/net/train.py", "net/main.py"}),
            "third_party/net/train.py ");
}

}  // namespace
}  // namespace rooftile::source
