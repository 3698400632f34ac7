#include "rooftile/base/contained.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <stdexcept>
#include <string>

#include "rooftile/base/run_limits.h"

namespace rooftile {
namespace {

TEST(Contained, HandsBackTheValue) {
  const std::string large(3'000'000, 'x');
  const auto result = run_contained([&]() -> Result<std::string> { return large; }, "the work");
  ASSERT_TRUE(result);
  EXPECT_EQ(*result, large);
}

// The watch's thread begins while the process is copied: with what that holds, a copy would wait
// for ever.
TEST(Contained, EndsBesideAWatchThatBegins) {
  for (int i = 0; i < 50; ++i) {
    const RunWatch watch({std::chrono::seconds(20), 0}, [](const std::string&) { std::abort(); });
    const auto result =
        run_contained([]() -> Result<std::string> { return std::string(100'000, 'x'); }, "it");
    ASSERT_TRUE(result);
  }
}

TEST(Contained, HandsBackAnEmptyValue) {
  const auto result = run_contained([]() -> Result<std::string> { return ""; }, "the work");
  ASSERT_TRUE(result);
  EXPECT_EQ(*result, "");
}

TEST(Contained, HandsBackTheError) {
  const auto result = run_contained(
      []() -> Result<std::string> { return fail("no such operator", "node 3"); }, "the work");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error(), (Error{"no such operator", "node 3"}));
}

TEST(Contained, ACrashIsAnError) {
  const auto result = run_contained(
      []() -> Result<std::string> {
        std::signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
        return "";
      },
      "the library");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "the library crashed on this file");
}

TEST(Contained, AnExceptionIsAnError) {
  const auto result = run_contained(
      []() -> Result<std::string> { throw std::runtime_error("broken"); }, "the library");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "the library failed on this file");
}

TEST(Contained, EndlessWorkIsAnError) {
  ContainedLimits limits;
  limits.cpu_seconds = 1;
  const auto result = run_contained(
      []() -> Result<std::string> {
        while (std::clock() >= 0) {
        }
        return "";
      },
      "the library", limits);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "the library needed more than 1 s of computation");
}

}  // namespace
}  // namespace rooftile
