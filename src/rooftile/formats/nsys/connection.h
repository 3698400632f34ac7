// The hardened connection behind Database.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rooftile/formats/nsys/database.h"

namespace rooftile::nsys_format {

struct CloseConnection {
  void operator()(sqlite3* connection) const { sqlite3_close_v2(connection); }
};
struct FinalizeStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Handle = std::unique_ptr<sqlite3, CloseConnection>;
using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

struct Database::Connection {
  std::shared_ptr<std::string> memory;  // of open_bytes(); the handle reads it
  Handle handle;
  std::int64_t bytes = 0;
  std::int64_t steps_left = 0;  // budget: units of 10000 instructions, or searches behind damage
  std::vector<Table> tables;
  bool is_damaged = false;
};

// Null where the query cannot be prepared.
Statement prepare_query(sqlite3* handle, const std::string& sql);
// "a""b": an identifier as SQL spells it.
std::string quoted_identifier(std::string_view name);

// Limits, switches and the authorizer: nothing but plain reading of stored columns is allowed.
// `is_damaged` reads files that are shorter than their header says.
void harden(Database::Connection& connection, bool is_damaged);
// Fills `tables` and `is_damaged`, or says why nothing can be listed.
Result<void> list_tables(Database::Connection& connection);

}  // namespace rooftile::nsys_format
