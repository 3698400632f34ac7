// Several inputs in one call.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "rooftile/rooftile.h"
#include "rooftile/workload/trace_summary.h"
#include "tests/support/temporary_folder.h"

namespace rooftile {
namespace {

using ::testing::HasSubstr;

namespace fs = std::filesystem;

class ReadSeveral : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    return folder_.write(name, text);
  }
  // `ops` operators of a microsecond, one behind the other.
  std::string write_trace(std::int64_t rank, std::int64_t ops) {
    std::string text = "{\"distributedInfo\": {\"rank\": " + std::to_string(rank) +
                       ", \"world_size\": 20},\n\"traceEvents\": [\n";
    for (std::int64_t i = 0; i < ops; ++i) {
      text += (i == 0 ? "" : ",\n") +
              std::string(
                  "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mm\", "
                  "\"pid\": 1, \"tid\": 1, \"dur\": 1, \"ts\": ") +
              std::to_string(i) + "}";
    }
    return write("rank" + std::to_string(rank) + ".json", text + "]}\n");
  }

  TemporaryFolder folder_;
};

TEST_F(ReadSeveral, KeepsTheOrderOfRecordings) {
  std::vector<std::string> paths;
  for (const std::int64_t rank : {7, 3, 11, 0, 5, 2, 9}) {
    // Sizes differ, so they are not done in this order.
    paths.push_back(write_trace(rank, rank == 7 ? 40'000 : 10 + rank));
  }
  const auto each = read_each(paths, {});
  ASSERT_TRUE(each) << to_string(each.error());
  ASSERT_EQ(each->size(), paths.size());
  for (std::size_t i = 0; i < paths.size(); ++i) {
    EXPECT_EQ((*each)[i].sources, std::vector<std::string>{paths[i]});
  }
  const auto all = read_all(paths, {});
  ASSERT_TRUE(all) << to_string(all.error());
  std::vector<std::int64_t> ranks;
  for (const TraceSummary& trace : all->traces) ranks.push_back(trace.rank.value_or(-1));
  EXPECT_EQ(ranks, (std::vector<std::int64_t>{0, 2, 3, 5, 7, 9, 11}));
}

TEST_F(ReadSeveral, FailsWithTheFirstErrorInOrder) {
  const std::string good = write_trace(0, 30'000);
  const std::string bad = write("bad.json", "{\"traceEvents\": 3}");
  const std::string worse = write("worse.json", "{\"schema\": \"x\", \"nodes\": []}");
  const std::string missing = folder_ / "missing.json";
  const std::string model = write("model.txt", "gemm a bf16 m=0 n=2 k=3\n");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{good, bad, worse}, bad},
      {{good, worse, bad, missing}, worse},
      {{missing, good, bad}, missing},
      {{good, model, bad}, model},
      {{bad, model}, bad}};
  for (int repetition = 0; repetition < 5; ++repetition) {
    for (const auto& [paths, first] : cases) {
      const auto all = read_all(paths, {});
      ASSERT_FALSE(all);
      EXPECT_NE(to_string(all.error()).find(first), std::string::npos) << to_string(all.error());
    }
  }
}

TEST_F(ReadSeveral, ReportsTheBytesOfAllFiles) {
  std::vector<std::string> paths;
  std::uint64_t bytes = 0;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    paths.push_back(write_trace(rank, 30'000));
    bytes += fs::file_size(paths.back());
  }
  paths.push_back("gemm a bf16 m=8 n=2 k=3");
  std::uint64_t last = 0;
  bool only_grows = true;
  ReadOptions options;
  options.progress = [&](std::uint64_t done, std::uint64_t total) {
    EXPECT_EQ(total, bytes);
    only_grows = only_grows && done >= last;
    last = done;
  };
  ASSERT_TRUE(read_each(paths, options));
  EXPECT_TRUE(only_grows);
  EXPECT_EQ(last, bytes);
}

// A vision transformer: no length to set.
constexpr const char* kVit =
    R"({"model_type": "vit", "architectures": ["ViTForImageClassification"],
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128,
    "image_size": 32, "patch_size": 16, "num_channels": 3, "hidden_act": "gelu",
    "torch_dtype": "float32"})";
