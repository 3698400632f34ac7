// What each part of the memory takes, by hand.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rooftile/analysis/memory/fit_changes.h"
#include "rooftile/analysis/memory/kept_outputs.h"
#include "rooftile/analysis/memory/memory.h"
#include "rooftile/analysis/memory/output_bytes.h"
#include "rooftile/analysis/memory/spreading.h"
#include "rooftile/hardware/device_file.h"
#include "rooftile/workload/training.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

constexpr double kGibibyte = 1024.0 * 1024.0 * 1024.0;

void expect_range(const Range<Bytes>& bytes, double low, double expected, double high) {
  EXPECT_NEAR(bytes.low.value(), low, 1e-6 * expected);
  EXPECT_NEAR(bytes.expected.value(), expected, 1e-6 * expected);
  EXPECT_NEAR(bytes.high.value(), high, 1e-6 * expected);
}

MemoryEstimate estimate(const Workload& workload, const char* gpu = "h100") {
  return estimate_memory(workload, *find_device(gpu));
}

Workload parsed(std::string_view text) { return *parse_workload(text); }

// The driver takes 0.9 % and 0.2 GiB, a process 0.5 GiB. ECC bits lie among the data, and what an
// idle system keeps of a shared memory is what the driver takes elsewhere.
TEST(MemoryParts, TheDriverAndTheContextComeFirst) {
  Device device;
  device.dram_size = Bytes(100 * kGibibyte);
  EXPECT_NEAR(usable_memory(device).value() / kGibibyte, 100 * 0.991 - 0.7, 1e-9);
  device.dram_ecc_share = 0.1;
  EXPECT_NEAR(usable_memory(device).value() / kGibibyte, 90 * 0.991 - 0.7, 1e-9);
  device.dram_cpu_share = 0.2;
  EXPECT_NEAR(usable_memory(device).value() / kGibibyte, 90 * 0.8 - 0.5, 1e-9);
  device.dram_size = Bytes(0.4 * kGibibyte);
  EXPECT_EQ(usable_memory(device), Bytes());
}

// Two tensors of 1000 bytes live at once. The allocator takes 2, 5 and 16 % more; cuBLAS 32 MiB
// from Hopper on.
TEST(MemoryParts, OfInference) {
  const Workload workload = parsed(
      "elementwise a fp32 fn=relu elements=250 from=x to=a\n"
      "elementwise b fp32 fn=relu elements=250 from=a to=b\n");
  expect_range(estimate(workload).activations, 0.6 * 2000, 2000, 1.5 * 2000);
  for (const auto& [gpu, workspace] : {std::pair{"h100", 32.0}, {"l40s", 8.125}}) {
    const MemoryEstimate memory = estimate(workload, gpu);
    EXPECT_EQ(memory.library, Bytes(workspace * 1024 * 1024)) << gpu;
    const Range<Bytes> more =
        memory.workspace + -Range<Bytes>{memory.library, memory.library, memory.library};
    expect_range(more, 0.02 * 1200, 0.05 * 2000, 0.16 * 3000);
  }
}

// A result of 1000 bytes that the loss reads. A compiler computes some of it again.
TEST(MemoryParts, OfTraining) {
  const Workload workload =
      derive_training(parsed("elementwise a fp32 fn=gelu elements=250 from=x to=a\n"));
  expect_range(estimate(workload).activations, 600, 1000, 1400);
  // Logits in bf16 beside none, 8 and 14 bytes of the loss.
  const double logits = 1024.0 * 50304;
  expect_range(
      estimate(derive_training(parsed("gemm head bf16 m=1024 n=50304 k=768\n"))).activations,
      logits * 2 * 0.6, logits * (2 + 8), logits * (2 * 1.4 + 14));
}

// Of a million parameters in fp32, and in bf16 with fp32 masters.
TEST(MemoryParts, OfOptimizers) {
  struct Case {
    const char* fn;
    double states;  // of a parameter
  };
  for (const Case& c : {Case{"sgd", 0}, Case{"momentum", 1}, Case{"adam", 2}, Case{"adamw", 2},
                        Case{"adafactor", 0.01}}) {
    const auto text = [&](const char* dtype) {
      return fmt::format(
          "workload mode=training\ngemm a {} m=1 n=1000 k=1000\n"
          "optimizer o fp32 fn={} parameters=1000000\n",
          dtype, c.fn);
    };
    const MemoryEstimate single = estimate(parsed(text("fp32")));
    expect_range(single.optimizer + single.gradients, 4e6 * c.states + 4e6, 4e6 * c.states + 4e6,
                 4e6 * c.states + 4e6);
    const MemoryEstimate half = estimate(parsed(text("bf16")));
    EXPECT_NEAR(half.optimizer.low.value(), 2e6 * c.states, 1) << c.fn;
    EXPECT_NEAR(half.optimizer.expected.value(), 4e6 * c.states + 4e6, 1) << c.fn;
    EXPECT_NEAR(half.gradients.low.value(), 2e6, 1) << c.fn;
    EXPECT_NEAR(half.gradients.high.value(), 4e6, 1) << c.fn;
  }
}

