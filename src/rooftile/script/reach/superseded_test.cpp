#include "rooftile/script/reach/superseded.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <tuple>
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

// Whether the first of two scripts is superseded where a document starts the second.
bool is_older(const std::string& first, const std::string& second) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / ".git");
  folder.write("README.md", "python " + second + "\n");
  return superseded(folder, {first, second}) == first + " ";
}

TEST(Superseded, VersionsAreNumbersBehindASeparator) {
  const std::tuple<const char*, const char*, bool> cases[] = {
      {"net-v9/train.py", "net-v10/train.py", true},  {"net_v1/train.py", "net_v2/train.py", true},
      {"net.V1/train.py", "net.V2/train.py", true},   {"net/v1/train.py", "net/v2/train.py", true},
      {"net-v1-old/run.py", "net-v2/train.py", true}, {"train_v1.py", "train_v2.py", true},
      {"net-v2/train.py", "net-v1/train.py", false},  {"net-v1/train.py", "net-v1/other.py", false},
      {"net-v1/train.py", "web-v2/train.py", false},  {"rev1/train.py", "rev2/train.py", false},
      {"net-va/train.py", "net-vb/train.py", false},  {"net-1/train.py", "net-2/train.py", false},
  };
  for (const auto& [first, second, expected] : cases) {
    EXPECT_EQ(is_older(first, second), expected) << first << " " << second;
  }
}

// Whether a script is held for a copy of one in the folder above: the two have five lines in common
// and differ in the learning rate; what follows is each one's own or shared.
bool is_copy(const std::string& own, const std::string& other, const std::string& shared) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / "copy");
  folder.write("copy/train.py", script("0.1") + own + shared);
  folder.write("train.py", script("0.2") + other + shared);
  const std::vector<std::string> files{(folder / "copy/train.py").string(),
                                       (folder / "train.py").string()};
  const SourceFacts facts = read_python(files).value();
  for (const auto& file : facts.files) {
    if (file->path == files[0]) return is_superseded(facts, *file);
  }
  return false;
}

TEST(Superseded, ACopyHasSevenTenthsOfTheLines) {
  const std::string two = "first = 123\nsecond = 45\n";
  EXPECT_TRUE(is_copy("third = 789\nfourth = 12\n", "", two)) << "7 of 10";
  EXPECT_FALSE(is_copy("third = 789\nfourth = 12\nfifth = 123\n", "", two)) << "7 of 11";
  EXPECT_TRUE(is_copy("", "third = 789\nfourth = 12\nfifth = 123\n", two)) << "7 of 8";
}

TEST(Superseded, LinesOfLessThanEightLettersDoNotCount) {
  const std::string own = "third = 789\nfourth = 12\nfifth = 123\n";
  std::string shared = "first = 123\nsecond = 45\n";
  for (const char c : std::string("abcdefghijklmnopqrst")) shared += std::string(1, c) + " = 123\n";
  EXPECT_FALSE(is_copy(own, "", shared));
  EXPECT_TRUE(is_copy("aa = 123\nbb = 123\n", "", "first = 123\nsecond = 45\n")) << "7 of 10";
  EXPECT_FALSE(is_copy("aa = 123\nbb = 123\ncc = 123\n", "", "first = 123\nsecond = 45\n"));
  EXPECT_TRUE(is_copy("a = 123\nb = 123\nc = 123\n", "", "first = 123\nsecond = 45\n"));
}

}  // namespace
}  // namespace rooftile::source
