#include "rooftile/base/run_limits.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "rooftile/base/byte_stream.h"
#include "rooftile/formats/kineto/kineto_stream.h"
#include "rooftile/pipeline/fix.h"
#include "rooftile/rooftile.h"
#include "tests/support/temporary_folder.h"

namespace rooftile {
namespace {

using std::chrono::milliseconds;

void ignore(const std::string&) {}

void wait_until(const std::function<bool()>& done) {
  for (int i = 0; i < 10'000 && !done(); ++i) std::this_thread::sleep_for(milliseconds(1));
  ASSERT_TRUE(done());
}

// A run whose limit is reached.
class Spent {
 public:
  explicit Spent(RunLimits limits) : watch_(limits, ignore) {
    wait_until([] { return !reading_must_end().empty(); });
  }

 private:
  RunWatch watch_;
};

TEST(RunLimits, ReadingEndsNearTheLimitOfTime) {
  EXPECT_EQ(reading_must_end(), "");
  {
    const Spent spent({milliseconds(1), 0});
    EXPECT_EQ(reading_must_end(), "no time left to read (--max-time 0.001 s)");
  }
  EXPECT_EQ(reading_must_end(), "");
}

TEST(RunLimits, ReadingEndsNearTheLimitOfMemory) {
  const Spent spent({milliseconds(0), std::size_t{1} << 20U});
  EXPECT_EQ(reading_must_end(), "no memory left to read (--max-memory 1 MiB)");
  EXPECT_GT(resident_bytes(), std::size_t{1} << 20U);
}

TEST(RunLimits, ScriptsEndBeforeOtherInputs) {
  const std::size_t held = resident_bytes();
  ASSERT_GT(held, 0U);
  // Half of the limit is held.
  const RunWatch watch({milliseconds(0), 2 * held}, ignore);
  wait_until([] { return !scripts_must_end().empty(); });
  EXPECT_EQ(reading_must_end(), "");
}

TEST(RunLimits, WithoutLimitsNothingEnds) {
  const RunWatch watch({}, [](const std::string&) { FAIL(); });
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(reading_must_end(), "");
}

TEST(RunLimits, TimeOfOtherProcessesIsNotCounted) {
  std::atomic<int> given_up = 0;
  const RunWatch watch({milliseconds(200), 0}, [&](const std::string&) { ++given_up; });
  {
    const OtherProcess other;
    std::this_thread::sleep_for(milliseconds(300));
  }
  EXPECT_EQ(given_up, 0);
  wait_until([&] { return given_up > 0; });
}

TEST(RunLimits, GivesUpOnceAndNotInTheMiddleOfWriting) {
  std::atomic<int> given_up = 0;
  std::string why;
  std::optional<FinishFirst> writing(std::in_place);
  const RunWatch watch({milliseconds(1), 0}, [&](const std::string& text) {
    why = text;
    ++given_up;
  });
  std::this_thread::sleep_for(milliseconds(30));
  EXPECT_EQ(given_up, 0);
  writing.reset();
  wait_until([&] { return given_up > 0; });
  EXPECT_EQ(why, "the time limit of 0.001 s was reached; --max-time sets another");
  std::this_thread::sleep_for(milliseconds(30));
  EXPECT_EQ(given_up, 1);
}

TEST(RunLimits, ScriptsLeftOutAreNamedAndNotJudged) {
  const TemporaryFolder folder;
  folder.write("train.py", "import torch\nmodel = torch.nn.Linear(10, 10).cuda()\n");
  const Spent spent({milliseconds(1), 0});
  const std::vector<std::string> paths{folder.string()};
  const auto workload = read_all(paths, {});
  ASSERT_TRUE(workload) << workload.error().message;
  ASSERT_EQ(workload->notes.size(), 1U);
  EXPECT_NE(workload->notes[0].find("not read (no time left to read (--max-time 0.001 s))"),
            std::string::npos);
  EXPECT_NE(check(*workload).not_judged_because, "");
}

TEST(RunLimits, FixChangesNothingWhereItCouldNotReadAll) {
  const TemporaryFolder folder;
  folder.write("train.py", "import torch\nmodel = torch.nn.Linear(10, 10).cuda()\n");
  const Spent spent({milliseconds(1), 0});
  const std::vector<std::string> paths{folder.string()};
  const auto fixed = fix_scripts(paths, {});
  ASSERT_FALSE(fixed);
  EXPECT_NE(fixed.error().message.find("nothing was changed"), std::string::npos);
}

struct Counter : KinetoVisitor {
  void on_event(const KinetoEvent&) override { ++events; }
  void on_member(std::string_view, std::string_view) override {}
  int events = 0;
};

TEST(RunLimits, RestOfATraceIsLeftOut) {
  const std::string trace = R"({"traceEvents": [{"ph": "X", "name": "a"}, {"ph": "X"}]})";
  const Spent spent({milliseconds(1), 0});
  Counter counter;
  const auto skipped = read_kineto_stream(*stream_of(trace, 64), counter);
  ASSERT_TRUE(skipped);
  EXPECT_EQ(counter.events, 0);
  EXPECT_EQ(skipped->count("rest of the file: no time left to read (--max-time 0.001 s)"), 1U);
}

}  // namespace
}  // namespace rooftile