// Layers that share a weight, and weights that no operation reads; bytes that the file states.
TEST(MemoryParts, OfWeights) {
  const std::string layer = "gemm a bf16 m=1 n=1000 k=1000 count=3\n";
  EXPECT_NEAR(estimate(parsed(layer)).weights.value(), 6e6, 1e-3);
  EXPECT_NEAR(estimate(parsed("workload parameters=1500000\n" + layer)).weights.value(), 3e6, 1e-3);
  EXPECT_EQ(estimate(parsed("workload weight_bytes=5e6\n" + layer)).weights, Bytes(5e6));
  EXPECT_EQ(estimate(parsed(layer + "gemm b bf16 m=1 n=9 k=9 phase=dgrad\n")).weights, Bytes(6e6));
}

TEST(MemoryParts, OutputsOfOperations) {
  struct Case {
    const char* op;
    double bytes;
  };
  const Case cases[] = {
      {"gemm a fp16 batch=2 m=3 n=5 k=7", 2 * 2 * 3 * 5},
      {"conv a fp16 n=2 c=3 k=4 in=8x8 kernel=3x3 pad=1x1", 2 * 2 * 4 * 64},
      {"attention a fp16 batch=2 heads=3 q=4 kv=5 d=8 dv=6", 2 * 2 * 3 * 4 * 6},
      // Scores before and behind the softmax.
      {"attention a fp16 batch=2 heads=3 q=4 kv=5 d=8 fused=0", 2 * 24 * (8 + 2 * 5)},
      // The gates of each step beside its result.
      {"recurrent a fp16 cell=lstm batch=2 seq=3 input=4 hidden=5 layers=2 directions=2",
       2 * (1 + 4) * 3 * 2 * 5 * 2 * 2},
      {"recurrent a fp16 cell=gru batch=2 seq=3 input=4 hidden=5", 2 * (1 + 3) * 3 * 2 * 5},
      {"recurrent a fp16 cell=rnn_tanh batch=2 seq=3 input=4 hidden=5", 2 * (1 + 1) * 3 * 2 * 5},
      {"norm a fp16 fn=layer rows=3 cols=5", 2 * 15},
      {"softmax a fp16 rows=3 cols=5", 2 * 15},
      {"pool a fp16 fn=max n=2 c=3 in=4x4 out=2x2 kernel=2x2", 2 * 24},
      {"elementwise a fp16 fn=add elements=10 inputs=2", 20},
      {"reduce a fp16 fn=sum elements=100 outputs=10", 20},
      {"embedding a fp16 vocab=100 width=8 lookups=4", 64},
      {"layout a fp16 elements=10", 20},
      {"cast a fp32 out_dtype=fp16 elements=10", 20},
      {"collective a fp16 fn=all_reduce elements=10 ranks=2", 0},
      {"optimizer a fp32 fn=adam parameters=10", 0},
      {"other a fp16 fn=custom bytes=10", 0},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(output_bytes(parsed(c.op).ops.front()), Bytes(c.bytes)) << c.op;
  }
}

