#include "rooftile/formats/nsys/connection.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "rooftile/base/run_limits.h"
#include "rooftile/base/text.h"

namespace rooftile::nsys_format {
namespace {

constexpr int kStepsPerCall = 10000;
// A row takes about 30 instructions and at least 20 bytes, so this is far beyond honest files.
constexpr std::int64_t kFreeSteps = 20'000'000, kStepsPerByte = 200;
constexpr std::size_t kMostTables = 4096;

struct Limit {
  int id, value;
};
// The length bounds one value and one row: kernel names reach some 100 kB.
constexpr std::array<Limit, 8> kLimits{{{SQLITE_LIMIT_LENGTH, 16 << 20},
                                        {SQLITE_LIMIT_EXPR_DEPTH, 100},
                                        {SQLITE_LIMIT_COMPOUND_SELECT, 5},
                                        {SQLITE_LIMIT_VDBE_OP, 25000},
                                        {SQLITE_LIMIT_ATTACHED, 0},
                                        {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 50},
                                        {SQLITE_LIMIT_TRIGGER_DEPTH, 1},
                                        {SQLITE_LIMIT_WORKER_THREADS, 0}}};

// Plain reading only: no functions, no views, no other database.
int authorize_reading(void*, int action, const char* first, const char*, const char*,
                      const char* view) {
  if (view != nullptr) return SQLITE_DENY;
  if (action == SQLITE_SELECT || action == SQLITE_READ) return SQLITE_OK;
  const bool is_columns = action == SQLITE_PRAGMA && std::string_view(first) == "table_info";
  return is_columns ? SQLITE_OK : SQLITE_DENY;
}

int spend_steps(void* steps_left) {
  const bool all_spent = --*static_cast<std::int64_t*>(steps_left) < 0;
  return all_spent || !reading_must_end().empty() ? 1 : 0;
}

// Virtual tables and views may be listed as tables by a forged schema; their SQL tells.
bool is_plain_table(std::string_view sql) {
  constexpr std::string_view kStart = "create table";
  return lower(sql.substr(0, kStart.size())) == kStart;
}

std::string_view text_column(sqlite3_stmt* statement, int column) {
  return Row(statement).text(column - 1);  // Row counts behind the row number
}

void read_columns(sqlite3* handle, Table& table) {
  const Statement query =
      prepare_query(handle, "PRAGMA table_info(" + quoted_identifier(table.name) + ")");
  int keys = 0;
  while (query && sqlite3_step(query.get()) == SQLITE_ROW) {
    table.columns.emplace_back(text_column(query.get(), 1));
    if (sqlite3_column_int(query.get(), 5) == 0) continue;
    ++keys;
    const bool is_row_number = lower(text_column(query.get(), 2)) == "integer";
    if (is_row_number) table.key = table.columns.back();
  }
  if (keys != 1) table.key.clear();
}

// A column of the user's may hide one of the three names of the row number.
void read_row_number(sqlite3* handle, std::int64_t bytes, Table& table) {
  for (const char* name : {"rowid", "oid", "_rowid_"}) {
    if (table.has(name)) continue;
    const Statement last = prepare_query(
        handle, std::string("SELECT ") + name + " FROM " + quoted_identifier(table.name) +
                    " NOT INDEXED ORDER BY " + name + " DESC LIMIT 1");
    if (!last) return;  // WITHOUT ROWID
    table.row_number = name;
    if (sqlite3_step(last.get()) != SQLITE_ROW) return;
    // A row takes a byte or more, so a higher number is no count.
    table.rows = std::clamp<std::int64_t>(sqlite3_column_int64(last.get(), 0), 0, bytes);
    return;
  }
}

}  // namespace

Statement prepare_query(sqlite3* handle, const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v2(handle, sql.c_str(), static_cast<int>(sql.size()), &statement, nullptr);
  return Statement(statement);
}

std::string quoted_identifier(std::string_view name) {
  std::string text = "\"";
  for (const char c : name) {
    if (c == '"') text += '"';
    text += c;
  }
  return text + '"';
}

void harden(Database::Connection& connection, bool is_damaged) {
  sqlite3* const handle = connection.handle.get();
  for (const Limit& limit : kLimits) sqlite3_limit(handle, limit.id, limit.value);
  const int defensive = is_damaged ? 0 : 1;
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, defensive, nullptr);
  // Without this SQLite refuses a file that ends early; the connection cannot write anyway.
  sqlite3_db_config(handle, SQLITE_DBCONFIG_WRITABLE_SCHEMA, 1 - defensive, nullptr);
  for (const int off :
       {SQLITE_DBCONFIG_TRUSTED_SCHEMA, SQLITE_DBCONFIG_ENABLE_TRIGGER, SQLITE_DBCONFIG_ENABLE_VIEW,
        SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, SQLITE_DBCONFIG_DQS_DML}) {
    sqlite3_db_config(handle, off, 0, nullptr);
  }
  sqlite3_exec(handle, "PRAGMA cell_size_check=ON", nullptr, nullptr, nullptr);
  sqlite3_set_authorizer(handle, authorize_reading, nullptr);
  connection.steps_left = (kFreeSteps + connection.bytes * kStepsPerByte) / kStepsPerCall;
  sqlite3_progress_handler(handle, kStepsPerCall, spend_steps, &connection.steps_left);
}

Result<void> list_tables(Database::Connection& connection) {
  sqlite3* const handle = connection.handle.get();
  const Statement query = prepare_query(
      handle, "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND rootpage > 0");
  if (!query) return fail(sqlite3_errmsg(handle));
  int code = SQLITE_ROW;
  while (connection.tables.size() < kMostTables && code == SQLITE_ROW) {
    code = sqlite3_step(query.get());
    if (code != SQLITE_ROW || !is_plain_table(text_column(query.get(), 1))) continue;
    connection.tables.push_back(Table{std::string(text_column(query.get(), 0)), {}, {}, {}, 0});
  }
  const bool is_whole = code == SQLITE_ROW || code == SQLITE_DONE;
  if (!is_whole && connection.tables.empty()) return fail(sqlite3_errmsg(handle));
  connection.is_damaged = connection.is_damaged || !is_whole;
  for (Table& table : connection.tables) {
    read_columns(handle, table);
    read_row_number(handle, connection.bytes, table);
  }
  return {};
}

}  // namespace rooftile::nsys_format
