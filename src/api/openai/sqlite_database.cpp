#include "api/openai/sqlite_database.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

namespace ft::api {
namespace {

Error error_of(sqlite3* connection, int code) {
  const bool full = code == SQLITE_FULL, busy = (code & 0xFF) == SQLITE_BUSY;
  const char* what = connection != nullptr ? sqlite3_errmsg(connection) : sqlite3_errstr(code);
  return {full || busy ? Code::kExhausted : Code::kIo, what};
}

}  // namespace

void SqliteStatement::Deleter::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
void SqliteDatabase::Closer::operator()(sqlite3* connection) const { sqlite3_close_v2(connection); }

SqliteStatement::SqliteStatement(sqlite3* connection, sqlite3_stmt* statement)
    : connection_(connection), statement_(statement) {}

SqliteStatement& SqliteStatement::bind(int place, std::int64_t value) {
  const int code = sqlite3_bind_int64(statement_.get(), place, value);
  if (code != SQLITE_OK && bound_.ok()) bound_ = error_of(connection_, code);
  return *this;
}

SqliteStatement& SqliteStatement::bind(int place, std::string_view bytes) {
  const char* data = bytes.empty() ? "" : bytes.data();  // null would be bound as NULL
  const int code = sqlite3_bind_blob64(statement_.get(), place, data, bytes.size(), SQLITE_STATIC);
  if (code != SQLITE_OK && bound_.ok()) bound_ = error_of(connection_, code);
  return *this;
}

Result<bool> SqliteStatement::step() {
  FT_TRY(bound_);
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW || code == SQLITE_DONE) return code == SQLITE_ROW;
  return error_of(connection_, code);
}

std::int64_t SqliteStatement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

std::string SqliteStatement::bytes(int column) const {
  const auto* data = static_cast<const char*>(sqlite3_column_blob(statement_.get(), column));
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return data == nullptr ? std::string() : std::string(data, static_cast<std::size_t>(size));
}

Result<SqliteDatabase> SqliteDatabase::open(const std::string& path) {
  if (path != kMemory) {  // SQLite gives its own files the mode of this one
    // An existing file is not opened here: closing it would release SQLite's locks on it.
    constexpr int kOwnerAlone = 0600;
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kOwnerAlone);
    if (file >= 0) ::close(file);
  }
  sqlite3* connection = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  const int code = sqlite3_open_v2(path.c_str(), &connection, flags, nullptr);
  SqliteDatabase database(connection);  // also exists after an error
  if (code != SQLITE_OK) return error_of(connection, code);
  sqlite3_busy_timeout(connection, kBusyMs);
  return database;
}

Status SqliteDatabase::run(const char* statements) {
  const int code = sqlite3_exec(connection_.get(), statements, nullptr, nullptr, nullptr);
  if (code == SQLITE_OK) return {};
  return error_of(connection_.get(), code);
}

Result<SqliteStatement> SqliteDatabase::prepare(std::string_view statement) {
  sqlite3_stmt* made = nullptr;
  const int code = sqlite3_prepare_v2(connection_.get(), statement.data(), static_cast<int>(statement.size()),
                                      &made, nullptr);
  if (code != SQLITE_OK) return error_of(connection_.get(), code);
  return SqliteStatement(connection_.get(), made);
}

Result<std::int64_t> SqliteDatabase::number(std::string_view statement) {
  FT_ASSIGN(SqliteStatement one, prepare(statement));
  FT_ASSIGN(const bool row, one.step());
  return row ? one.integer(0) : 0;
}

std::int64_t SqliteDatabase::changes() const { return sqlite3_changes(connection_.get()); }

Status SqliteTransaction::begin() {
  FT_TRY(database_.run("BEGIN IMMEDIATE"));
  open_ = true;
  return {};
}

Status SqliteTransaction::commit() {
  FT_TRY(database_.run("COMMIT"));
  open_ = false;
  return {};
}

SqliteTransaction::~SqliteTransaction() {
  if (open_) (void)database_.run("ROLLBACK");
}

}  // namespace ft::api
