#include "rooftile/readers/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/support/temporary_folder.h"

namespace rooftile {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string reader_of(const std::string& path) {
  const auto reader = find_reader(path);
  return reader ? std::string((*reader)->name) : "none: " + reader.error().message;
}

TEST(FindReader, KnowsFilesByNameAndContent) {
  const TemporaryFolder folder;
  const std::pair<const char*, std::pair<const char*, const char*>> cases[] = {
      {"hf_config", {"config.json", R"({"model_type": "llama"})"}},
      {"kineto", {"trace.json", R"({"traceEvents": []})"}},
      {"text", {"ops.txt", "gemm a bf16 m=1 n=2 k=3\n"}},
      {"text", {"comments.txt", "\n# sizes of a layer\n  gemm a bf16 m=1 n=2 k=3\n"}},
      {"text", {"broken.txt", "gemm a bf16 m=0 n=2 k=3\n"}},
      {"text", {"any.workload", "hello\n"}},
      {"timings", {"times.csv", "op,time_us\ngemm a bf16 m=1 n=2 k=3,4\n"}},
      {"python", {"train.py", "import torch\n"}}};
  for (const auto& [reader, file] : cases) {
    EXPECT_EQ(reader_of(folder.write(file.first, file.second)), reader) << file.first;
  }
  EXPECT_EQ(reader_of("timm:resnet50"), "library");
}

TEST(FindReader, SaysWhatOtherFilesAre) {
  const TemporaryFolder folder;
  const std::string expected =
      ": expected an ONNX model, an exported program (.pt2), a Hugging Face config.json, a PyTorch "
      "profiler trace, an Nsight Systems export, a script, timings or the text form";
  const std::pair<std::pair<const char*, const char*>, std::string> cases[] = {
      {{"a.txt", "hello"}, "plain text" + expected},
      {{"a.txt", "hello\n"}, "plain text" + expected},
      {{"a.txt", "# hello\n\n"}, "plain text" + expected},
      {{"a.jpg", "\xff\xd8\xff\xe0"}, "a JPEG image" + expected},
      {{"a.json", "{\"a\": 1}"}, "JSON text of another kind" + expected},
      {{"a.dat", "\x01\x02"}, "binary data" + expected},
      {{"config.json", ""}, "empty" + expected},
      {{"a.workload", ""}, "empty" + expected},
      {{"a.pt", ""}, "empty" + expected}};
  for (const auto& [file, message] : cases) {
    EXPECT_EQ(reader_of(folder.write(file.first, file.second)), "none: " + message) << file.first;
  }
}

TEST(FindReader, SaysWhatToGiveInThePlaceOfWeights) {
  const TemporaryFolder folder;
  const std::string program = "none: it holds weights, not the network. Two lines of Python write",
                    config = "none: it holds weights alone, and none are needed: give the config",
                    keras = "none: a Keras file: in Python, model.export(\"model.onnx\"";
  const std::pair<const char*, std::string> cases[] = {
      {"a.pt", program},
      {"a.pth", program},
      {"a.PTH", program},
      {"a.ckpt", program},
      {"a.gguf", config},
      {"pytorch_model.bin", config},
      {"a.safetensors", config},
      {"a.h5", keras},
      {"a.keras", keras},
      {"a.pt2", "none: not an archive that torch.export.save wrote, or one that is cut"}};
  for (const auto& [name, advice] : cases) {
    EXPECT_THAT(reader_of(folder.write(name, "\x01\x02")), StartsWith(advice)) << name;
  }
}

// An owner and a name, of the characters that the hub allows, are a model of it.
TEST(FindReader, SaysHowToGetAModelOfTheHub) {
  EXPECT_THAT(reader_of("meta-llama/Llama-3.1-8B"),
              EndsWith("; for a model of the Hugging Face Hub run `hf download "
                       "meta-llama/Llama-3.1-8B config.json --local-dir Llama-3.1-8B`, then "
                       "`rooftile check Llama-3.1-8B`"));
  EXPECT_THAT(reader_of("Ab_9.z-/Zz09_-."), HasSubstr("hf download Ab_9.z-/Zz09_-. "));
  for (const char* path : {"Llama-3.1-8B",
                           "/Llama-3.1-8B",
                           "meta-llama/",
                           "./Llama-3.1-8B",
                           "../Llama-3.1-8B",
                           "meta llama/Llama",
                           "meta-llama/Llama 3",
                           "meta-llama/a/b",
                           "meta~/Llama",
                           "meta/Llama~",
                           "meta:/a",
                           "meta/a:",
                           "meta@/a",
                           "meta/a@",
                           "meta[/a",
                           "meta/a[",
                           "meta`/a",
                           "meta/a`",
                           "meta{/a",
                           "meta/a{",
                           "meta,/a",
                           "models/a.onnx",
                           "models/a.pt2",
                           "models/a.json",
                           "models/a.gz",
                           "models/a.sqlite",
                           "models/a.py",
                           "models/a.txt",
                           "models/a.nsys-rep",
                           "models/a.csv"}) {
    EXPECT_THAT(reader_of(path), StartsWith("none: ")) << path;
    EXPECT_THAT(reader_of(path), Not(HasSubstr("hf download"))) << path;
  }
}

TEST(ReadInput, TakesOperationsInThePlaceOfAFile) {
  const std::string text = "gemm a bf16 m=1 n=2 k=3";
  const auto input = read_input(text, {});
  ASSERT_TRUE(input) << to_string(input.error());
  EXPECT_EQ(input->workload.sources, std::vector<std::string>{text});
  ASSERT_EQ(input->workload.ops.size(), 1U);
  EXPECT_EQ(input->workload.ops.front().source.file, text);
  EXPECT_EQ(input->workload.ops.front().source.line, 0);
  EXPECT_EQ(input->timelines.size(), 0U);
}

// 80 characters of the first line are the name.
TEST(ReadInput, ShortensTheNameOfManyOperations) {
  const auto name = [](const std::string& text) {
    const auto input = read_input(text, {});
    return input ? input->workload.sources.front() : to_string(input.error());
  };
  const std::string first = "gemm a bf16 m=1 n=2 k=3", second = "gemm b bf16 m=1 n=2 k=3";
  EXPECT_EQ(name(first + "\n" + second), first + "…");
  const std::string longest = "gemm " + std::string(80 - first.size() + 1, 'a') + first.substr(6);
  ASSERT_EQ(longest.size(), 80U);
  EXPECT_EQ(name(longest), longest);
  const std::string longer = "gemm a" + longest.substr(5);
  EXPECT_EQ(name(longer), longer.substr(0, 80) + "…");
  EXPECT_EQ(name(longer + "\n" + second), longer.substr(0, 80) + "…");
}

TEST(ReadInput, PrefersAFileOfThatName) {
  const TemporaryFolder folder;
  const std::string path = folder.write("gemm a=1.txt", "gemm other bf16 m=1 n=2 k=3\n");
  const auto input = read_input(path, {});
  ASSERT_TRUE(input) << to_string(input.error());
  EXPECT_EQ(input->workload.ops.front().name, "other");
  EXPECT_EQ(reader_of("a=1"), "none: No such file or directory");
  EXPECT_EQ(reader_of("a 1"), "none: No such file or directory");
}

TEST(ReadInput, BuildsAModelOfALibrary) {
  const auto unbuilt = read_input("timm:resnet50", {});
  ASSERT_FALSE(unbuilt);
  EXPECT_EQ(to_string(unbuilt.error()),
            "timm:resnet50: a name of a library's model is not read here");
  ReadOptions options;
  options.build = [](const std::string& target, const ReadOptions&) -> Result<Workload> {
    return fail("no such model: " + target, target == "timm:elsewhere" ? "there" : "");
  };
  const auto failed = read_input("timm:resnet50", options);
  ASSERT_FALSE(failed);
  EXPECT_EQ(to_string(failed.error()), "timm:resnet50: no such model: timm:resnet50");
  const auto elsewhere = read_input("timm:elsewhere", options);
  ASSERT_FALSE(elsewhere);
  EXPECT_EQ(elsewhere.error().where, "there");
}

TEST(ReadInput, RefusesADecodeStepOfOtherFormats) {
  const TemporaryFolder folder;
  ReadOptions options;
  options.mode = Mode::decode;
  const std::string path = folder.write("ops.txt", "gemm a bf16 m=1 n=2 k=3\n");
  const auto input = read_input(path, options);
  ASSERT_FALSE(input);
  EXPECT_EQ(input.error().where, path);
  EXPECT_THAT(input.error().message,
              StartsWith("--mode decode: a decode step is derived from a config.json only; write"));
}

TEST(ReadInput, RefusesTextWithoutOperations) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.workload", "# nothing\n");
  const auto input = read_input(path, {});
  ASSERT_FALSE(input);
  EXPECT_EQ(to_string(input.error()), path + ": holds no operation");
}

TEST(ReadInput, DoesNotReadScriptsAsOperations) {
  const TemporaryFolder folder;
  const std::string path = folder.write("train.py", "import torch\n");
  ASSERT_NE(script_reader(path), nullptr);
  EXPECT_EQ(script_reader(path)->name, "python");
  EXPECT_EQ(script_reader("a.json"), nullptr);
  const auto input = read_input(*script_reader(path), path, {});
  ASSERT_FALSE(input);
  EXPECT_EQ(input.error(), (Error{"scripts have no operations of their own: expected a model or a "
                                  "trace",
                                  path}));
}

}  // namespace
}  // namespace rooftile
