#include "rooftile/readers/kineto/event_class.h"

#include <gtest/gtest.h>

#include <string_view>
#include <utility>
#include <vector>

namespace rooftile {
namespace {

KinetoEvent event_of(std::string_view phase, std::string_view category, std::string_view name,
                     std::string_view process = "1", std::vector<JsonMember> args = {}) {
  KinetoEvent event;
  event.phase = phase;
  event.category = category;
  event.name = name;
  event.process = process;
  event.args = std::move(args);
  return event;
}

TEST(EventClass, OfPhasesAndCategories) {
  struct Case {
    const char* phase;
    const char* category;
    const char* name;
    EventClass event_class;
  };
  for (const Case& c : {Case{"\"X\"", "\"cpu_op\"", "\"aten::mm\"", EventClass::op},
                        Case{"\"X\"", "\"Operator\"", "\"aten::mm\"", EventClass::op},
                        Case{"\"X\"", "\"KERNEL\"", "\"k\"", EventClass::kernel},
                        Case{"\"X\"", "\"of_another_tool\"", "\"k\"", EventClass::unknown},
                        Case{"\"i\"", "\"x\"", "\"[memory]\"", EventClass::memory},
                        Case{"\"I\"", "", "\"[memory]\"", EventClass::memory},
                        Case{"\"i\"", "\"x\"", "\"Record Window End\"", EventClass::unused},
                        Case{"\"M\"", "", "\"process_name\"", EventClass::unused},
                        Case{"\"s\"", "\"ac2g\"", "\"ac2g\"", EventClass::unused},
                        Case{"\"t\"", "\"ac2g\"", "\"ac2g\"", EventClass::unused},
                        Case{"\"f\"", "\"ac2g\"", "\"ac2g\"", EventClass::unused},
                        Case{"\"C\"", "", "\"counter\"", EventClass::unused},
                        Case{"\"B\"", "\"cpu_op\"", "\"aten::mm\"", EventClass::unknown},
                        Case{"\"XX\"", "\"cpu_op\"", "\"aten::mm\"", EventClass::unknown},
                        Case{"", "\"cpu_op\"", "\"aten::mm\"", EventClass::unknown}}) {
    EXPECT_EQ(class_of(event_of(c.phase, c.category, c.name)), c.event_class)
        << c.phase << c.category;
  }
}

// Before Kineto, by process, arguments and name.
TEST(EventClass, WithoutACategory) {
  const std::vector<JsonMember> gpu{{"device", "0"}, {"stream", "7"}};
  const std::vector<JsonMember> call{{"correlation", "5"}};
  const auto of = [](std::string_view name, std::string_view process,
                     const std::vector<JsonMember>& args = {}) {
    return class_of(event_of("\"X\"", "", name, process, args));
  };
  EXPECT_EQ(of("\"gemm\"", "\"CUDA functions\""), EventClass::kernel);
  EXPECT_EQ(of("\"Memcpy HtoD\"", "\"CUDA functions\""), EventClass::copy);
  EXPECT_EQ(of("\"Memset (Device)\"", "\"CUDA functions\""), EventClass::fill);
  EXPECT_EQ(of("\"gemm\"", "1", gpu), EventClass::kernel);
  EXPECT_EQ(of("\"gemm\"", "1", {gpu.front()}), EventClass::unknown);
  EXPECT_EQ(of("\"gemm\"", "1", {gpu.back()}), EventClass::unknown);
  for (const char* name : {"\"cudaLaunchKernel\"", "\"cuLaunchKernel\"", "\"hipLaunchKernel\""}) {
    EXPECT_EQ(of(name, "1", call), EventClass::call) << name;
    EXPECT_EQ(of(name, "1"), EventClass::unknown) << name;
  }
  for (const char* name : {"\"cudalike\"", "\"cut\"", "\"cu\"", "\"hipster\"", "\"Launch\""}) {
    EXPECT_EQ(of(name, "1", call), EventClass::unknown) << name;
  }
  EXPECT_EQ(of("\"mul\"", "\"CPU functions\""), EventClass::op);
  EXPECT_EQ(of("\"aten::mul\"", "1"), EventClass::op);
  EXPECT_EQ(of("\"mul\"", "1"), EventClass::unknown);
}

TEST(EventClass, NamesOfRangesAndOfOtherMakers) {
  for (const char* name : {"ProfilerStep#3", "Optimizer.step#SGD.step",
                           "enumerate(DataLoader)#_Iter.__next__", "## forward ##"}) {
    EXPECT_TRUE(is_annotation_name(name)) << name;
  }
  EXPECT_FALSE(is_annotation_name("aten::mm"));
  EXPECT_FALSE(is_annotation_name("my Optimizer.step"));
  EXPECT_TRUE(is_foreign_kernel("Cijk_Ailk_Bljk"));
  EXPECT_FALSE(is_foreign_kernel("my_Cijk_"));
  for (const char* name : {"AMD Instinct MI300X", "Radeon VII", "gfx90a", "Intel Max", "Gaudi2"}) {
    EXPECT_TRUE(is_foreign_device(name)) << name;
  }
  EXPECT_FALSE(is_foreign_device("NVIDIA H100"));
}

}  // namespace
}  // namespace rooftile
