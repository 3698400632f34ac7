// Small exports for tests: databases in memory, made by SQL, in the form of an old and of a recent
// Nsight Systems.
#pragma once

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <string>
#include <string_view>

namespace rooftile {

// The bytes of a database after these statements.
inline std::string database_bytes(const std::string& sql) {
  sqlite3* handle = nullptr;
  EXPECT_EQ(sqlite3_open(":memory:", &handle), SQLITE_OK);
  char* message = nullptr;
  EXPECT_EQ(sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, &message), SQLITE_OK) << message;
  sqlite3_free(message);
  sqlite3_int64 size = 0;
  unsigned char* data = sqlite3_serialize(handle, "main", &size, 0);
  std::string bytes(reinterpret_cast<char*>(data), static_cast<std::size_t>(size));
  sqlite3_free(data);
  sqlite3_close(handle);
  return bytes;
}

inline constexpr std::string_view kStringsSql =
    "CREATE TABLE StringIds(id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);"
    "INSERT INTO StringIds VALUES(1,'void gemm<float>()'),(2,'gemm'),(3,'cudaLaunchKernel_v7000'),"
    "(4,'cuLaunchKernel'),(5,'cudaMemcpyAsync_ptsz_v3020'),(6,'registered range'),(7,'_Z4gemm'),"
    "(8,'cudaGetDeviceProperties_v2_v12000');";

// Schema 3.0, as of 2022.
inline constexpr std::string_view kOldSql =
    "CREATE TABLE EXPORT_META_DATA(name TEXT NOT NULL, value TEXT);"
    "INSERT INTO EXPORT_META_DATA VALUES('EXPORT_SCHEMA_VERSION','3.0.0');"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER NOT NULL, end INTEGER NOT NULL,"
    "deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL,"
    "correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL,"
    "shortName INTEGER NOT NULL, registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL,"
    "gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL,"
    "blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT NULL,"
    "dynamicSharedMemory INTEGER NOT NULL);";

// Schema 3.24, as of 2025: columns in another order, and new ones.
inline constexpr std::string_view kNewSql =
    "CREATE TABLE META_DATA_EXPORT(name TEXT NOT NULL, value TEXT);"
    "INSERT INTO META_DATA_EXPORT VALUES('EXPORT_SCHEMA_VERSION','3.24.0');"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER NOT NULL, end INTEGER NOT NULL,"
    "deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, greenContextId INTEGER,"
    "streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, graphId INTEGER,"
    "demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER,"
    "launchType INTEGER, clusterX INTEGER, clusterY INTEGER, clusterZ INTEGER,"
    "registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, gridY INTEGER NOT NULL,"
    "gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL,"
    "blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT NULL,"
    "dynamicSharedMemory INTEGER NOT NULL, graphNodeId INTEGER);";

inline constexpr std::string_view kCallsSql =
    "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INTEGER NOT NULL, end INTEGER NOT NULL,"
    "eventClass INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER,"
    "nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);";

inline constexpr std::string_view kRangesSql =
    "CREATE TABLE NVTX_EVENTS(start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL,"
    "rangeId INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER);";

// Thread 21 of process 10, and process 11: bits 24 to 47 hold the process.
inline constexpr std::string_view kThreadSql = "((10<<24)|21)", kProcessSql = "(10<<24)",
                                  kOtherProcessSql = "(11<<24)";

// "INSERT …" with the three names above in place of $T, $P and $Q.
inline std::string with_ids(std::string sql) {
  for (const auto& [mark, value] :
       {std::pair{"$T", kThreadSql}, {"$P", kProcessSql}, {"$Q", kOtherProcessSql}}) {
    for (std::size_t at = sql.find(mark); at != std::string::npos; at = sql.find(mark)) {
      sql.replace(at, 2, value);
    }
  }
  return sql;
}

// One kernel in the columns that both schemas have.
inline std::string kernel_sql(const std::string& times_device_stream_correlation_process) {
  return with_ids(
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL(start,end,deviceId,streamId,correlationId,globalPid,"
      "contextId,demangledName,shortName,registersPerThread,gridX,gridY,gridZ,blockX,blockY,"
      "blockZ,staticSharedMemory,dynamicSharedMemory) VALUES(" +
      times_device_stream_correlation_process + ",1,1,2,64,108,2,1,128,1,1,1024,2048);");
}

}  // namespace rooftile
