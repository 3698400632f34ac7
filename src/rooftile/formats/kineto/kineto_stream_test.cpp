#include "rooftile/formats/kineto/kineto_stream.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rooftile/formats/kineto/json_values.h"

namespace rooftile {
namespace {

// Names of the events in order, then keys of the members.
class Recorder final : public KinetoVisitor {
 public:
  void on_event(const KinetoEvent& event) override {
    events.emplace_back(unquoted(event.name));
    args += event.args.size();
  }
  void on_member(std::string_view key, std::string_view value) override {
    members.push_back(fmt::format("{}={}", key, value));
  }

  std::vector<std::string> events, members;
  std::size_t args = 0;
};

struct Reading {
  Recorder found;
  SkippedRecords skipped;
  std::string error;
};

Reading read(std::string_view text, std::size_t block = 1U << 20U) {
  Reading reading;
  const auto stream = stream_of(text, block);
  auto skipped = read_kineto_stream(*stream, reading.found);
  if (skipped) {
    reading.skipped = *skipped;
  } else {
    reading.error = skipped.error().message;
  }
  return reading;
}

constexpr std::string_view kEvent =
    R"({"ph": "X", "cat": "cpu_op", "name": "good", "pid": 1, "tid": 1, "ts": 1.5, "dur": 2,
        "args": {"External id": 7, "Input Dims": [[1, 2], []]}})";

TEST(KinetoStream, ReadsBothFormsInPiecesOfAnySize) {
  const std::string list = fmt::format("[{0},\n {0} ,{0}\n]", kEvent);
  const std::string object = fmt::format(
      "\xef\xbb\xbf{{ \"schemaVersion\": 1, \"traceEvents\": {}, \"traceName\": \"]}}\"}}", list);
  for (const std::size_t block : {1U, 7U, 64U, 1U << 20U}) {
    const Reading plain = read(list, block);
    EXPECT_EQ(plain.found.events, (std::vector<std::string>{"good", "good", "good"})) << block;
    EXPECT_EQ(plain.found.args, 6U);
    EXPECT_TRUE(plain.skipped.empty());
    const Reading whole = read(object, block);
    EXPECT_EQ(whole.found.events.size(), 3U) << block;
    EXPECT_EQ(whole.found.members,
              (std::vector<std::string>{"schemaVersion=1", "traceName=\"]}\""}));
    EXPECT_TRUE(whole.skipped.empty());
  }
}

// Between two good events stands something that is none, or a bad one.
TEST(KinetoStream, DamageCostsOnlyItself) {
  struct Case {
    const char* text;
    std::vector<std::string> between;  // events read from it
    SkippedRecords skipped;
  };
  const Case cases[] = {
      {R"({"ph": "X", "name": "tab)"
       "\t\x01"
       R"("})",
       {"tab\t\x01"},
       {}},
      {R"({"ph": "X", "name": "nan", "dur": NaN, "ts": -Infinity})", {"nan"}, {}},
      {R"({"ph": "X", "name": "huge", "args": {"a": 99999999999999999999999}})", {"huge"}, {}},
      {"{\"ph\": \"X\", \"name\": \"\xff\xfe\"}", {"\xff\xfe"}, {}},
      {R"({"ph": "X" "name": "no comma"})", {"no comma"}, {}},
      {R"({"ph": "X", "name": "comma",})", {"comma"}, {}},
      {R"({"ph": "X", "args": {}, "name": "first", "name": "last"})", {"last"}, {}},
      {"{}", {""}, {}},
      {"7", {}, {{"events that are not objects", 1}}},
      {"null", {}, {{"events that are not objects", 1}}},
      {R"("text, {")", {}, {{"events that are not objects", 1}}},
      {R"([{"ph": "X"}])", {}, {{"events that are not objects", 1}}},
      {R"({"ph" "X"})", {}, {{"events that are not JSON", 1}}},
      {R"({ph: "X"})", {}, {{"events that are not JSON", 1}}},
      {R"({"ph": , "name": "x"})", {}, {{"events that are not JSON", 1}}},
      {R"({"ph": "X", "args": {"a": [1}]})", {}, {{"events that are not JSON", 1}}},
      {R"({"ph": "X", "name": "lost quote, "ts": 1})", {}, {{"events that are not JSON", 1}}},
      {R"({"ph": "X", "name": "lost brace", "args": {"a": 1})",
       {},
       {{"events that are not JSON", 1}}},
      {R"({"ph": "X", "a": )"
       "\x7f"
       R"(})",
       {""},
       {}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    const std::string text =
        fmt::format(R"({{"traceEvents": [{0}, {1}, {0}], "last": 1}})", kEvent, c.text);
    for (const std::size_t block : {3U, 1U << 20U}) {
      const Reading reading = read(text, block);
      std::vector<std::string> expected{"good"};
      expected.insert(expected.end(), c.between.begin(), c.between.end());
      expected.emplace_back("good");
      EXPECT_EQ(reading.found.events, expected);
      EXPECT_EQ(reading.skipped, c.skipped);
      EXPECT_EQ(reading.found.members, std::vector<std::string>{"last=1"});
    }
  }
}