// Of an operation between two additions, which keep nothing: its input, 20 bytes; itself; the
// result of the network, 20 bytes.
TEST(MemoryParts, WhatGradientsReadAgain) {
  struct Case {
    const char* op;
    double input, itself;
  };
  const Case cases[] = {
      {"elementwise q fp16 fn=relu elements=10", 0, 20},
      {"elementwise q fp16 fn=reciprocal elements=10", 0, 20},
      {"elementwise q fp16 fn=gelu elements=10", 20, 0},
      {"elementwise q fp16 fn=identity elements=10", 0, 0},
      {"elementwise q fp16 fn=dropout elements=10", 0, 10},  // a mask of bytes
      {"softmax q fp16 rows=2 cols=5", 0, 20},
      {"norm q fp16 fn=layer rows=2 cols=5", 20, 0},
      {"pool q fp16 fn=max n=1 c=1 in=2x5 out=1x5 kernel=2x1", 20, 5 * 8},  // where each was
      {"pool q fp16 fn=average n=1 c=1 in=2x5 out=1x5 kernel=2x1", 0, 0},
      {"reduce q fp16 fn=sum elements=10 outputs=1", 0, 0},
      {"gemm q fp16 m=2 n=3 k=5", 20, 0},
      {"conv q fp16 n=1 c=2 k=3 in=5 kernel=1", 20, 0},
      {"attention q fp16 batch=1 heads=1 q=2 d=5", 20, 20},
      {"recurrent q fp16 cell=rnn_tanh batch=1 seq=2 input=5 hidden=3", 20, 2 * 2 * 2 * 3},
      {"other q fp16 fn=custom bytes=10", 20, 0},
  };
  for (const Case& c : cases) {
    for (const bool named : {true, false}) {
      const auto names = [&](const char* text) { return named ? text : ""; };
      const Workload workload = parsed(
          fmt::format("elementwise p fp16 fn=add elements=10{}\n{}{}\nelementwise r fp16 fn=add "
                      "elements=10{}\n",
                      names(" from=x to=p"), c.op, names(" from=p to=q"), names(" from=q to=r")));
      EXPECT_THAT(kept_bytes(workload),
                  testing::ElementsAre(Bytes(c.input), Bytes(c.itself), Bytes(20)))
          << c.op << (named ? "" : " in a chain");
    }
  }
}

// A pass of its own keeps nothing, and what it reads is no result of the network.
TEST(MemoryParts, BackwardOperationsKeepNothing) {
  EXPECT_THAT(
      kept_bytes(parsed("elementwise p fp16 fn=add elements=10 from=x to=p\n"
                        "elementwise g fp16 fn=gelu elements=10 from=p to=g phase=dgrad\n")),
      testing::ElementsAre(Bytes(20), Bytes()));
}

Range<Seconds> transfer(const TimeModel& model, CollectiveKind kind, std::int64_t elements,
                        Link link) {
  Op op;
  op.body = Collective{kind, elements, 4, link};
  op.dtypes = Dtypes(Dtype::bf16);
  return model.estimate(op)->time;
}

// Weights are gathered for both passes, gradients reduced once; over NVLink where there is one.
TEST(MemoryParts, ShardingGathersTwiceAndReduces) {
  const Workload workload =
      parsed("elementwise e fp32 fn=relu elements=10\ngemm a bf16 m=8 n=4096 k=4096 count=2\n");
  for (const auto& [gpu, link] : {std::pair{"h100", Link::nvlink}, {"l40s", Link::pcie}}) {
    const TimeModel model(*find_device(gpu));
    const std::int64_t weights = 2 * 4096 * 4096;
    const Range<Seconds> expected = transfer(model, CollectiveKind::all_gather, weights, link) * 2 +
                                    transfer(model, CollectiveKind::reduce_scatter, weights, link);
    const auto time = sharding_transfers(workload, model, 4);
    ASSERT_TRUE(time) << gpu;
    EXPECT_DOUBLE_EQ(time->expected.value(), expected.expected.value()) << gpu;
    EXPECT_DOUBLE_EQ(time->high.value(), expected.high.value()) << gpu;
  }
}

TEST(MemoryParts, HeadsOfTheCacheAreNotSplit) {
  const auto share = [](const char* text, std::int64_t gpus) {
    return share_of_cache(parsed(text), gpus);
  };
  const char* const two_widths =
      "attention a bf16 batch=1 heads=8 kv_heads=8 q=1 kv=64 d=64\n"
      "attention b bf16 batch=1 heads=8 kv_heads=2 q=1 kv=64 d=64\n";
  EXPECT_EQ(share(two_widths, 4), 0.5);
  EXPECT_EQ(share(two_widths, 2), 0.5);
  EXPECT_EQ(share("gemm a bf16 m=1 n=8 k=8\n", 4), 0.25);
}

