#include "api/openai/response_store.h"

#include <bit>
#include <chrono>
#include <fmt/format.h>
#include <utility>

#include "base/log.h"

namespace ft::api {
namespace {

constexpr std::int64_t kApplication = 0x66746B73;  // "ftks": in the header of the file
constexpr std::int64_t kFormat = 1;

std::int64_t number_of(std::uint64_t owner) { return std::bit_cast<std::int64_t>(owner); }

std::int64_t system_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Logs a failed call and continues without its result.
template <class T>
T value_or(Result<T> result, T otherwise, const char* doing) {
  if (result.ok()) return std::move(*result);
  log_warn(fmt::format("stored responses: {} failed: {}", doing, result.error().message));
  return otherwise;
}

}  // namespace

ResponseStore::ResponseStore(SqliteDatabase database, Limits limits, Clock clock)
    : limits_(limits), clock_(clock ? std::move(clock) : system_seconds), database_(std::move(database)) {}

ResponseStore::ResponseStore(Limits limits)
    : ResponseStore(std::move(SqliteDatabase::open(SqliteDatabase::kMemory)).value(), limits, nullptr) {
  if (const Status made = prepare_tables(); !made.ok()) {
    log_warn(fmt::format("stored responses: {}", made.error().message));  // nothing will be found
  }
}

Result<std::unique_ptr<ResponseStore>> ResponseStore::open(const std::string& path, Limits limits,
                                                           Clock clock) {
  const auto fail = [&](const Error& error) {
    return Error{error.code,
                 fmt::format("{}: cannot keep responses there: {}; name another file, or delete it", path,
                             error.message)};
  };
  Result<SqliteDatabase> database = SqliteDatabase::open(path);
  if (!database.ok()) return fail(database.error());
  std::unique_ptr<ResponseStore> store(new ResponseStore(std::move(*database), limits, std::move(clock)));
  if (const Status ours = store->check_is_ours(); !ours.ok()) return fail(ours.error());
  if (const Status made = store->prepare_tables(); !made.ok()) return fail(made.error());
  Result<SqliteDatabase> second = SqliteDatabase::open(path);
  if (!second.ok()) return fail(second.error());
  store->keeper_ = std::jthread([owner = store.get(), own = std::move(*second)](
                                    const std::stop_token& stop) mutable { owner->move_log(own, stop); });
  return store;
}

ResponseStore::~ResponseStore() {
  keeper_.request_stop();
  written_.notify_all();
}

Status ResponseStore::check_is_ours() {
  FT_ASSIGN(const std::int64_t tables, database_.number("SELECT count(*) FROM sqlite_master"));
  if (tables == 0) return {};
  FT_ASSIGN(const std::int64_t application, database_.number("PRAGMA application_id"));
  FT_ASSIGN(const std::int64_t format, database_.number("PRAGMA user_version"));
  if (application != kApplication) return Error{Code::kInvalid, "it is the database of another program"};
  if (format == kFormat) return {};
  return Error{Code::kInvalid, fmt::format("it has format {}, and this version reads {}", format, kFormat)};
}

Status ResponseStore::prepare_tables() {
  // The write-ahead log: readers do not wait for writers, and a commit is one write. secure_delete: deleted
  // responses are overwritten.
  FT_TRY(
      database_.run("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
                    "PRAGMA wal_autocheckpoint = 0; PRAGMA secure_delete = ON; PRAGMA foreign_keys = ON"));
  SqliteTransaction transaction(database_);  // several processes may begin at once
  FT_TRY(transaction.begin());
  FT_TRY(database_.run(
      "CREATE TABLE IF NOT EXISTS responses(id BLOB NOT NULL UNIQUE, owner INTEGER NOT NULL,"
      "  bytes INTEGER NOT NULL, made_s INTEGER NOT NULL, used INTEGER NOT NULL, inputs INTEGER NOT NULL,"
      "  body BLOB NOT NULL, history BLOB NOT NULL, deltas BLOB NOT NULL);"
      "CREATE TABLE IF NOT EXISTS items(id BLOB NOT NULL UNIQUE,"
      "  response BLOB NOT NULL REFERENCES responses(id) ON DELETE CASCADE);"
      "CREATE INDEX IF NOT EXISTS items_of ON items(response);"
      "CREATE INDEX IF NOT EXISTS by_owner ON responses(owner, used, bytes);"
      "CREATE INDEX IF NOT EXISTS by_use ON responses(used);"
      "CREATE INDEX IF NOT EXISTS by_age ON responses(made_s)"));
  FT_TRY(database_.run(
      fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", kApplication, kFormat).c_str()));
  return transaction.commit();
}

/// The entry of the owner with the largest share of either limit that was used the longest ago.
Status ResponseStore::drop_one() {
  FT_ASSIGN(
      SqliteStatement drop,
      database_.prepare("DELETE FROM responses WHERE rowid = (SELECT rowid FROM responses WHERE owner = ("
                        "  SELECT owner FROM responses GROUP BY owner"
                        "  ORDER BY max(count(*) * 1.0 / ?1, sum(bytes) * 1.0 / ?2) DESC LIMIT 1"
                        ") ORDER BY used LIMIT 1)"));
  drop.bind(1, static_cast<std::int64_t>(limits_.entries)).bind(2, static_cast<std::int64_t>(limits_.bytes));
  FT_TRY(drop.step());
  return {};
}

Status ResponseStore::write_items(const std::string& id, const std::vector<std::string>& item_ids) {
  for (const std::string& item_id : item_ids) {
    FT_ASSIGN(SqliteStatement insert, database_.prepare("INSERT OR REPLACE INTO items VALUES (?1, ?2)"));
    FT_TRY(insert.bind(1, item_id).bind(2, id).step());
  }
  return {};
}

Status ResponseStore::write(const std::string& id, const StoredResponse& response, const Caller& caller) {
  SqliteTransaction transaction(database_);
  FT_TRY(transaction.begin());
  FT_ASSIGN(SqliteStatement old, database_.prepare("DELETE FROM responses WHERE id = ?1 OR made_s <= ?2"));
  FT_TRY(old.bind(1, id).bind(2, clock_() - limits_.age_s).step());
  if (response.bytes() <= limits_.bytes) {
    FT_ASSIGN(SqliteStatement insert,
              database_.prepare("INSERT INTO responses VALUES (?1, ?2, ?3, ?4,"
                                "  (SELECT coalesce(max(used), 0) + 1 FROM responses), ?5, ?6, ?7, ?8)"));
    insert.bind(1, id).bind(2, number_of(caller.owner)).bind(3, static_cast<std::int64_t>(response.bytes()));
    insert.bind(4, clock_()).bind(5, static_cast<std::int64_t>(response.inputs));
    FT_TRY(insert.bind(6, response.body).bind(7, response.history).bind(8, response.deltas).step());
    FT_TRY(write_items(id, response.item_ids));
  }
  for (;;) {
    FT_ASSIGN(const std::int64_t entries, total("count(*)"));
    FT_ASSIGN(const std::int64_t bytes, total("coalesce(sum(bytes), 0)"));
    const bool fits = static_cast<std::size_t>(entries) <= limits_.entries &&
                      static_cast<std::size_t>(bytes) <= limits_.bytes;
    if (fits) return transaction.commit();
    FT_TRY(drop_one());
  }
}

Status ResponseStore::put(const std::string& id, const StoredResponse& response, const Caller& caller) {
  const std::lock_guard lock(mutex_);
  FT_TRY(write(id, response, caller));
  fresh_ = true;
  written_.notify_one();
  return {};
}

/// Moves the log of a file into it, with fsync, which put() must not wait for.
void ResponseStore::move_log(SqliteDatabase& database, const std::stop_token& stop) {
  constexpr auto kPause = std::chrono::seconds(1);
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(mutex_);
      if (!written_.wait(lock, stop, [this] { return fresh_; })) return;
      fresh_ = false;
    }
    (void)database.number("PRAGMA wal_checkpoint(PASSIVE)");  // another process's reader may delay it
    std::unique_lock lock(mutex_);
    written_.wait_for(lock, stop, kPause, [] { return false; });
  }
}

Result<std::optional<StoredResponse>> ResponseStore::read(const std::string& id, const Caller& caller) {
  StoredResponse response;
  {
    FT_ASSIGN(SqliteStatement find,
              database_.prepare("SELECT owner, inputs, body, history, deltas FROM responses"
                                "  WHERE id = ?1 AND made_s > ?2"));
    FT_ASSIGN(const bool found, find.bind(1, id).bind(2, clock_() - limits_.age_s).step());
    if (!found || !caller.may_use(std::bit_cast<std::uint64_t>(find.integer(0)))) {
      return std::optional<StoredResponse>();
    }
    response = {find.bytes(2), find.bytes(3), find.bytes(4), static_cast<std::size_t>(find.integer(1))};
  }
  FT_ASSIGN(
      SqliteStatement mark,
      database_.prepare("UPDATE responses SET used = (SELECT max(used) + 1 FROM responses) WHERE id = ?1"));
  (void)mark.bind(1, id).step();  // the entry is read all the same
  return std::optional(std::move(response));
}

std::optional<StoredResponse> ResponseStore::get(const std::string& id, const Caller& caller) {
  const std::lock_guard lock(mutex_);
  return value_or(read(id, caller), std::optional<StoredResponse>(), "reading");
}

Result<std::optional<std::string>> ResponseStore::read_body(const std::string& item_id,
                                                            const Caller& caller) const {
  FT_ASSIGN(SqliteStatement find,
            database_.prepare("SELECT owner, body FROM responses JOIN items ON response = responses.id"
                              "  WHERE items.id = ?1 AND made_s > ?2"));
  FT_ASSIGN(const bool found, find.bind(1, item_id).bind(2, clock_() - limits_.age_s).step());
  const bool mine = found && caller.may_use(std::bit_cast<std::uint64_t>(find.integer(0)));
  return mine ? std::optional(find.bytes(1)) : std::nullopt;
}

std::optional<std::string> ResponseStore::body_with_item(const std::string& item_id,
                                                         const Caller& caller) const {
  const std::lock_guard lock(mutex_);
  return value_or(read_body(item_id, caller), std::optional<std::string>(), "reading");
}

std::size_t ResponseStore::history_bytes(const std::string& id, const Caller& caller) const {
  const std::lock_guard lock(mutex_);
  Result<SqliteStatement> find =
      database_.prepare("SELECT owner, length(history) FROM responses WHERE id = ?1 AND made_s > ?2");
  if (!find.ok()) return 0;
  const Result<bool> found = find->bind(1, id).bind(2, clock_() - limits_.age_s).step();
  if (!found.ok() || !*found || !caller.may_use(std::bit_cast<std::uint64_t>(find->integer(0)))) return 0;
  return static_cast<std::size_t>(find->integer(1));
}

Result<bool> ResponseStore::remove(const std::string& id, const Caller& caller) {
  FT_ASSIGN(SqliteStatement drop, database_.prepare("DELETE FROM responses WHERE id = ?1 AND made_s > ?2 AND "
                                                    "(?3 OR owner = ?4)"));
  drop.bind(1, id).bind(2, clock_() - limits_.age_s);
  FT_TRY(drop.bind(3, std::int64_t{caller.is_operator}).bind(4, number_of(caller.owner)).step());
  return database_.changes() > 0;
}

bool ResponseStore::erase(const std::string& id, const Caller& caller) {
  const std::lock_guard lock(mutex_);
  return value_or(remove(id, caller), false, "deleting");
}

Result<std::int64_t> ResponseStore::total(const char* what) const {
  return database_.number(fmt::format("SELECT {} FROM responses", what));
}

std::size_t ResponseStore::size() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(value_or(total("count(*)"), std::int64_t{0}, "counting"));
}

std::size_t ResponseStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(value_or(total("coalesce(sum(bytes), 0)"), std::int64_t{0}, "counting"));
}

}  // namespace ft::api
