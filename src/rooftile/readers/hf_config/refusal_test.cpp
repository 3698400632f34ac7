// What is said of a config that is not read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "rooftile/readers/hf_config/hf_config.h"

namespace rooftile {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string refusal_of(const std::string& config) {
  const auto workload = parse_hf_config(config, "models/foo/config.json", {});
  EXPECT_FALSE(workload) << config;
  return workload ? "" : workload.error().message;
}

std::string of_architecture(const std::string& architecture, const std::string& more = "") {
  return refusal_of(R"({"model_type": "foo", "architectures": [")" + architecture + "\"]" +
                    (more.empty() ? "" : ", ") + more + "}");
}

TEST(Refusals, LoadWithTheClassOfTheTask) {
  for (const std::string task :
       {"ForCausalLM", "ForMaskedLM", "ForImageClassification", "ForSequenceClassification",
        "ForTokenClassification", "ForQuestionAnswering", "ForObjectDetection",
        "ForSemanticSegmentation", "ForDepthEstimation", "ForCTC", "ForAudioClassification"}) {
    EXPECT_THAT(of_architecture("Foo" + task),
                HasSubstr("\n  model = transformers.AutoModel" + task +
                          ".from_pretrained(\"models/foo\").eval()\n"));
  }
  const std::string of_text = "transformers.AutoModelForSeq2SeqLM.from_pretrained(",
                    of_images = "transformers.AutoModelForImageTextToText.from_pretrained(",
                    of_all = "transformers.AutoModel.from_pretrained(";
  EXPECT_THAT(of_architecture("FooForConditionalGeneration"), HasSubstr(of_text));
  EXPECT_THAT(of_architecture("FooForConditionalGeneration", R"("vision_config": {})"),
              HasSubstr(of_images));
  EXPECT_THAT(of_architecture("FooModel"), HasSubstr(of_all));
  EXPECT_THAT(of_architecture("FooForCausalLMWithCache"), HasSubstr(of_all));
  EXPECT_THAT(of_architecture("FooModel", R"("auto_map": {})"),
              HasSubstr("(\"models/foo\", trust_remote_code=True).eval()"));
  EXPECT_THAT(
      refusal_of(R"({"_class_name": "FooTransformer", "auto_map": {}})"),
      HasSubstr("\n  model = diffusers.FooTransformer.from_pretrained(\"models/foo\").eval()"
                "\n  torch.onnx.export(model, (), \"model.onnx\", kwargs={…}, "
                "dynamo=True)\nand check the file with the sizes that you run: rooftile "
                "check model.onnx"));
  EXPECT_THAT(refusal_of(R"({"_class_name": "Foo Transformer"})"), HasSubstr(of_all));
}

struct Example {
  const char* architecture;
  const char* members;
  std::string inputs;
};

TEST(Refusals, ShowInputsOfTheKindThatTheModelReads) {
  const std::string text = "\"input_ids\": torch.ones(1, 128, dtype=torch.long)",
                    target = "\"decoder_input_ids\": torch.ones(1, 128, dtype=torch.long)",
                    usual = "\"pixel_values\": torch.zeros(1, 3, 224, 224)";
  const Example cases[] = {
      {"FooModel", "", text},
      {"FooForCausalLM", R"("vocab_size": 9)", text + ", \"use_cache\": False"},
      {"FooForConditionalGeneration", R"("is_encoder_decoder": true)",
       text + ", " + target + ", \"use_cache\": False"},
      {"FooModel", R"("is_encoder_decoder": true)", text + ", " + target},
      {"FooModel", R"("is_encoder_decoder": false)", text},
      {"FooModel", R"("is_encoder_decoder": true, "image_size": 224)", usual},
      {"FooForCTC", R"("conv_dim": [512], "vocab_size": 9)",
       "\"input_values\": torch.zeros(1, 160000)"},
      {"FooForImageClassification", "", usual},
      {"FooForSemanticSegmentation", "", usual},
      {"FooForDepthEstimation", "", usual},
      {"FooModel", R"("patch_size": 16)", usual},
      {"FooModel", R"("num_queries": 100)", usual},
      {"FooModel", R"("backbone": "resnet50")", usual},
      {"FooModel", R"("backbone_config": {})", usual},
      {"FooModel", R"("backbone_config": {}, "vocab_size": 9)", usual + ", " + text},
      {"FooModel", R"("vision_config": {}, "text_config": 1)", usual + ", " + text},
      {"FooModel", R"("vision_config": 1)", text},
      {"FooModel", R"("image_size": 300)", "\"pixel_values\": torch.zeros(1, 3, 300, 300)"},
      {"FooModel", R"("image_size": [300, 200])", "\"pixel_values\": torch.zeros(1, 3, 300, 300)"},
      {"FooModel", R"("vision_config": {"image_size": 1}, "image_size": 300)",
       "\"pixel_values\": torch.zeros(1, 3, 1, 1)"},
      {"FooModel", R"("image_size": 4096)", "\"pixel_values\": torch.zeros(1, 3, 4096, 4096)"},
      {"FooModel", R"("image_size": 4097)", usual},
      {"FooModel", R"("image_size": 0)", usual},
      {"FooModel", R"("image_size": [])", usual},
      {"FooModel", R"("image_size": "large")", usual}};
  for (const Example& example : cases) {
    EXPECT_THAT(of_architecture(example.architecture, example.members),
                HasSubstr(", kwargs={" + example.inputs + "}, dynamo=True)"))
        << example.architecture << " " << example.members;
  }
}

