// A whole pull over a transport in memory, which fails on demand: no socket, no clock.
#include "hub/pull.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>

#include "hub/digest.h"

namespace ft::hub::pull_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string kCommit(40, 'c');

std::string hash_of(const std::string& data, bool large) {
  Digest digest = Digest::for_blob(std::string(large ? 64 : 40, '0'), static_cast<std::int64_t>(data.size()));
  digest.add(std::as_bytes(std::span(data)));
  return digest.finish();
}

/// A repository in memory. `cut` bytes into each answer of a file the connection dies, `cuts` times.
struct Hub {
  std::map<std::string, std::string> files;
  std::atomic<int> cuts{0};
  std::size_t cut = 0;
  std::atomic<int> requests{0};
  std::atomic<int> cancel_after{1 << 30};  // requests
  bool endless_list = false;               // of empty pages
};

class MemoryConnection final : public Connection {
 public:
  explicit MemoryConnection(Hub& hub) : hub_(hub) {}

  Result<ResponseHeader> send(const HttpRequest& request, const BodySink& sink) override {
    ++hub_.requests;
    const std::string path = request.url.substr(request.url.find('/', 8));
    if (path.starts_with("/api/models/o/n/revision/")) return whole(json{{"sha", kCommit}}.dump(), sink);
    if (path.starts_with("/api/models/o/n/tree/"))
      return hub_.endless_list ? empty_page(sink) : whole(tree(), sink);
    const std::string name = path.substr(path.rfind('/') + 1);
    if (request.head_only) return ResponseHeader{302, {{"location", "https://cdn/" + name}}};
    return file(hub_.files.at(name), request, sink);
  }

 private:
  static Result<ResponseHeader> whole(const std::string& body, const BodySink& sink) {
    ResponseHeader response{200, {}};
    sink(response, body);
    return response;
  }

  Result<ResponseHeader> empty_page(const BodySink& sink) const {
    ResponseHeader response{200, {}};
    response.headers.emplace_back(
        "link", "</api/models/o/n/tree/" + std::to_string(hub_.requests) + ">; rel=\"next\"");
    sink(response, "[]");
    return response;
  }

  std::string tree() const {
    json list = json::array();
    for (const auto& [name, data] : hub_.files) {
      json entry = {{"type", "file"}, {"path", name}, {"size", data.size()}, {"oid", hash_of(data, false)}};
      if (name.ends_with("safetensors")) entry["lfs"] = {{"oid", hash_of(data, true)}, {"size", data.size()}};
      list.push_back(entry);
    }
    return list.dump();
  }

  Result<ResponseHeader> file(const std::string& data, const HttpRequest& request, const BodySink& sink) {
    ResponseHeader response{200, {}};
    std::string body = data;
    if (request.first >= 0) {
      const auto first = static_cast<std::size_t>(request.first);
      body = data.substr(first, static_cast<std::size_t>(request.last - request.first + 1));
      response = {206,
                  {{"content-range", "bytes " + std::to_string(request.first) + "-" +
                                         std::to_string(request.last) + "/" + std::to_string(data.size())}}};
    }
    const bool dies = body.size() > hub_.cut && hub_.cuts.fetch_sub(1) > 0;
    if (dies) body.resize(hub_.cut);
    constexpr std::size_t kStep = 7;
    for (std::size_t at = 0; at < body.size(); at += kStep) {
      if (!sink(response, std::string_view(body).substr(at, kStep)))
        return Error{Code::kCancelled, "stopped"};
    }
    if (dies) return Error{Code::kBusy, "https://cdn cannot be reached: the connection died"};
    return response;
  }

  Hub& hub_;
};

class MemoryTransport final : public Transport {
 public:
  explicit MemoryTransport(Hub& hub) : hub_(hub) {}
  std::unique_ptr<Connection> connect() override { return std::make_unique<MemoryConnection>(hub_); }

 private:
  Hub& hub_;
};

class Pulling : public testing::Test {
 protected:
  Pulling() {
    folder = (fs::temp_directory_path() / "foretoken-pull-XXXXXX").string();
    EXPECT_NE(::mkdtemp(folder.data()), nullptr);
    settings.endpoint = "https://hub", settings.cache = folder + "/hub";
    options.repository = *parse_repository("o/n");
    options.transfer.connections = 3, options.transfer.piece_bytes = 100;
    pace.now_ms = [this] { return ++clock; };
    pace.sleep_ms = [](std::int64_t) {};
    pace.cancelled = [this] { return hub.requests > hub.cancel_after; };
    std::string weights;
    for (int i = 0; i < 531; ++i) weights += static_cast<char>(i * 7);
    hub.files = {{"config.json", "{}"}, {"empty.txt", ""}, {"model.safetensors", weights}};
  }
  ~Pulling() override {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }

  Result<PullPlan> run() {
    MemoryTransport transport(hub);
    return pull(settings, transport, pace, events, options);
  }

  void expect_whole() {
    for (const auto& [name, data] : hub.files) {
      std::ifstream file(settings.cache + "/models--o--n/snapshots/" + kCommit + "/" + name,
                         std::ios::binary);
      const std::string found((std::istreambuf_iterator<char>(file)), {});
      EXPECT_EQ(found, data) << name;
    }
    std::ifstream ref(settings.cache + "/models--o--n/refs/main");
    EXPECT_EQ(std::string((std::istreambuf_iterator<char>(ref)), {}), kCommit);
  }

