// SqliteDatabase: one connection to a SQLite database, a file or memory, and its prepared statements. Calls
// of one connection must not overlap. Errors carry SQLite's own message. It waits at most kBusyMs for a write
// of another connection.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace ft::api {

/// A prepared statement. Texts that are bound must outlive step().
class SqliteStatement {
 public:
  SqliteStatement(sqlite3* connection, sqlite3_stmt* statement);
  SqliteStatement& bind(int place, std::int64_t value);  // places count from 1
  SqliteStatement& bind(int place, std::string_view bytes);
  /// True: there is a row, whose columns count from 0.
  Result<bool> step();
  std::int64_t integer(int column) const;
  std::string bytes(int column) const;

 private:
  struct Deleter {
    void operator()(sqlite3_stmt* statement) const;
  };
  sqlite3* connection_;
  std::unique_ptr<sqlite3_stmt, Deleter> statement_;
  Status bound_;
};

class SqliteDatabase {
 public:
  static constexpr int kBusyMs = 500;
  static constexpr const char* kMemory = ":memory:";

  /// Creates the file if there is none, for its owner alone.
  static Result<SqliteDatabase> open(const std::string& path);
  /// Runs statements that give no rows.
  Status run(const char* statements);
  Result<SqliteStatement> prepare(std::string_view statement);
  /// The first column of the first row; 0 without a row.
  Result<std::int64_t> number(std::string_view statement);
  /// Rows that the last statement changed.
  std::int64_t changes() const;

 private:
  struct Closer {
    void operator()(sqlite3* connection) const;
  };
  explicit SqliteDatabase(sqlite3* connection) : connection_(connection) {}
  std::unique_ptr<sqlite3, Closer> connection_;
};

/// A transaction of the writer; rolled back unless it is committed.
class SqliteTransaction {
 public:
  explicit SqliteTransaction(SqliteDatabase& database) : database_(database) {}
  ~SqliteTransaction();
  SqliteTransaction(const SqliteTransaction&) = delete;
  SqliteTransaction& operator=(const SqliteTransaction&) = delete;
  Status begin();
  Status commit();

 private:
  SqliteDatabase& database_;
  bool open_ = false;
};

}  // namespace ft::api
