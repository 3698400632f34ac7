#include "rooftile/formats/nsys/database.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "rooftile/readers/nsys/nsys_export.h"

namespace rooftile::nsys_format {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kRows = 20000;
constexpr std::size_t kPage = 4096;
constexpr std::array<std::string_view, 2> kColumns{"number", "missing"};

// About 150 pages of rows 1 to kRows.
std::string numbers() {
  return database_bytes(
      "CREATE TABLE numbers(number INTEGER, text TEXT); WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL "
      "SELECT x + 1 FROM c WHERE x < 20000) INSERT INTO numbers SELECT x, 'some words' FROM c;");
}

struct Numbers {
  Scan scan;
  std::set<std::int64_t> read;
  bool is_damaged = false;
};

Numbers scan_numbers(const std::string& bytes) {
  Numbers numbers;
  const Result<Database> database = Database::open_bytes(bytes);
  EXPECT_TRUE(database) << database.error().message;
  if (!database) return numbers;
  const Table* table = database->find("numbers");
  EXPECT_NE(table, nullptr);
  if (table == nullptr) return numbers;
  numbers.is_damaged = database->is_damaged();
  numbers.scan = database->scan(*table, kColumns, [&](const Row& row) {
    EXPECT_FALSE(row.find_integer(1));
    numbers.read.insert(row.integer(0));
  });
  return numbers;
}

TEST(NsysDatabase, ReadsEveryRow) {
  const Numbers numbers_read = scan_numbers(numbers());
  EXPECT_EQ(numbers_read.read.size(), static_cast<std::size_t>(kRows));
  EXPECT_EQ(numbers_read.scan.lost, 0);
  EXPECT_FALSE(numbers_read.scan.is_cut_off || numbers_read.is_damaged);
}

TEST(NsysDatabase, ReadsOnBehindDamagedPages) {
  const std::string whole = numbers();
  for (std::size_t page = 4; page < whole.size() / kPage - 1; page += 7) {
    std::string bytes = whole;
    bytes.replace(page * kPage, 8, 8, '\xff');
    const Numbers damaged = scan_numbers(bytes);
    EXPECT_EQ(damaged.scan.read, static_cast<std::int64_t>(damaged.read.size())) << page;
    EXPECT_EQ(damaged.scan.read + damaged.scan.lost, kRows) << page;
    EXPECT_LT(damaged.scan.lost, 400) << page;  // one page holds about 150 rows
  }
}

TEST(NsysDatabase, ReadsTheStartOfACutFile) {
  const std::string whole = numbers();
  const Numbers half = scan_numbers(whole.substr(0, whole.size() / 2));
  EXPECT_TRUE(half.is_damaged);
  EXPECT_TRUE(half.scan.is_cut_off);
  EXPECT_GT(half.scan.read, kRows / 3);
  EXPECT_LT(half.scan.read, kRows * 2 / 3);
  EXPECT_EQ(*half.read.rbegin(), half.scan.read);  // the first rows, in order
}

// No journal, no log, no lock stays behind, whatever the path looks like.
TEST(NsysDatabase, LeavesNothingBehind) {
  const fs::path folder = fs::path(testing::TempDir()) / "rooftile nsys %41?#";
  fs::remove_all(folder);
  fs::create_directories(folder);
  const fs::path path = folder / "a b&mode=rwc.sqlite";
  const std::string bytes = numbers();
  std::ofstream(path, std::ios::binary) << bytes;
  const auto written = fs::last_write_time(path);
  {
    const Result<Database> database = Database::open(path.string());
    ASSERT_TRUE(database) << to_string(database.error());
    EXPECT_EQ(database->bytes(), static_cast<std::int64_t>(bytes.size()));
    const Table* table = database->find("numbers");
    ASSERT_NE(table, nullptr);
    EXPECT_EQ(table->rows, kRows);
    EXPECT_EQ(database->scan(*table, kColumns, [](const Row&) {}).read, kRows);
  }
  EXPECT_EQ(fs::last_write_time(path), written);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
  fs::remove_all(folder);
}

TEST(NsysDatabase, LooksTextsUp) {
  for (const char* key : {"INTEGER PRIMARY KEY", "INTEGER"}) {
    const Result<Database> database = Database::open_bytes(
        database_bytes(std::string("CREATE TABLE StringIds(id ") + key +
                       ", value TEXT); INSERT INTO StringIds VALUES(5,'five'),(7,'seven');"));
    ASSERT_TRUE(database);
    const TextLookup texts(*database, database->find("StringIds"), "id", "value");
    EXPECT_EQ(texts.find(7), "seven") << key;
    EXPECT_EQ(texts.find(6), std::nullopt) << key;
  }
}

TEST(NsysDatabase, RefusesWhatIsNoFile) {
  const Result<Database> folder = Database::open(testing::TempDir());
  ASSERT_FALSE(folder);
  EXPECT_NE(folder.error().message.find("directory"), std::string::npos);
}

}  // namespace
}  // namespace rooftile::nsys_format
