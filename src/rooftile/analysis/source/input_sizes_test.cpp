#include "rooftile/analysis/source/input_sizes.h"

#include <gtest/gtest.h>

#include <string>

#include "rooftile/readers/python/read_python.h"

namespace rooftile::source {
namespace {

SourceFacts facts_of(const std::string& text) {
  Result<SourceFacts> facts = read_python_text(
      "train.py",
      "import random\nimport albumentations as A\nimport cv2\nimport kornia\nimport monai\n"
      "import numpy as np\nimport torch\nimport torchvision\n"
      "from torchvision import transforms as T\n" +
          text +
          "\nmodel = torchvision.models.resnet18().cuda()\n"
          "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
          "for x in given:\n"
          "    model(x.cuda()).mean().backward()\n"
          "    optimizer.step()\n");
  EXPECT_TRUE(facts.has_value());
  return facts ? *std::move(facts) : SourceFacts();
}

std::string text_of(const std::optional<SizeSign>& sign) { return sign ? sign->text : ""; }

struct Case {
  const char* code;
  std::string expected;
};

void expect_fixed(const std::string& before, const Case& test) {
  SCOPED_TRACE(test.code);
  const SourceFacts facts = facts_of(before + test.code);
  ASSERT_EQ(facts.programs.size(), 1u);
  EXPECT_EQ(text_of(fixed_input_size(facts, facts.programs.front())), test.expected);
}

TEST(FixedInputSize, IsThatOfCropsAndResizesToTwoNumbers) {
  for (const Case& test : {
           Case{"T.RandomCrop(16)", "T.RandomCrop(16)"},
           Case{"T.RandomCrop(15)", ""},
           Case{"T.RandomCrop(n)", ""},
           Case{"T.RandomCrop(crop_size)", "T.RandomCrop(crop_size)"},
           Case{"T.RandomCrop(batch_size)", ""},
           Case{"T.RandomCrop(random.randint(100, 200))", ""},
           Case{"T.RandomCrop()", ""},
           Case{"T.RandomCrop(*args)", ""},
           Case{"T.RandomCrop(x.shape[0])", "T.RandomCrop(x.shape[0])"},
           Case{"sizes = [32]\nT.RandomCrop(sizes[0])", "T.RandomCrop(sizes[0])"},
           Case{"sizes = [8]\nT.RandomCrop(sizes[0])", ""},
           Case{"T.RandomCrop(rows[0])", ""},
           Case{"T.Resize(256)", ""},
           Case{"T.Resize(size)", ""},
           Case{"T.Resize((256, 256))", "T.Resize((256, 256))"},
           Case{"T.Resize([a, b])", "T.Resize([a, b])"},
           Case{"T.Resize((1, 2, 3))", ""},
           Case{"T.Resize(x.shape[1:])", "T.Resize(x.shape[1:])"},
           Case{"T.Scale((256, 256))", "T.Scale((256, 256))"},
           Case{"T.FiveCrop(224)", ""},
           Case{"A.RandomCrop(16, 16)", "A.RandomCrop(16, 16)"},
           Case{"monai.transforms.RandSpatialCrop(96)", ""},
           Case{"kornia.RandomCrop(224)", ""},
           // What is longer than 50 characters is not written out.
           Case{"T.RandomCrop(224, padding=16, padding_mode='edge')",
                "T.RandomCrop(224, padding=16, padding_mode='edge')"},
           Case{"T.RandomCrop(224, padding=16, padding_mode='edge8')", "RandomCrop(...)"},
           Case{"torchvision.datasets.CIFAR10('x')", "the data set CIFAR10"},
           Case{"torchvision.datasets.ImageNet('x')", ""},
           Case{"cv2.resize(image, (64, 64))", ""},
       }) {
    expect_fixed("", test);
  }
}

TEST(FixedInputSize, IsThatOfWhatEachSampleIsResizedTo) {
  for (const Case& test : {
           Case{"cv2.resize(load(i), (64, 64))", "cv2.resize(load(i), (64, 64))"},
           Case{"cv2.resize(load(i), [64, 64])", "cv2.resize(load(i), [64, 64])"},
           Case{"cv2.resize(load(i), (64, 8))", ""},
           Case{"cv2.resize(load(i), (64, 64, 3))", ""},
           Case{"cv2.resize(load(i), (size[0], 64))", ""},
           Case{"cv2.resize(load(i), (64, random.randint(32, 64)))", ""},
           Case{"T.Resize((64, 64))(load(i))", "T.Resize((64, 64))"},
           Case{"T.Resize((64, 8))(load(i))", ""},
           Case{"T.Resize((h, w))(load(i))", ""},
           Case{"T.RandomCrop(size)(load(i))", ""},
           Case{"torch.zeros(3).resize((64, 64))", ""},
       }) {
    expect_fixed(
        "class Images(torch.utils.data.Dataset):\n"
        "    def __getitem__(self, i):\n"
        "        return ",
        test);
  }
}

TEST(FixedInputSize, IsWhatFunctionsForDataAreTold) {
  const std::string loaders = "def get_loaders(args, img_size):\n    pass\n";
  for (const Case& test : {
           Case{"get_loaders(1, 224)", "get_loaders(1, 224)"},
           Case{"get_loaders(1, 15)", ""},
           Case{"get_loaders(1, args.size)", "get_loaders(1, args.size)"},
           Case{"get_loaders(1, random.choice(sizes))", ""},
           Case{"get_loaders(1, 224, multiscale)", ""},
       }) {
    expect_fixed(loaders, test);
  }
  expect_fixed("def get_rows(args, img_size):\n    pass\n", {"get_rows(1, 224)", ""});
  expect_fixed("def cut(image, crop_size):\n    return image[0:crop_size]\n",
               {"cut(1, 2)", "crops of crop_size"});
  expect_fixed("def cut(image, crop_size):\n    return image[crop_size:]\n", {"cut(1, 2)", ""});
}

// What the collate function does with its batch, beside what it is for.
TEST(VaryingInputSize, IsThatOfBatchesPaddedToTheirLongest) {
  struct Padding {
    const char* lines;
    bool varies;
  };
  for (const Padding& test : {
           Padding{"n = max(len(x) for x in batch)\n    return torch.zeros(len(batch), n, 9)",
                   true},
           Padding{"n = min(len(x) for x in batch)\n    return torch.zeros(len(batch), n, 9)",
                   false},
           Padding{"n = max(3, 4)\n    return torch.zeros(len(batch), n, 9)", false},
           Padding{"n = max(len(batch[0]), 4)\n    return torch.zeros(len(batch), n, 9)", true},
           Padding{"n = max(batch[0].shape)\n    return torch.zeros(len(batch), n, 9)", true},
           Padding{"n = np.max([len(x) for x in batch])\n    return torch.zeros(1, n, 9)", true},
           Padding{"n = torch.sort([len(x) for x in batch])\n    return torch.zeros(1, n, 9)",
                   true},
           Padding{"n = max(len(x) for x in batch)\n    return torch.stack(batch)", false},
           Padding{"return torch.zeros(len(batch), 9, 9)", false},
           Padding{"return torch.nn.utils.rnn.pad_sequence(batch)", true},
           Padding{"return fill(batch, max(len(x) for x in batch))", true},
           Padding{"return more(batch, max(len(x) for x in batch))", false},
           // Rows of words beside images, which are stacked as they are.
           Padding{"n = max(len(x) for x in batch)\n"
                   "    return torch.stack(batch), torch.zeros(len(batch), n)",
                   false},
           Padding{"n = max(len(x) for x in batch)\n"
                   "    return torch.stack(batch), torch.zeros((len(batch), n))",
                   false},
           Padding{"n = max(len(x) for x in batch)\n"
                   "    return torch.stack(batch), torch.zeros((len(batch), n, 3))",
                   true},
           Padding{"n = max(len(x) for x in batch)\n"
                   "    return torch.stack(batch), torch.LongTensor(len(batch), n)",
                   false},
           Padding{"n = max(len(x) for x in batch)\n"
                   "    return torch.stack(batch), torch.LongTensor(len(batch), n, 3)",
                   true},
           Padding{"n = max(len(x) for x in batch)\n    at = random.randint(0, 9)\n"
                   "    return torch.zeros(len(batch), n, 9)[at : at + 9]",
                   false},
           Padding{"n = max(len(x) for x in batch)\n"
                   "    return torch.zeros(len(batch), n, 9)[0:9]",
                   true},
       }) {
    SCOPED_TRACE(test.lines);
    const SourceFacts facts = facts_of(
        "def fill(batch, n):\n    return torch.zeros(len(batch), n, 9)\n"
        "def more(batch, n):\n    return fill(batch, n)\n"
        "def collate(batch):\n    " +
        std::string(test.lines) +
        "\nloader = torch.utils.data.DataLoader(data, collate_fn=collate)");
    ASSERT_EQ(facts.programs.size(), 1u);
    EXPECT_EQ(text_of(varying_input_size(facts, facts.programs.front())),
              test.varies ? "collate pads each batch to its longest" : "");
  }
}

TEST(VaryingInputSize, IsDrawnByABatchSampler) {
  struct Sampler {
    const char* lines;
    bool varies;
  };
  for (const Sampler& test : {
           Sampler{"n = random.randint(8, 16)\n        batch.append((0, n))", true},
           Sampler{"n = np.random.choice(sizes)\n        batch.append((0, n))", true},
           Sampler{"n = random.randint(8, 16)\n        batch.append(n)", false},
           Sampler{"random.shuffle(rows)\n        batch.append((0, 3))", false},
           Sampler{"batch.append((0, 3))", false},
       }) {
    SCOPED_TRACE(test.lines);
    const SourceFacts facts =
        facts_of("class Sizes:\n    def __iter__(self):\n        " + std::string(test.lines) +
                 "\n        yield batch\n"
                 "loader = torch.utils.data.DataLoader(data, batch_sampler=Sizes())");
    ASSERT_EQ(facts.programs.size(), 1u);
    EXPECT_EQ(text_of(varying_input_size(facts, facts.programs.front())),
              test.varies ? "Sizes draws a size for each batch" : "");
  }
}

}  // namespace
}  // namespace rooftile::source
