#include "rooftile/formats/nsys/database.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <unordered_map>
#include <utility>

#include "rooftile/base/file.h"
#include "rooftile/base/file_kind.h"
#include "rooftile/base/text.h"
#include "rooftile/formats/nsys/connection.h"

namespace rooftile::nsys_format {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kMagic = "SQLite format 3\0"sv;
constexpr std::int64_t kFirstRow = std::numeric_limits<std::int64_t>::min();

// "file:///a%20b?immutable=1": no locks, no journal, no write-ahead log is looked for or made.
std::string immutable_uri(const std::string& path) {
  std::error_code error;
  const std::string absolute = std::filesystem::absolute(path, error).string();
  std::string uri = "file://";
  for (const char c : error ? path : absolute) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || "/-_.~"sv.find(c) != std::string_view::npos;
    uri += is_plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return uri + "?mode=ro&immutable=1";
}

std::string select_rows(const Table& table, std::span<const std::string_view> columns) {
  const bool numbered = !table.row_number.empty();
  std::string sql = "SELECT " + (numbered ? table.row_number : "NULL");
  for (const std::string_view column : columns) {
    sql += ", " + (table.has(column) ? quoted_identifier(column) : "NULL");
  }
  sql += " FROM " + quoted_identifier(table.name) + " NOT INDEXED";
  if (numbered) sql += " WHERE " + table.row_number + " >= ?1";
  return sql;
}

// Walks one table; after a failure it looks for the next row that can be read.
class TableWalk {
 public:
  TableWalk(Database::Connection& connection, const Table& table,
            std::span<const std::string_view> columns)
      : connection_(connection),
        table_(table),
        statement_(prepare_query(connection.handle.get(), select_rows(table, columns))) {}

  Scan run(const std::function<void(const Row&)>& visit) {
    scan_.is_cut_off = !statement_;
    int code = statement_ ? start_at(kFirstRow) : SQLITE_DONE;
    while (code != SQLITE_DONE) {
      while (code == SQLITE_ROW) {
        last_ = sqlite3_column_int64(statement_.get(), 0);
        ++scan_.read;
        visit(Row(statement_.get()));
        code = sqlite3_step(statement_.get());
      }
      if (code == SQLITE_DONE) break;
      if (code == SQLITE_INTERRUPT || !skip_damage()) {
        lose_rest();
        break;
      }
      code = SQLITE_ROW;
    }
    return scan_;
  }

 private:
  int start_at(std::int64_t row) {
    if (--connection_.steps_left < 0) return SQLITE_INTERRUPT;
    sqlite3_reset(statement_.get());
    if (!table_.row_number.empty()) sqlite3_bind_int64(statement_.get(), 1, row);
    return sqlite3_step(statement_.get());
  }

  // The row in front of the damage; row numbers of tables that only grew begin at 1.
  std::int64_t row_before() const { return scan_.read == 0 ? 0 : last_; }

  // Stands on the first readable row behind the damage, or gives up. Which rows can be read is
  // taken to be monotone in the row number near the damage.
  bool skip_damage() {
    const std::int64_t before = row_before();
    if (table_.row_number.empty() || before < 0 || before >= table_.rows) return false;
    std::int64_t bad = 0, good = 1;
    while (start_at(before + good) != SQLITE_ROW) {
      bad = good;
      if (good >= table_.rows - before || connection_.steps_left < 0) return false;
      good = std::min(2 * good, table_.rows - before);
    }
    while (bad + 1 < good) {
      const std::int64_t middle = bad + (good - bad) / 2;
      (start_at(before + middle) == SQLITE_ROW ? good : bad) = middle;
    }
    if (start_at(before + good) != SQLITE_ROW) return false;
    const std::int64_t next = sqlite3_column_int64(statement_.get(), 0);
    if (next <= before) return false;
    scan_.lost += next - before - 1;
    return true;
  }

  void lose_rest() {
    if (table_.rows > row_before()) {
      scan_.lost += table_.rows - std::max<std::int64_t>(0, row_before());
    } else {
      scan_.is_cut_off = true;
    }
  }

  Database::Connection& connection_;
  const Table& table_;
  Statement statement_;
  Scan scan_;
  std::int64_t last_ = 0;
};

using Opened = Result<std::unique_ptr<Database::Connection>>;

// Opens as a sound file first and, where that fails, as one that ends early.
Opened connect(const std::function<int(Database::Connection&)>& open) {
  std::string reason;
  for (const bool is_damaged : {false, true}) {
    auto connection = std::make_unique<Database::Connection>();
    const int code = open(*connection);
    if (code == SQLITE_OK) {
      harden(*connection, is_damaged);
      connection->is_damaged = is_damaged;
      const Result<void> listed = list_tables(*connection);
      if (listed) return connection;
      if (reason.empty()) reason = listed.error().message;
    } else if (reason.empty()) {
      reason = sqlite3_errstr(code);
    }
  }
  return fail("is an SQLite database that cannot be read: " + reason);
}

}  // namespace