// Up to three that differ in the version, the shortest names first.
TEST(Refusals, NameOtherVersions) {
  const auto others = [](const std::string& type) {
    return refusal_of(R"({"model_type": ")" + type + "\"}");
  };
  const auto are = [](const std::string& names) {
    return HasSubstr("; of this name, these are known: " + names + ". Export the model instead:");
  };
  EXPECT_THAT(others("deepseek_v9"), are("deepseek_v2, deepseek_v3, deepseek_v4"));
  EXPECT_THAT(others("deepseek-v9"), are("deepseek_v2, deepseek_v3, deepseek_v4"));
  EXPECT_THAT(others("qwen9_moe"), are("qwen, qwen2, qwen3"));
  EXPECT_THAT(others("opt9"), are("opt"));
  EXPECT_THAT(others("gpt-9"), are("gpt2"));
  EXPECT_THAT(others("t9"), Not(HasSubstr("are known")));
}

TEST(Refusals, ListSomeKeysOfOtherFiles) {
  const std::string begin =
      "not a model config: it has neither \"model_type\" nor \"architectures\" ";
  const std::pair<const char*, const char*> cases[] = {
      {R"({})", "(it is empty)"},
      {R"({"a": 1, "b": 2, "c": 3, "d": 4})", "(its keys: 'a', 'b', 'c', 'd')"},
      {R"({"a": 1, "b": 2, "c": 3, "d": 4, "e": 5})", "(its keys: 'a', 'b', 'c', 'd', …)"},
      {R"({"model_type": ""})", "(its keys: 'model_type')"},
      {R"({"architectures": []})", "(its keys: 'architectures')"},
      {R"({"model_type": 1})", "(its keys: 'model_type')"}};
  for (const auto& [config, end] : cases) EXPECT_EQ(refusal_of(config), begin + end);
}

TEST(Refusals, NameFilesThatLieBesideAConfig) {
  const std::pair<const char*, const char*> cases[] = {
      {"quantization", "a quantization description (hf_quant_config.json), not a model config"},
      {"nodes", "a serving cluster description, not a model config"},
      {"peft_type", "an adapter description (adapter_config.json), not a model config"},
      {"image_processor_type", "an image processor's config, not a model config"},
      {"feature_extractor_type", "a feature extractor's config, not a model config"},
      {"tokenizer_class", "a tokenizer's config, not a model config"},
      {"added_tokens_decoder", "a tokenizer's config, not a model config"},
      {"weight_map", "an index of weight files, not a model config"},
      {"traceEvents", "a profiler trace, not a model config"}};
  for (const auto& [key, message] : cases) {
    EXPECT_EQ(refusal_of(std::string(R"({"a": 1, ")") + key + R"(": 1})"), message);
  }
  for (const char* name : {"FooScheduler", "FooSolver", "FooProcessor"}) {
    EXPECT_EQ(refusal_of(std::string(R"({"_class_name": ")") + name + "\"}"),
              std::string("a diffusers config of '") + name + "', not of a network");
  }
}

TEST(Refusals, OfATextModelWithoutItsType) {
  EXPECT_EQ(refusal_of(R"({"model_type": "foo", "text_config": {"hidden_size": 8}})"),
            "the text model of architecture 'foo' does not state its model_type");
}

// A text model is the bulk of what generates text, and of classifiers of it.
TEST(Refusals, OfModelsThatAreMoreThanTheirTextModel) {
  const auto of = [](const std::string& architecture) {
    return R"({"model_type": "foo", "architectures": [")" + architecture +
           R"("], "llm_config": {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
                "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 100}})";
  };
  for (const std::string task : {"FooForConditionalGeneration", "FooForCausalLM", "FooModel",
                                 "FooForSequenceClassification", "FooForTokenClassification"}) {
    EXPECT_TRUE(parse_hf_config(of(task), "config.json", {})) << task;
  }
  for (const std::string task : {"FooForObjectDetection", "FooForActionPrediction"}) {
    EXPECT_THAT(refusal_of(of(task)),
                HasSubstr("is more than its text model 'llama', and is not read from its config"));
  }
}