  std::string folder;
  std::atomic<std::int64_t> clock{0};
  Hub hub;
  HubSettings settings;
  PullOptions options;
  Pace pace;
  PullEvents events;
};

TEST_F(Pulling, EndsWithTheFiles) {
  const auto plan = run();
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->files, 3);
  expect_whole();
}

TEST_F(Pulling, SurvivesAConnectionThatDiesAtEveryByte) {
  for (std::size_t cut = 0; cut < 100; cut += 3) {
    fs::remove_all(settings.cache);
    hub.cut = cut, hub.cuts = cut == 0 ? kMaxTries - 1 : 6;
    options.transfer.connections = 1;
    const auto plan = run();
    ASSERT_TRUE(plan.ok()) << cut << ": " << plan.error().message;
    expect_whole();
  }
}

TEST_F(Pulling, GivesUpAfterFiveTriesWithoutAByte) {
  hub.cut = 0, hub.cuts = 1 << 20;
  const auto plan = run();
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.error().message.find("the connection died"), std::string::npos);
  EXPECT_FALSE(fs::exists(settings.cache + "/models--o--n/refs/main"));
}

TEST_F(Pulling, AListOfEmptyPagesWithoutEndIsRefused) {
  hub.endless_list = true;
  const auto plan = run();
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.error().message.find("has no end"), std::string::npos);
  EXPECT_LE(hub.requests, static_cast<int>(kMaxPages) + 2);
}

TEST_F(Pulling, ContinuesAfterBeingStoppedAfterEachRequest) {
  for (int stop = 1; stop < 16; ++stop) {
    fs::remove_all(settings.cache);
    hub.requests = 0, hub.cancel_after = stop;
    const auto stopped = run();
    EXPECT_TRUE(stopped.ok() || stopped.error().code == Code::kCancelled);
    hub.cancel_after = 1 << 30;
    const auto plan = run();
    ASSERT_TRUE(plan.ok()) << stop << ": " << plan.error().message;
    expect_whole();
  }
}

TEST_F(Pulling, AnExaminerEndsItBeforeTheWeights) {
  options.examine = [](const std::string&) -> Status { return Error{Code::kUnsupported, "no family"}; };
  EXPECT_EQ(run().error().message, "no family");
  EXPECT_FALSE(fs::exists(settings.cache + "/models--o--n/snapshots/" + kCommit + "/model.safetensors"));
}

TEST(Room, TheReserveFollowsTheSize) {
  constexpr std::int64_t kMega = 1'000'000, kGiga = 1'000 * kMega;
  EXPECT_LT(66 * kMega + spare_bytes(66 * kMega), 900 * kMega);
  EXPECT_GT(spare_bytes(66 * kMega), 30 * kMega);
  EXPECT_EQ(spare_bytes(100 * kGiga), std::int64_t{1} << 30);
}

TEST(Partial, EachByteOfAJournalCounts) {
  std::string folder = (fs::temp_directory_path() / "foretoken-part-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string etag(64, 'e'), blob = folder + "/" + etag;
  {
    auto partial = PartialFile::open(blob, etag, 250, 100);
    ASSERT_TRUE(partial.ok());
    ASSERT_TRUE((*partial)->write(1, "hello").ok());
    ASSERT_TRUE((*partial)->save().ok());
  }
  EXPECT_EQ((*PartialFile::open(blob, etag, 250, 100))->done(1), 5);
  EXPECT_EQ(PartialFile::bytes_there(blob, etag, 250), 5);
  EXPECT_EQ(PartialFile::bytes_there(blob, std::string(64, 'f'), 250), 0);
  const std::string name = PartialFile::name_for(blob);
  const auto size = fs::file_size(name);
  for (std::uintmax_t at = 250; at < size; ++at) {  // damage at any byte of either copy is found
    std::fstream file(name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const char before = static_cast<char>(file.get());
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(before ^ 1));
    file.close();
    fs::copy_file(name, name + ".copy", fs::copy_options::overwrite_existing);
    const auto done = (*PartialFile::open(blob, etag, 250, 100))->done(1);
    EXPECT_TRUE(done == 0 || done == 5) << at;
    fs::rename(name + ".copy", name);
    std::fstream mend(name, std::ios::in | std::ios::out | std::ios::binary);
    mend.seekp(static_cast<std::streamoff>(at));
    mend.put(before);
  }
  EXPECT_EQ((*PartialFile::open(blob, std::string(64, 'f'), 250, 100))->done(1), 0);
  fs::remove_all(folder);
}

TEST(Cache, ASecondLockWaits) {
  std::string folder = (fs::temp_directory_path() / "foretoken-lock-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  auto first = FileLock::try_lock(folder + "/a/b.lock");
  ASSERT_TRUE(first.ok() && *first != nullptr);
  EXPECT_EQ(*FileLock::try_lock(folder + "/a/b.lock"), nullptr);
  first->reset();
  EXPECT_NE(*FileLock::try_lock(folder + "/a/b.lock"), nullptr);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace ft::hub::pull_test
