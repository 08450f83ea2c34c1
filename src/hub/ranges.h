// Parts of files of one commit, fetched by byte ranges without the cache: a header, an MTP head. The hub has
// no hashes of parts, so the caller checks the bytes. Thread: one. Errors: as HubClient, kIo for a
// server that sends no ranges.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>

#include "hub/client.h"

namespace ft::hub {

class RangeReader {
 public:
  /// All of them must outlive the reader.
  RangeReader(HubClient& client, Transport& transport, const Repository& repository, std::string commit)
      : client_(client),
        connection_(transport.connect()),
        repository_(repository),
        commit_(std::move(commit)) {}

  /// Bytes [first, first + out.size()) of the file; it repeats the request as long as bytes arrive.
  Status read(const RemoteFile& file, std::int64_t first, std::span<char> out);
  std::int64_t fetched_bytes() const { return fetched_; }

 private:
  struct Piece {
    const RemoteFile& file;
    std::int64_t first;
    std::span<char> out;
    std::size_t got = 0;
  };
  Result<Outcome> ask(Piece& piece, const ResolvedUrl& resolved);
  Status settle(const Piece& piece, const Outcome& outcome, RetryPolicy& retries, int& resolutions);

  HubClient& client_;
  std::unique_ptr<Connection> connection_;
  const Repository& repository_;
  std::string commit_;
  std::map<std::string, ResolvedUrl> resolved_;  // by path
  std::int64_t fetched_ = 0;
};

}  // namespace ft::hub
