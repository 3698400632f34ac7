#include "rooftile/base/byte_stream.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace rooftile {
namespace {

// CRC-32 of RFC 1952, bit by bit.
std::uint32_t crc_of(std::string_view bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0xedb88320U : 0U);
  }
  return ~crc;
}

void append_little_endian(std::string& bytes, std::uint64_t value, int count) {
  for (int i = 0; i < count; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
}

// A gzip member of stored blocks (RFC 1951, 3.2.4).
std::string stored_gzip(std::string_view text) {
  std::string bytes("\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);
  std::size_t at = 0;
  do {
    const std::string_view block = text.substr(at, 65535);
    at += block.size();
    bytes.push_back(at == text.size() ? '\1' : '\0');
    append_little_endian(bytes, block.size(), 2);
    append_little_endian(bytes, ~block.size(), 2);
    bytes.append(block);
  } while (at < text.size());
  append_little_endian(bytes, crc_of(text), 4);
  append_little_endian(bytes, text.size(), 4);
  return bytes;
}

std::string long_text(std::size_t size) {
  std::string text;
  for (std::uint32_t i = 0; text.size() < size; ++i) text += std::to_string(i * 2654435761U) + ",";
  text.resize(size);
  return text;
}

struct Reading {
  std::string text, problem;
  std::uint64_t last_done = 0, total = 0;
};

std::string written(std::string_view bytes) {
  const auto path = std::filesystem::path(testing::TempDir()) / "byte_stream_test.bin";
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::ssize(bytes));
  return path.string();
}

Reading read_all(std::string_view bytes) {
  Reading reading;
  const std::string path = written(bytes);
  auto stream = ByteStream::open(path, [&](std::uint64_t done, std::uint64_t total) {
    EXPECT_GE(done, reading.last_done);
    reading.last_done = done;
    reading.total = total;
  });
  EXPECT_TRUE(stream);
  for (std::string_view block = (*stream)->next(); !block.empty(); block = (*stream)->next()) {
    reading.text += block;
  }
  reading.problem = (*stream)->problem();
  std::filesystem::remove(path);
  return reading;
}

TEST(ByteStream, ReadsPlainAndGzip) {
  const std::string text = long_text(3'000'000);
  const std::string half = text.substr(0, 1'500'000), rest = text.substr(1'500'000);
  struct Case {
    const char* name;
    std::string bytes, text, problem;
  };
  const std::string gzip = stored_gzip(text);
  std::string wrong_crc = gzip;
  wrong_crc[wrong_crc.size() - 6] ^= 1;
  std::string damaged = gzip;
  damaged[10 + 5 + 65535] = '\7';  // the second block's type becomes the reserved one
  const Case cases[] = {
      {"empty", "", "", ""},
      {"plain", text, text, ""},
      {"gzip", gzip, text, ""},
      {"two members", stored_gzip(half) + stored_gzip(rest), text, ""},
      {"many small members", stored_gzip("a") + stored_gzip("") + stored_gzip("b"), "ab", ""},
      {"padding", gzip + std::string(1000, '\0'), text, ""},
      {"member behind padding", stored_gzip(half) + std::string(1000, '\0') + stored_gzip(rest),
       text, ""},
      {"other bytes behind", gzip + "tail", text, "bytes that are not gzip follow the gzip data"},
      {"cut", gzip.substr(0, 10 + 5 + 1000), text.substr(0, 1000), "gzip data is cut short"},
      {"cut in the checksum", gzip.substr(0, gzip.size() - 6), text, "gzip data is cut short"},
      {"cut in the header", gzip.substr(0, 5), "", "gzip data is cut short"},
      {"wrong checksum", wrong_crc, text, "gzip data has a wrong checksum"},
      {"damaged", damaged, text.substr(0, 65535), "gzip data is damaged"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const Reading reading = read_all(c.bytes);
    EXPECT_EQ(reading.text.size(), c.text.size());
    EXPECT_TRUE(reading.text == c.text);
    EXPECT_EQ(reading.problem, c.problem);
    if (!c.text.empty()) {
      EXPECT_EQ(reading.total, c.bytes.size());
    }
  }
}

// Made by Python: gzip.compress(b"hello hello hello hello\n", mtime=0)
TEST(ByteStream, ReadsCompressedBlocks) {
  constexpr std::array<unsigned char, 29> kHello{
      0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xcb, 0x48, 0xcd, 0xc9, 0xc9,
      0x57, 0xc8, 0x40, 0x27, 0xb9, 0x00, 0x00, 0x88, 0x59, 0x0b, 0x18, 0x00, 0x00, 0x00};
  const std::string bytes(reinterpret_cast<const char*>(kHello.data()), kHello.size());
  const Reading reading = read_all(bytes);
  EXPECT_EQ(reading.text, "hello hello hello hello\n");
  EXPECT_EQ(reading.problem, "");
}

TEST(ByteStream, StopsEarly) {
  const std::string path = written(stored_gzip(long_text(8'000'000)));
  auto stream = ByteStream::open(path);
  ASSERT_TRUE(stream);
  EXPECT_FALSE((*stream)->next().empty());
  stream->reset();  // must not wait for a reader that never comes
  const auto head = read_text_head(path, 100);
  ASSERT_TRUE(head);
  EXPECT_EQ(*head, long_text(100));
  std::filesystem::remove(path);
}

TEST(ByteStream, NamesWhatIsNoFile) {
  EXPECT_EQ(ByteStream::open("/no/such/file").error().message, "No such file or directory");
  EXPECT_EQ(ByteStream::open("/").error().message, "is a directory, expected a file");
  EXPECT_EQ(ByteStream::open("/dev/null").error().message, "is not a regular file");
}

}  // namespace
}  // namespace rooftile