constexpr const char* kGpt2 = R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
    "n_embd": 64, "n_layer": 2, "n_head": 2, "n_positions": 128, "vocab_size": 256})";
constexpr const char* kTraining = R"(
import torch
model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.AdamW(model.parameters())
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(64, 64)))
for (x,) in loader:
    loss = model(x.cuda()).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
)";
constexpr const char* kLayers = R"(
import torch
class Block(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
)";

std::string all_notes(const Workload& workload) {
  std::string text;
  for (const std::string& note : workload.notes) text += note + '\n';
  return text;
}

using ReadOne = ReadSeveral;

TEST_F(ReadOne, FlagsWithoutEffectAreNoted) {
  const std::string text = write("one.txt", "gemm fc fp16 m=64 n=64 k=64\n");
  const auto workload = read(text, {.batch = 8, .seq = 128, .dtype = Dtype::bf16});
  ASSERT_TRUE(workload) << to_string(workload.error());
  EXPECT_EQ(workload->unused_options, (std::vector<std::string>{"--batch", "--seq"}));
  EXPECT_THAT(all_notes(*workload), HasSubstr("--batch, --seq have no effect"));
  EXPECT_EQ(workload->ops.front().dtypes.input, Dtype::bf16);
}

TEST_F(ReadOne, ARecordingKeepsItsMode) {
  const std::string trace = write_trace(0, 3),
                    text = write("one.txt", "gemm fc fp16 m=64 n=64 k=64\n");
  const auto recorded = read(trace, {.mode = Mode::training});
  ASSERT_TRUE(recorded) << to_string(recorded.error());
  EXPECT_EQ(recorded->unused_options, std::vector<std::string>{"--mode"});
  const auto model = read(text, {.mode = Mode::training});
  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_THAT(model->unused_options, testing::IsEmpty());
}

TEST_F(ReadOne, NamesOfInputsThatCannotBeAreRefused) {
  const std::string text = write("one.txt", "gemm fc fp16 m=64 n=64 k=64\n");
  const auto shaped = read(text, {.shapes = {{"x", {8, 64}}}});
  ASSERT_FALSE(shaped);
  EXPECT_THAT(shaped.error().message, HasSubstr("--shape x has no effect"));
  const std::string config = write("gpt2.json", kGpt2);
  const auto sized = read(config, {.dims = {{"tokens", 8}}});
  ASSERT_FALSE(sized);
  EXPECT_THAT(sized.error().message, HasSubstr("the input takes --batch, --seq"));
}

TEST_F(ReadOne, ALengthIsNoneOfAnImageModels) {
  const std::string vit = write("vit.json", kVit), gpt2 = write("gpt2.json", kGpt2);
  const auto images = read(vit, {.batch = 8, .seq = 128});
  ASSERT_TRUE(images) << to_string(images.error());
  EXPECT_EQ(images->unused_options, std::vector<std::string>{"--seq"});
  EXPECT_THAT(all_notes(*images), HasSubstr("--seq 128 has no effect"));
  const auto tokens = read(gpt2, {.batch = 8, .seq = 128});
  ASSERT_TRUE(tokens) << to_string(tokens.error());
  EXPECT_THAT(tokens->unused_options, testing::IsEmpty());
  // What one of two inputs takes has an effect.
  const std::vector<std::string> both{vit, gpt2};
  const auto joined = read_all(both, {.seq = 128});
  ASSERT_TRUE(joined) << to_string(joined.error());
  EXPECT_THAT(joined->unused_options, testing::IsEmpty());
}

TEST_F(ReadOne, ADtypeThatIsGivenIsNotAssumed) {
  const std::string config = write("gpt2.json", kGpt2);
  EXPECT_THAT(all_notes(*read(config, {})), HasSubstr("set it with --dtype"));
  EXPECT_THAT(all_notes(*read(config, {.dtype = Dtype::bf16})),
              testing::Not(HasSubstr("set it with --dtype")));
}

