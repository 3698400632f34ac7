#include "rooftile/readers/python/commands.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "rooftile/readers/python/read_python.h"
#include "tests/support/temporary_folder.h"

namespace rooftile::source {
namespace {

std::string described(std::string_view text) {
  std::string all;
  for (const Command& command : commands_in(text)) {
    all += command.is_module ? "module " + command.script : command.script;
    for (const auto& [name, value] : command.options) all += "|" + name + "=" + value;
    all += "\n";
  }
  return all;
}

TEST(Commands, AreReadFromReadmesAndShellScripts) {
  EXPECT_EQ(described("# Training\n```bash\n$ python train.py --lr 0.1 --amp -j 8\n```\n"),
            "train.py|--lr=0.1|--amp=|-j=8\n");
  EXPECT_EQ(described("Run `python3 tools/train.py --lr=1e-3 --name 'a b'` and wait.\n"),
            "tools/train.py|--lr=1e-3|--name=a b\n");
  EXPECT_EQ(described("CUDA_VISIBLE_DEVICES=0 python -m torch.distributed.launch --nproc 8 \\ \n"
                      "  main.py \\\n  --sync-bn && python test.py\n"),
            "main.py|--sync-bn=\ntest.py\n");
  EXPECT_EQ(described("torchrun --nnodes 1 -m package.train --lr -1 # --amp\n./run.py --fast"),
            "module package.train|--lr=-1\n./run.py|--fast=\n");
  EXPECT_EQ(described("python train.py --lr $LR --root <path> --sizes 1 2 -- --"),
            "train.py|--lr=$|--root=$|--sizes=$\n");
  EXPECT_EQ(described("import train.py\nvim train.py\npython\n-m\n\"unclosed python train.py"), "");
}

TEST(Commands, HaveWhatShellVariablesHold) {
  EXPECT_EQ(described("LR=0.1\nexport SIZE=${SIZE:-224}\n"
                      "python train.py --lr $LR --size ${SIZE} --jobs ${JOBS:-8} --name $1\n"),
            "train.py|--lr=0.1|--size=224|--jobs=8|--name=$\n");
  EXPECT_EQ(described("ARGS=\"--amp --lr 0.2\" ; python train.py $ARGS --out $ROOT/a\n"),
            "train.py|--amp=|--lr=0.2|--out=$\n");
  EXPECT_EQ(described("A=$A$A; LR=1 python train.py --lr $LR --name ${\n"),
            "train.py|--lr=$|--name=$\n");
}

TEST(Commands, SayWhichGpusAreVisible) {
  std::string one;
  for (const Command& command :
       commands_in("python a.py\nCUDA_VISIBLE_DEVICES=0 python b.py\n"
                   "CUDA_VISIBLE_DEVICES=0,1 python c.py\nCUDA_VISIBLE_DEVICES=$GPUS python d.py\n"
                   "export CUDA_VISIBLE_DEVICES=1\npython e.py\n"
                   "CUDA_VISIBLE_DEVICES=0,1 python f.py\n")) {
    if (command.is_on_one_gpu) one += command.script + " ";
  }
  EXPECT_EQ(one, "b.py e.py ");
}

constexpr const char* kScript = R"py(
import argparse
import torch

parser = argparse.ArgumentParser()
parser.add_argument("-j", "--workers", type=int, default=0)
parser.add_argument("--amp", action="store_true")
parser.add_argument("--mode", default="train")
if __name__ == "__main__":
    args = parser.parse_args()
    use(args.workers, args.amp, args.mode)
)py";

std::string values(const TemporaryFolder& folder) {
  const std::string path = (folder / "src/train.py").string();
  const auto facts = read_python({&path, 1});
  if (!facts) return facts.error().message;
  std::string all;
  for (const Argument& argument : facts->method_calls("use").front()->arguments) {
    const Value value = facts->value(argument.value);
    if (!all.empty()) all += " ";
    if (value.kind == ValueKind::integer) all += std::to_string(value.integer);
    if (value.kind == ValueKind::boolean) all += value.boolean ? "True" : "False";
    if (value.kind == ValueKind::text) all += value.text;
    if (value.unknown()) all += "?";
  }
  return all;
}

TEST(Commands, GiveOptionsTheirValues) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / "src");
  std::filesystem::create_directories(folder / ".git");
  std::filesystem::create_directories(folder / "scripts");
  folder.write("src/train.py", kScript);
  EXPECT_EQ(values(folder), "0 False train");
  folder.write("README.md", "python src/train.py -j 4\n");
  EXPECT_EQ(values(folder), "4 False train");
  folder.write("scripts/run.sh", "python src/train.py -j 4 --amp\n");
  EXPECT_EQ(values(folder), "4 ? train") << "half of the commands give --amp";
  folder.write("src/README", "cd src\npython train.py -j 8 --mode test\npython train.py -j 4\n");
  EXPECT_EQ(values(folder), "4 False train") << "fewer than half; a test is no training";
  folder.write("README.md", "python other/train.py -j 2\n");
  EXPECT_EQ(values(folder), "4 ? train") << "of another program";
}

}  // namespace
}  // namespace rooftile::source
