#include "rooftile/formats/kineto/json_values.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rooftile {
namespace {

TEST(JsonValues, NanosecondsAreExact) {
  struct Case {
    std::string_view text;
    std::optional<std::int64_t> nanoseconds;
  };
  const Case cases[] = {
      {"0", 0},
      {"12", 12'000},
      {"105.941", 105'941},
      {"0.5", 500},
      {"7.", 7'000},
      // Beyond 2^53 ns, where doubles lose single nanoseconds.
      {"1414456661601.577", 1'414'456'661'601'577},
      {"1623142623460111", 1'623'142'623'460'111'000},
      {"1623142623460111.999", 1'623'142'623'460'111'999},
      {"-5.25", -5'250},
      {"-0.001", -1},
      {"\"12.5\"", 12'500},
      {"4.123999999999967", 4'124},
      {"4.1234", 4'123},
      {"4.12350000", 4'124},
      {"0.9999", 1'000},
      {"1e3", 1'000'000},
      {"1.5E-1", 150},
      {"9223372036854000.001", 9'223'372'036'854'000'001},
      {"99999999999999999999", {}},
      {"1e300", {}},
      {"", {}},
      {"-", {}},
      {"NaN", {}},
      {"Infinity", {}},
      {"null", {}},
      {"12x", {}},
      {"1.2.3", {}},
      {"+3", {}},
      {"\"stream 7\"", {}},
  };
  for (const Case& c : cases) EXPECT_EQ(nanoseconds_in(c.text), c.nanoseconds) << c.text;
}

TEST(JsonValues, Integers) {
  struct Case {
    std::string_view text;
    std::optional<std::int64_t> integer;
  };
  const Case cases[] = {{"7", 7},
                        {"-549452224", -549452224},
                        {"\"25738\"", 25738},
                        {"7.0", 7},
                        {"7.5", {}},
                        {"9223372036854775807", 9223372036854775807},
                        {"9223372036854775808", {}},
                        {"18446744073709551615", {}},
                        {"", {}},
                        {"\"\"", {}},
                        {"[1]", {}},
                        {"NaN", {}}};
  for (const Case& c : cases) EXPECT_EQ(integer_in(c.text), c.integer) << c.text;
}

TEST(JsonValues, DecodedIsAlwaysUtf8WithoutControls) {
  struct Case {
    std::string_view text, decoded;
  };
  const Case cases[] = {
      {"aten::add", "aten::add"},
      {R"(a\"b\\c\/d)", R"(a"b\c/d)"},
      {R"(a\nb\tc)", "a b c"},
      {"a\nb\x01", "a b "},
      {R"(\u00e9)", "\xc3\xa9"},
      {R"(\u0041\u0000)", "A "},
      {R"(\ud83d\ude00)", "\xf0\x9f\x98\x80"},
      {R"(\ud83dx)", "\xef\xbf\xbdx"},
      {R"(\ude00)", "\xef\xbf\xbd"},
      {R"(\u12)",
       "\xef\xbf\xbd"
       "12"},
      {R"(\q)", "q"},
      {"\xc3\xa9\xf0\x9f\x98\x80", "\xc3\xa9\xf0\x9f\x98\x80"},
      {"\xff", "\xef\xbf\xbd"},
      {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},                  // overlong
      {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},  // a surrogate
      {"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd"},
      {"\\", ""},
  };
  for (const Case& c : cases) EXPECT_EQ(decoded(c.text), c.decoded) << c.text;
}

TEST(JsonValues, ElementsAndMembers) {
  std::vector<std::string> found;
  const auto keep = [&](std::string_view value) { found.emplace_back(value); };
  EXPECT_TRUE(each_element(R"([ 1, [2, "]"], {"a": [3]}, "x,y" ,NaN])", keep));
  EXPECT_EQ(found,
            (std::vector<std::string>{"1", R"([2, "]"])", R"({"a": [3]})", R"("x,y")", "NaN"}));
  EXPECT_TRUE(each_element("[]", keep));
  EXPECT_FALSE(each_element("7", keep));
  EXPECT_FALSE(each_element("[1", keep));
  found.clear();
  EXPECT_TRUE(each_member(R"({"a": 1, "b\"": {"c": 2}})",
                          [&](std::string_view key, std::string_view value) {
                            found.push_back(std::string(key) + "=" + std::string(value));
                          }));
  EXPECT_EQ(found, (std::vector<std::string>{"a=1", R"(b\"={"c": 2})"}));
}

TEST(JsonScan, ContainersMatchTheirBrackets) {
  const auto scan = [](std::string_view text) {
    JsonCursor cursor{text.data(), text.data() + text.size()};
    return scan_container(cursor);
  };
  EXPECT_EQ(scan(R"({"a": ["}", "\"]"]})"), JsonScan::ok);
  EXPECT_EQ(scan("[1}"), JsonScan::bad);
  EXPECT_EQ(scan("[[1]"), JsonScan::more);
  EXPECT_EQ(scan("[\"a"), JsonScan::more);
  EXPECT_EQ(scan("[\"a\\"), JsonScan::more);
  EXPECT_EQ(scan(std::string(64, '[') + std::string(64, ']')), JsonScan::ok);
  EXPECT_EQ(scan(std::string(65, '[') + std::string(65, ']')), JsonScan::bad);
}

}  // namespace
}  // namespace rooftile