// 4 experts of 3,000,000 weights in each of 5 layers. Each of two GPUs has two of them;
// tokens go to the first product's experts as they are, and come back as wide as the last's.
TEST(MemoryParts, ExpertsArePlaced) {
  const Workload workload = parsed(
      "workload batch=2\n"
      "gemm dense bf16 m=64 n=1000 k=1000\n"
      "gemm up bf16 m=32 n=2000 k=1000 batch=4 count=5\n"
      "gemm down bf16 m=32 n=500 k=2000 batch=4 count=5\n"
      "gemm next bf16 m=64 n=1000 k=500\n");
  const TimeModel model(*find_device("h100"));
  const auto placed = place_experts(workload, model, 2);
  ASSERT_TRUE(placed);
  EXPECT_DOUBLE_EQ(placed->expert_share, 60e6 / 61.5e6);
  ASSERT_TRUE(placed->transfers);
  const auto send = [&](std::int64_t elements) {
    Op op;
    op.body = Collective{CollectiveKind::all_to_all, elements, 2, Link::nvlink};
    op.dtypes = Dtypes(Dtype::bf16);
    return model.estimate(op)->time.expected * 5;
  };
  // 128 rows of 1000 and of 500, half of them from each sender.
  EXPECT_DOUBLE_EQ(placed->transfers->expected.value(), (send(64 * 1000) + send(64 * 500)).value());
  EXPECT_TRUE(place_experts(workload, model, 4));
  EXPECT_FALSE(place_experts(workload, model, 8)) << "fewer experts than GPUs";
  EXPECT_FALSE(place_experts(parsed("gemm a bf16 m=64 n=1000 k=1000\n"), model, 2));
}

FitChange change(std::vector<FitBy> by, std::int64_t gpus = 1) {
  FitChange made{.by = std::move(by), .batch = 3, .length = 700, .gpus = gpus};
  made.per_gpu = Bytes(38.2 * kGibibyte);
  made.cost = Range<Seconds>{Seconds(0.1), Seconds(0.2), Seconds(0.3)};
  made.pass_share = 0.5;
  return made;
}

TEST(MemoryParts, ChangesInWords) {
  using enum FitBy;
  const std::string gpus = "8 GPUs with ";
  const std::string nodes =
      "16 GPUs in nodes of 8, with tensor parallelism in a node and 2 pipeline stages over the "
      "nodes";
  const std::string of_one = ", about 70 % of the time a pass would take on one)";
  const std::pair<FitChange, std::string> cases[] = {
      {change({shorter_input}),
       "inputs of at most 700 positions, longer ones in chunks (38.2 GiB, +20 % time)"},
      {change({smaller_batch}), "batch 3 (38.2 GiB, +20 % time)"},
      {change({chunked_loss}), "fused or chunked cross-entropy (38.2 GiB, at most +20 % time)"},
      {change({checkpointing}), "activation checkpointing (38.2 GiB, +20 % time)"},
      {change({half_precision}), "weights in 16 bits (38.2 GiB, +20 % time)"},
      {change({autocast, eight_bit_states, checkpointing}),
       "16-bit autocast, 8-bit optimizer states and activation checkpointing (38.2 GiB, +20 % "
       "time)"},
      {change({eight_bits, eight_bit_cache}),
       "weights in 8 bits and a KV cache in 8 bits (38.2 GiB, +20 % time)"},
      {change({sharding}, 8), gpus + "FSDP or ZeRO-3 (38.2 GiB each, at most +20 % time)"},
      {change({tensor_parallel}, 8), gpus + "tensor parallelism (38.2 GiB each" + of_one},
      {change({expert_parallel}, 8), gpus + "expert parallelism (38.2 GiB each" + of_one},
      {change({tensor_parallel}, 16), nodes + " (38.2 GiB each" + of_one},
      {change({tensor_parallel, four_bits}, 8),
       gpus + "tensor parallelism and weights in 4 bits (38.2 GiB each)"},
  };
  for (const auto& [one, text] : cases) {
    EXPECT_EQ(fit_text({one}, Seconds(1)), "This makes it fit: " + text);
  }
  FitChange tight = change({checkpointing});
  tight.fit = Fit::tight;
  FitChange free = change({smaller_batch});
  free.cost = {};
  EXPECT_EQ(fit_text({tight, free}, Seconds(2)),
            "Any of these makes it fit: activation checkpointing (38.2 GiB, tight, +10 % time); "
            "batch 3 (38.2 GiB)");
  EXPECT_EQ(fit_text({tight}, Seconds()),
            "This makes it fit: activation checkpointing (38.2 GiB, tight)");
  EXPECT_EQ(fit_text({}, Seconds(1)), "Use a smaller model or GPUs with more memory");
}

}  // namespace
}  // namespace rooftile