TEST_F(ReadOne, WeightsAreRefusedWithWhatToGive) {
  const auto exported = read(write("m.pt2", "PK\x03\x04..."), {});
  ASSERT_FALSE(exported);
  EXPECT_THAT(exported.error().message, HasSubstr("or one that is cut"));
  EXPECT_THAT(read(write("m.pt", "PK\x03\x04..."), {}).error().message,
              HasSubstr("torch.export.save(program, \"model.pt2\")"));
  EXPECT_THAT(read(write("m.safetensors", "\x10\x01{\"a\""), {}).error().message,
              HasSubstr("config.json"));
}

TEST_F(ReadOne, AHubIdNamesTheDownload) {
  const auto missing = read("meta-llama/Llama-3.1-8B", {});
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message,
              HasSubstr("`hf download meta-llama/Llama-3.1-8B config.json --local-dir "
                        "Llama-3.1-8B`"));
  for (const char* path : {"models/net.onnx", "/tmp/none", "../none/such", "none", "a/b/c"}) {
    EXPECT_THAT(read(path, {}).error().message, testing::Not(HasSubstr("hf download"))) << path;
  }
}

class ReadFolder : public ReadSeveral {
 protected:
  std::string folder() { return folder_.string(); }
  Result<Workload> read_it() {
    const std::vector<std::string> paths{folder_.string()};
    return read_all(paths, {.seq = 64});
  }
};

TEST_F(ReadFolder, IsTheModelInIt) {
  write("config.json", kGpt2);
  write("tokenizer.json", "{\"version\": \"1.0\"}");
  write("model.safetensors", "weights");
  const auto model = read_it();
  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_EQ(model->sources, std::vector<std::string>{folder() + "/config.json"});
  EXPECT_FALSE(model->source);
  const auto alone = read(folder(), {.seq = 64});
  ASSERT_TRUE(alone) << to_string(alone.error());
  EXPECT_EQ(alone->ops, model->ops);
}

TEST_F(ReadFolder, IsTheModelWhereItsCodeTrainsNothing) {
  write("config.json", kGpt2);
  write("modeling_own.py", kLayers);
  const auto model = read_it();
  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_FALSE(model->ops.empty());
  EXPECT_THAT(all_notes(*model), HasSubstr("is read as a model, by its config.json"));
}

TEST_F(ReadFolder, IsScriptsWhereTheyTrain) {
  write("config.json", kGpt2);
  write("train.py", kTraining);
  const auto scripts = read_it();
  ASSERT_TRUE(scripts) << to_string(scripts.error());
  EXPECT_TRUE(scripts->ops.empty());
  EXPECT_TRUE(scripts->source);
  EXPECT_THAT(all_notes(*scripts),
              HasSubstr("holds training scripts, which are read; config.json"));
}

TEST_F(ReadFolder, SettingsOfAProgramAreNoModel) {
  write("config.json", R"({"learning_rate": 0.1, "layers": 3})");
  write("layers.py", kLayers);
  const auto scripts = read_it();
  ASSERT_TRUE(scripts) << to_string(scripts.error());
  EXPECT_TRUE(scripts->source);
}

TEST_F(ReadFolder, OfAPipelineIsTheNetworkOfEachStep) {
  write("model_index.json",
        R"({"_class_name": "FluxPipeline", "transformer": ["diffusers", "X"]})");
  for (const char* part : {"transformer", "text_encoder"}) {
    fs::create_directory(folder_ / part);
    write(std::string(part) + "/config.json", kGpt2);
  }
  const auto model = read_it();
  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_EQ(model->sources, std::vector<std::string>{folder() + "/transformer/config.json"});
  EXPECT_THAT(all_notes(*model),
              HasSubstr("only transformer/config.json is read, not text_encoder"));
}

TEST_F(ReadFolder, WithNothingToReadIsAnError) {
  write("README.md", "Weights follow.");
  const auto nothing = read_it();
  ASSERT_FALSE(nothing);
  EXPECT_THAT(nothing.error().message, HasSubstr("neither Python files nor a model"));
}

TEST_F(ReadFolder, WithSeveralOnnxModelsListsThem) {
  write("encoder.onnx", "x");
  write("decoder.onnx", "x");
  const auto several = read_it();
  ASSERT_FALSE(several);
  EXPECT_THAT(several.error().message, HasSubstr("name one: decoder.onnx, encoder.onnx"));
}

}  // namespace
}  // namespace rooftile