TEST(KinetoStream, DamageAtTheEndKeepsWhatFollowsTheEvents) {
  const Reading reading =
      read(fmt::format(R"({{"traceEvents": [{}, {{"ph" 1}}], "last": 1}})", kEvent));
  EXPECT_EQ(reading.found.events.size(), 1U);
  EXPECT_EQ(reading.found.members.size(), 1U);
  EXPECT_EQ(reading.skipped, (SkippedRecords{{"events that are not JSON", 1}}));
}

TEST(KinetoStream, CutFilesKeepWhatIsThere) {
  const std::string start = R"({"a": 1, "traceEvents": [)";
  const std::string text = fmt::format(R"({0}{1},{1}], "b": 2}})", start, kEvent);
  for (std::size_t size = start.size(); size < text.size(); ++size) {
    const Reading reading = read(text.substr(0, size), 64);
    const std::size_t events = size < start.size() + kEvent.size()           ? 0
                               : size < start.size() + 2 * kEvent.size() + 1 ? 1
                                                                             : 2;
    EXPECT_EQ(reading.error, "");
    EXPECT_EQ(reading.found.events.size(), events) << size;
    EXPECT_EQ(reading.skipped, (SkippedRecords{{"rest of the file: cut short", 1}})) << size;
  }
}

TEST(KinetoStream, HugeEventsAreSkipped) {
  for (const std::size_t size : {kMostEventBytes + 1000, 3 * kMostEventBytes}) {
    const std::string huge = fmt::format(R"({{"ph": "X", "name": "{}"}})", std::string(size, 'x'));
    const Reading reading = read(fmt::format("[{0}, {1}, {0}]", kEvent, huge));
    EXPECT_EQ(reading.found.events.size(), 2U);
    EXPECT_EQ(reading.skipped, (SkippedRecords{{"events larger than 16 MiB", 1}}));
  }
}

// Each bad event could make the scanner look at all that follows.
TEST(KinetoStream, NothingButDamageTakesLinearTime) {
  for (const std::string_view unit :
       {"{x},", "{\"ph\":1\",", "{\"ph\":[\"", "{", "{\"ph\":\"", "[", "{\"ph\" {\"a\"},",
        ",{\"ph\":[\"]}\"", "\"", "{\"ph\":{\"x\":["}) {
    std::string text = "[{\"ph\":1},";
    while (text.size() < 500'000) text += unit;
    const Reading reading = read(text);
    EXPECT_EQ(reading.error, "");
    EXPECT_FALSE(reading.skipped.empty()) << unit;
  }
}

TEST(KinetoStream, OtherFilesAreRefusedByWhatTheyAre) {
  struct Case {
    std::string text, what;
  };
  const Case cases[] = {
      {"", "empty"},
      {"hello", "plain text"},
      {"\x89PNG\r\n", "a PNG image"},
      {"[[-1, 1, 37888, 7], [-1, 1, 512, 7]]",
       "a list of lists, as memory timelines of PyTorch are"},
      {"[]", "an empty JSON list"},
      {"[1, 2]", "a JSON list of something other than events"},
      {R"({"schema": "1.0.1", "pid": 1, "nodes": [{"name": "x"}]})",
       "an execution trace of PyTorch, which has no GPU times"},
      {R"({"rocprofiler-sdk-tool": [{"metadata": {}}]})", "output of rocprofv3"},
      {R"({"model_type": "bert", "hidden_size": 768})", "a Hugging Face configuration"},
      {R"({"a": 1, "b": 2})", "a JSON object with 'a', 'b'"},
      {R"({"traceEvents": 1})", "a JSON object with 'traceEvents'"},
      {"{}", "a JSON object without members"},
      {R"({"a)", "a JSON object without members"},
  };
  for (const Case& c : cases) {
    EXPECT_TRUE(read(c.text).error.starts_with(c.what + ": expected a trace"))
        << c.text << ": " << read(c.text).error;
  }
}

}  // namespace
}  // namespace rooftile
