#include "rooftile/analysis/memory/adapter_training.h"

#include <gmock/gmock.h>

#include "rooftile/hardware/device_file.h"
#include "rooftile/workload/training.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

using testing::HasSubstr;

// Llama-2-7B at 2048 tokens: 6,738,415,616 parameters, 6,476,005,376 of them in linear layers.
constexpr const char* kLlama7b = R"(
workload batch=1 sequence=2048 parameters=6738415616
embedding tokens bf16 lookups=2048 vocab=32000 width=4096
gemm q bf16 m=2048 n=4096 k=4096 count=32
gemm k bf16 m=2048 n=4096 k=4096 count=32
gemm v bf16 m=2048 n=4096 k=4096 count=32
attention attend bf16 batch=1 heads=32 kv_heads=32 q=2048 kv=2048 d=128 causal=1 count=32
gemm o bf16 m=2048 n=4096 k=4096 count=32
gemm gate bf16 m=2048 n=11008 k=4096 count=32
gemm up bf16 m=2048 n=11008 k=4096 count=32
gemm down bf16 m=2048 n=4096 k=11008 count=32
gemm head bf16 m=2048 n=32000 k=4096
)";

Workload trained(const char* text) { return derive_training(*parse_workload(text)); }

MemoryEstimate memory_of(const Workload& workload, const char* gpu = "rtx_4090") {
  return estimate_memory(workload, *find_device(gpu));
}

// PEFT prints 39,976,960 trainable parameters for this model, rank 16 and all linear layers: in
// each of 32 layers 16·(4·(4096 + 4096) + 3·(4096 + 11008)).
TEST(AdapterTraining, CountsTheParametersOfPeft) {
  const Workload workload = trained(kLlama7b);
  const auto training = adapter_training(workload, memory_of(workload));
  ASSERT_TRUE(training);
  EXPECT_EQ(training->adapter_parameters, 39'976'960);
}

// Weights in 16 bits, or 4.127 bits for those of linear layers, and 16 bytes for each parameter of
// the adapters; activations stay.
TEST(AdapterTraining, FrozenWeightsHaveNoGradients) {
  const Workload workload = trained(kLlama7b);
  const MemoryEstimate memory = memory_of(workload);
  const auto training = adapter_training(workload, memory);
  ASSERT_TRUE(training);
  const double kept = memory.library.value() + memory.growing().value() + 39'976'960 * 16.0;
  EXPECT_NEAR(training->lora.value(), kept + 6'738'415'616 * 2.0, 1);
  const double linear = 6'476'005'376;
  EXPECT_NEAR(training->qlora.value(), kept + (6'738'415'616 - linear) * 2.0 + linear * 4.127 / 8,
              1);
}

// Checkpoints keep the inputs of 32 layers and all activations of one: they save most of what grows
// with the batch, and nothing else.
TEST(AdapterTraining, CheckpointsSaveMostActivations) {
  const Workload workload = trained(kLlama7b);
  const MemoryEstimate memory = memory_of(workload);
  const auto training = adapter_training(workload, memory);
  ASSERT_TRUE(training);
  const Bytes saved = training->lora - training->lora_checkpointed;
  EXPECT_GT(saved, memory.growing() * 0.5);
  EXPECT_LT(saved, memory.growing());
  EXPECT_NEAR((training->qlora - training->qlora_checkpointed).value(), saved.value(), 1);
}

TEST(AdapterTraining, IsSaidToBeAnotherMethod) {
  const Workload workload = trained(kLlama7b);
  EXPECT_THAT(adapter_text(workload, memory_of(workload)), HasSubstr("Another training method"));
}

TEST(AdapterTraining, OnlyOfTrainedDecoders) {
  const Workload inference = *parse_workload(kLlama7b);
  EXPECT_FALSE(adapter_training(inference, memory_of(inference)));
  const Workload images = trained("conv a bf16 n=8 c=64 k=64 in=56x56 kernel=3x3\n");
  EXPECT_FALSE(adapter_training(images, memory_of(images)));
  std::string encoder = kLlama7b;
  encoder.erase(encoder.find(" causal=1"), 9);
  EXPECT_FALSE(adapter_training(trained(encoder.c_str()), memory_of(trained(encoder.c_str()))));
  const std::string experts = std::string(kLlama7b) +
                              "gemm expert bf16 m=512 n=4096 k=4096 batch=4 count=32\n" +
                              "gemm last bf16 m=2048 n=32000 k=4096\n";
  EXPECT_FALSE(adapter_training(trained(experts.c_str()), memory_of(trained(experts.c_str()))));
}

// One way where the other does not fit, each with checkpoints where it needs them; none at all.
TEST(AdapterTraining, NamesTheWaysThatFit) {
  const Workload workload = trained(kLlama7b);
  MemoryEstimate memory = memory_of(workload);
  const AdapterTraining training = *adapter_training(workload, memory);
  const auto text_with = [&](Bytes usable) {
    memory.usable = usable;
    return adapter_text(workload, memory);
  };
  const auto both = text_with(training.lora * 1.01);
  EXPECT_THAT(both, HasSubstr("trains 40 M parameters"));
  EXPECT_THAT(both, HasSubstr("LoRA with weights in 16 bits ("));
  EXPECT_THAT(both, HasSubstr(" or QLoRA with weights in 4 bits ("));
  EXPECT_THAT(both, testing::Not(HasSubstr("checkpointing")));
  EXPECT_THAT(text_with(training.lora_checkpointed * 1.01),
              HasSubstr("GiB with activation checkpointing) or QLoRA"));
  const auto four_bits = text_with(training.qlora_checkpointed * 1.01);
  EXPECT_THAT(four_bits, testing::Not(HasSubstr("16 bits")));
  EXPECT_THAT(four_bits, HasSubstr("QLoRA with weights in 4 bits"));
  EXPECT_EQ(text_with(training.qlora_checkpointed * 0.99), "");
}

}  // namespace
}  // namespace rooftile
