#include "rooftile/readers/python/commands.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "rooftile/readers/python/read_python.h"
#include "rooftile/workload/source_store.h"
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

TEST(Commands, AreStartedByPythonOrALauncher) {
  const std::pair<const char*, const char*> cases[] = {
      {"/usr/bin/python3.9 train.py", "train.py\n"},
      {"accelerate launch train.py", "train.py\n"},
      {"deepspeed train.py --a", "train.py|--a=\n"},
      {"$PYTHON train.py", "train.py\n"},
      {"./train.py", "./train.py\n"},
      {"Don't wait:\npython train.py", "train.py\n"},
      {"bin/train.py", ""},
      {"train.py python", ""},
      {"python -m pdb train.py", "train.py\n"},
      {"python -m accelerate.commands.launch train.py", "train.py\n"},
      {"python -m train", "module train\n"},
      {"-m train python", ""},
      {"python -m", ""},
      {"python train.py other.py", "train.py\n"},
      {"python --flag train.py --a 1", "train.py|--a=1\n"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(described(text), expected) << text;
}

TEST(Commands, HaveOptionsWithValues) {
  const std::pair<const char*, const char*> cases[] = {
      {"-a", "|-a="},
      {"--a=b=c", "|--a=b=c"},
      {"--a 1 2", "|--a=$"},
      {"--a=1 2", "|--a=$"},
      {"1 --a", "|--a="},
      {"--a -1", "|--a=-1"},
      {"--a ---b", "|--a=---b"},
      {"--a -", "|--a=-"},
      {"--a ...", "|--a=$"},
      {"--a x[0]", "|--a=$"},
      {"--a 'b c'", "|--a=b c"},
      {"--a \"b\"'c'", "|--a=bc"},
      {"--a 'b\n--c", "|--a=b"},
      {"--a b\\ c", "|--a=b c"},
      {"--a b\\\n--c", "|--a=b|--c="},
      {"--a b # --c", "|--a=b"},
      {"--a b#c", "|--a=b#c"},
      {"--a b; --c", "|--a=b"},
      {"--a b | tee", "|--a=b"},
      {"--a\tb\r", "|--a=b"},
  };
  for (const auto& [options, expected] : cases) {
    EXPECT_EQ(described(std::string("python t.py ") + options),
              "t.py" + std::string(expected) + "\n")
        << options;
  }
}

// Of a command no more than 200 words are read.
TEST(Commands, MayBeLong) {
  std::string start = "python t.py";
  for (int i = 0; i < 197; ++i) start += " x";
  EXPECT_EQ(described(start + " --a --b"), "t.py|--a=\n");
  EXPECT_EQ(described("A='--a --b'\n" + start + " $A"), "t.py|--a=\n");
}

TEST(Commands, HaveWhatShellVariablesHold) {
  const std::pair<const char*, const char*> cases[] = {
      {"A=1 B=2\npython t.py --a $A --b $B", "|--a=1|--b=2"},
      {"1A=1\npython t.py --a $1A", "|--a=$"},
      {"=1\npython t.py --a $", "|--a=$"},
      {"A=1 x\npython t.py --a $A", "|--a=$"},
      {"A-B=1\npython t.py --a $A-B", "|--a=$"},
      {"A=1\npython t.py --a $A/b --c ${A}d --e x$A", "|--a=1/b|--c=1d|--e=x1"},
      {"A='b c'\npython t.py --a $A", "|--a=$"},
      {"A='--b c'\npython t.py --a x$A", "|--a=x--b c"},
      {"python t.py --a ${A:=3} --b ${B:-4} --c ${C}", "|--a=3|--b=4|--c=$"},
      {"A=5\npython t.py --a ${A:=3}", "|--a=5"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(described(text), "t.py" + std::string(expected) + "\n") << text;
  }
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
  std::string several;
  for (const Command& command :
       commands_in("python a.py\nCUDA_VISIBLE_DEVICES=0,1 python b.py\n"
                   "CUDA_VISIBLE_DEVICES= python c.py\npython d.py --gpus 0,1\n"
                   "python e.py --gpus 0\npython f.py --ids 0,1\n"
                   "CUDA_VISIBLE_DEVICES=12 python g.py\n"
                   "export CUDA_VISIBLE_DEVICES=0,1\npython h.py\n")) {
    if (command.is_on_several_gpus) several += command.script + " ";
  }
  EXPECT_EQ(several, "b.py c.py d.py h.py ");
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

TEST(Commands, ThatOnlyEvaluateGiveNothing) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / "src");
  std::filesystem::create_directories(folder / ".git");
  folder.write("src/train.py", kScript);
  const std::pair<const char*, bool> cases[] = {
      {"src/train.py", true},
      {"-m src.train", true},
      {"-m train", false},
      {"src/train.py --eval", false},
      {"src/train.py --eval=true", false},
      {"src/train.py --eval 1", false},
      {"src/train.py --eval false", true},
      {"src/train.py -e", false},
      {"src/train.py --phase test", false},
      {"src/train.py --phase TEST", false},
      {"src/train.py --do_train --phase test", true},
      {"src/train.py --test-size 3", true},
      {"src/train.py --name testing", true},
  };
  for (const auto& [program, counts] : cases) {
    folder.write("README.md", "python " + std::string(program) + " -j 4\n");
    EXPECT_EQ(values(folder), counts ? "4 False train" : "0 False train") << program;
  }
}

TEST(Commands, StandInDocumentsAroundTheProgram) {
  TemporaryFolder folder;
  folder.write(".git/HEAD", "");
  folder.write("src/train.py", kScript);
  const std::pair<const char*, bool> cases[] = {
      {"README", true},          {"readme.txt", true},
      {"run.sh", true},          {"Makefile", true},
      {"notes.md", false},       {"scripts/run.sh", true},
      {"src/run.sh", true},      {"scripts/deep/run.sh", false},
      {".hidden/run.sh", false}, {"src/tools/run.sh", true},
  };
  for (const auto& [path, counts] : cases) {
    folder.write(path, "python src/train.py -j 4\n");
    EXPECT_EQ(values(folder), counts ? "4 False train" : "0 False train") << path;
    std::filesystem::remove(folder / path);
  }
}

TEST(Commands, SayHowAProgramIsStarted) {
  TemporaryFolder folder;
  folder.write(".git/HEAD", "");
  const std::string path = folder.write("src/train.py", kScript);
  const std::pair<const char*, const char*> cases[] = {
      {"", ""},
      {"python src/other.py --fp16", ""},
      {"python src/train.py", "started "},
      {"CUDA_VISIBLE_DEVICES=0 python src/train.py", "started one "},
      {"CUDA_VISIBLE_DEVICES=0 python src/train.py\npython src/train.py", "started "},
      {"CUDA_VISIBLE_DEVICES=0,1 python src/train.py\npython src/train.py", "started several "},
      {"python src/train.py --fp16", "started precision "},
      {"python src/train.py\npython src/train.py --use_amp", "started precision "},
      {"python src/train.py --trainer.precision=16", "started precision "},
      {"python src/train.py --name fp16", "started "},
  };
  for (const auto& [text, expected] : cases) {
    folder.write("run.sh", text);
    const auto facts = read_python({&path, 1});
    ASSERT_TRUE(facts) << text;
    const File* entry = facts->programs.front().entry;
    std::string told;
    if (facts->store().started.contains(entry)) told += "started ";
    if (facts->store().on_one_gpu.contains(entry)) told += "one ";
    if (facts->store().on_several_gpus.contains(entry)) told += "several ";
    if (facts->store().started_with_precision.contains(entry)) told += "precision ";
    EXPECT_EQ(told, expected) << text;
  }
}

TEST(Commands, GiveWhatHalfOfThemGive) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / "src");
  std::filesystem::create_directories(folder / ".git");
  folder.write("src/train.py", kScript);
  const std::string plain = "python src/train.py\n";
  const std::string wide = "python src/train.py -j 4\n";
  folder.write("README.md", wide + plain);
  EXPECT_EQ(values(folder), "? False train") << "4 or the default";
  folder.write("README.md", wide + plain + plain);
  EXPECT_EQ(values(folder), "0 False train");
  folder.write("README.md", wide + wide + plain);
  EXPECT_EQ(values(folder), "? False train");
  folder.write("README.md", wide + "python src/train.py -j 8\n");
  EXPECT_EQ(values(folder), "? False train");
}

}  // namespace
}  // namespace rooftile::source
