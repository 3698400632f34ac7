// Tables of an SQLite file that may be hostile or damaged: opened read-only, no code of the file
// ever runs, and reading goes on behind a damaged place.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/result.h"

struct sqlite3_stmt;

namespace rooftile::nsys_format {

struct Table {
  std::string name;
  std::vector<std::string> columns;  // stored ones; generated columns are code of the file
  std::string key;                   // the column that is the row number, or empty
  std::string row_number;            // how queries spell the row number; empty = the table has none
  // Highest row number, at most the file's bytes: the count of a table that only ever grew.
  std::int64_t rows = 0;

  bool has(std::string_view column) const;
};

// One row while it is visited; columns count from 0 in the order they were asked for.
class Row {
 public:
  explicit Row(sqlite3_stmt* statement) : statement_(statement) {}

  // Empty where the value is no integer or the table lacks the column.
  std::optional<std::int64_t> find_integer(int column) const;
  std::int64_t integer(int column, std::int64_t otherwise = 0) const {
    return find_integer(column).value_or(otherwise);
  }
  // Empty where the value is no text; valid until the next row.
  std::string_view text(int column) const;

 private:
  sqlite3_stmt* statement_;
};

// How reading a table went.
struct Scan {
  std::int64_t read = 0;
  std::int64_t lost = 0;    // rows in damaged places, by the gap in the row numbers
  bool is_cut_off = false;  // an unknown number of further rows could not be read
};

class Database {
 public:
  // Errors say what the file is where it is no SQLite database.
  static Result<Database> open(const std::string& path);
  // The same over bytes in memory.
  static Result<Database> open_bytes(std::string bytes);

  Database(Database&&) noexcept;
  Database& operator=(Database&&) noexcept;
  ~Database();

  const std::vector<Table>& tables() const;
  // Null where the file has no such table.
  const Table* find(std::string_view name) const;
  // Whether the file is shorter than its header says, or its list of tables ends in damage.
  bool is_damaged() const;
  // Size of the file.
  std::int64_t bytes() const;

  // Visits every readable row. Columns that the table lacks have no value.
  Scan scan(const Table& table, std::span<const std::string_view> columns,
            const std::function<void(const Row&)>& visit) const;

  struct Connection;

 private:
  explicit Database(std::unique_ptr<Connection> connection);

  friend class TextLookup;
  std::unique_ptr<Connection> connection_;
};

// Looks texts up by the number in their table's key column (StringIds.id).
class TextLookup {
 public:
  // `table` may be null: then nothing is found.
  TextLookup(const Database& database, const Table* table, std::string_view key,
             std::string_view text);
  TextLookup(const TextLookup&) = delete;
  TextLookup& operator=(const TextLookup&) = delete;
  ~TextLookup();

  std::optional<std::string> find(std::int64_t key) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rooftile::nsys_format