// Errors name where a value stands.
TEST(Refusals, NameThePlaceOfAValue) {
  const std::string llama = R"({"model_type": "llama", "num_hidden_layers": 2,
      "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 100, )";
  const std::pair<std::string, const char*> cases[] = {
      {llama + R"("hidden_size": {}})",
       "hidden_size: found an object, expected an integer from 1 to 33554432"},
      {llama + R"("hidden_size": [64]})",
       "hidden_size: found a list, expected an integer from 1 to 33554432"},
      {llama + R"("hidden_size": "a"})",
       "hidden_size: found '\"a\"', expected an integer from 1 to 33554432"},
      {llama + R"("hidden_size": null})", "\"hidden_size\" is missing"},
      {llama + R"("hidden_size": 64, "attention_bias": "yes"})",
       "attention_bias: found '\"yes\"', expected true or false"},
      {llama + R"("hidden_size": 64, "hidden_act": 1})", "hidden_act: found 1, expected a string"},
      {llama + R"("hidden_size": 64, "sliding_window": -1})",
       "sliding_window: found -1, expected an integer from 0 to 33554432"},
      {llama + R"("hidden_size": 66})",
       "hidden_size: found 66, expected a multiple of num_attention_heads 4"},
      {llama + R"("hidden_size": 64, "num_key_value_heads": 3})",
       "num_attention_heads: found 4, expected a multiple of num_key_value_heads 3"},
      {R"({"model_type": "clip", "text_config": {}, "vision_config": {"patch_size": [16, 8]}})",
       "patch_size: expected one positive size or two equal ones"},
      {R"({"model_type": "clip", "text_config": {"vocab_size": 0}, "vision_config": {}})",
       "text_config.vocab_size: found 0, expected an integer from 1 to 33554432"},
      {R"({"model_type": "nemotron-nas", "hidden_size": 64, "num_hidden_layers": 1,
           "num_attention_heads": 4, "vocab_size": 9, "block_configs": [
             {"attention": {"n_heads_in_group": 0}}]})",
       "block_configs[0].attention.n_heads_in_group: found 0, expected an integer from 1 to "
       "33554432"},
      {R"({"model_type": "swin", "mlp_ratio": "4"})",
       "mlp_ratio: found '\"4\"', expected a number"},
      {R"({"model_type": "depth_anything", "backbone_config": {}, "reassemble_factors": [1, "a"]})",
       "reassemble_factors: found a list, expected a list of numbers"},
      {R"({"model_type": "resnet", "image_size": [224, 0]})",
       "image_size: expected one positive size or two"},
      {R"({"model_type": "resnet", "image_size": [224, 224, 3]})",
       "image_size: expected one positive size or two"}};
  for (const auto& [config, message] : cases) EXPECT_EQ(refusal_of(config), message) << config;
}

// A number is taken as true unless it is 0, as Python does.
TEST(Refusals, FlagsMayBeNumbers) {
  const auto parameters = [](const char* bias) {
    return parse_hf_config(std::string(R"({"model_type": "llama", "hidden_size": 64,
        "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96,
        "vocab_size": 100, "attention_bias": )") +
                               bias + "}",
                           "config.json", {})
        ->parameters;
  };
  EXPECT_EQ(parameters("1"), parameters("true"));
  EXPECT_EQ(parameters("0"), parameters("false"));
  EXPECT_EQ(parameters("null"), parameters("false"));
  EXPECT_NE(parameters("true"), parameters("false"));
}

}  // namespace
}  // namespace rooftile