bool Table::has(std::string_view column) const {
  return std::any_of(columns.begin(), columns.end(),
                     [&](const std::string& mine) { return lower(mine) == lower(column); });
}

// sqlite3_column_value takes one lock where sqlite3_column_type and _int64 take two; its value may
// be read by the thread that owns the connection.
std::optional<std::int64_t> Row::find_integer(int column) const {
  sqlite3_value* const value = sqlite3_column_value(statement_, column + 1);
  if (sqlite3_value_type(value) != SQLITE_INTEGER) return std::nullopt;
  return sqlite3_value_int64(value);
}

std::string_view Row::text(int column) const {
  if (sqlite3_column_type(statement_, column + 1) != SQLITE_TEXT) return {};
  const auto* const text = sqlite3_column_text(statement_, column + 1);
  if (text == nullptr) return {};
  return {reinterpret_cast<const char*>(text),
          static_cast<std::size_t>(sqlite3_column_bytes(statement_, column + 1))};
}

Database::Database(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}
Database::Database(Database&&) noexcept = default;
Database& Database::operator=(Database&&) noexcept = default;
Database::~Database() = default;

Result<Database> Database::open(const std::string& path) {
  const Result<std::string> head = read_head(path, 4096);
  if (!head) return tl::unexpected(head.error());
  if (!head->starts_with(kMagic)) {
    return fail(fmt::format("is {}, expected an SQLite database", describe_content(*head)));
  }
  auto connection = connect([&](Connection& made) {
    std::error_code error;
    const auto bytes = std::filesystem::file_size(path, error);
    made.bytes = error ? 0 : static_cast<std::int64_t>(bytes);
    sqlite3* handle = nullptr;
    const int code =
        sqlite3_open_v2(immutable_uri(path).c_str(), &handle,
                        SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, nullptr);
    made.handle.reset(handle);
    return code;
  });
  if (!connection) return tl::unexpected(connection.error());
  return Database(std::move(*connection));
}

Result<Database> Database::open_bytes(std::string bytes) {
  const auto memory = std::make_shared<std::string>(std::move(bytes));
  auto connection = connect([&](Connection& made) {
    made.memory = memory;
    made.bytes = static_cast<std::int64_t>(memory->size());
    sqlite3* handle = nullptr;
    sqlite3_open_v2(":memory:", &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
    made.handle.reset(handle);
    auto* const data = reinterpret_cast<unsigned char*>(memory->data());
    return sqlite3_deserialize(handle, "main", data, made.bytes, made.bytes,
                               SQLITE_DESERIALIZE_READONLY);
  });
  if (!connection) return tl::unexpected(connection.error());
  return Database(std::move(*connection));
}

const std::vector<Table>& Database::tables() const { return connection_->tables; }

const Table* Database::find(std::string_view name) const {
  for (const Table& table : connection_->tables) {
    if (table.name == name) return &table;
  }
  return nullptr;
}

bool Database::is_damaged() const { return connection_->is_damaged; }

std::int64_t Database::bytes() const { return connection_->bytes; }

Scan Database::scan(const Table& table, std::span<const std::string_view> columns,
                    const std::function<void(const Row&)>& visit) const {
  return TableWalk(*connection_, table, columns).run(visit);
}

// Either a query by row number, or all texts where the key is an ordinary column.
struct TextLookup::State {
  Statement query;
  std::unordered_map<std::int64_t, std::string> texts;
};

TextLookup::TextLookup(const Database& database, const Table* table, std::string_view key,
                       std::string_view text)
    : state_(std::make_unique<State>()) {
  if (table == nullptr || !table->has(key) || !table->has(text)) return;
  if (table->key == key) {
    state_->query = prepare_query(database.connection_->handle.get(),
                                  "SELECT NULL, " + quoted_identifier(text) + " FROM " +
                                      quoted_identifier(table->name) + " NOT INDEXED WHERE " +
                                      quoted_identifier(key) + " = ?1");
    return;
  }
  const std::array columns{key, text};
  database.scan(*table, columns, [this](const Row& row) {
    if (const auto number = row.find_integer(0)) state_->texts.emplace(*number, row.text(1));
  });
}

TextLookup::~TextLookup() = default;

std::optional<std::string> TextLookup::find(std::int64_t key) const {
  if (!state_->query) {
    const auto found = state_->texts.find(key);
    if (found == state_->texts.end()) return std::nullopt;
    return found->second;
  }
  sqlite3_stmt* const query = state_->query.get();
  sqlite3_reset(query);
  sqlite3_bind_int64(query, 1, key);
  if (sqlite3_step(query) != SQLITE_ROW) return std::nullopt;
  return std::string(Row(query).text(0));
}

}  // namespace rooftile::nsys_format
