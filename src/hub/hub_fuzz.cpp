// Fuzzes the parsers of answers of the hub and of other programs' files: revisions, trees, refs, Link and
// rate headers, journals of partial files, safetensors headers, names. The first byte chooses the parser.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "hub/answers.h"
#include "hub/listing.h"
#include "hub/partial.h"
#include "hub/repository.h"
#include "hub/summary.h"

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

void fuzz_tree(const std::string& text) {
  const auto files = ft::hub::parse_tree(text);
  if (!files.ok()) return;
  for (const ft::hub::RemoteFile& file : *files) {
    check(ft::hub::check_file_path(file.path).ok() && file.size >= 0);
    check(ft::hub::is_hex(file.etag(), file.etag().size()) && file.etag().size() >= 40);
  }
  (void)ft::hub::tree_json(*files);
}

void fuzz_headers(const std::string& text) {
  const std::string next = ft::hub::next_page(text, "https://mirror.example");
  check(next.empty() || next.starts_with("https://mirror.example/api/"));
  ft::hub::ResponseHeader response;
  response.status = text.empty() ? 0 : 300 + static_cast<unsigned char>(text[0]);
  for (const char* name : {"ratelimit", "retry-after", "x-error-code", "location", "content-range"})
    response.headers.emplace_back(name, text);
  const auto outcome = ft::hub::classify(response, text, {"https://h", "a/b", "main", "f", true, false});
  check(outcome.wait_s <= ft::hub::kLongestWaitS);
  check(outcome.verdict == ft::hub::Verdict::kGood || !outcome.error.message.empty());
}

void fuzz_journal(const std::string& text) {
  const std::string etag(64, 'a');
  const std::int64_t size = text.empty() ? 0 : static_cast<unsigned char>(text[0]) * 1000;
  ft::hub::Journal journal;
  if (!ft::hub::parse_journal(std::as_bytes(std::span(text)), etag, size, journal)) return;
  for (const std::int64_t done : journal.done) check(done >= 0 && done <= size);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  ft::hub::HeaderFacts facts;
  switch (data[0] % 6) {
    case 0:
      fuzz_tree(text);
      break;
    case 1:
      if (const auto commit = ft::hub::parse_commit(text); commit.ok()) check(ft::hub::is_commit(*commit));
      (void)ft::hub::parse_refs(text);
      break;
    case 2:
      fuzz_headers(text);
      break;
    case 3:
      fuzz_journal(text);
      break;
    case 4:
      (void)ft::hub::parse_header(text, text.size(), facts);
      break;
    default:
      if (const auto named = ft::hub::parse_repository(text); named.ok()) {
        const auto again = ft::hub::parse_repository(named->text());
        check(again.ok() && again->id() == named->id() && again->revision == named->revision);
      }
      break;
  }
  return 0;
}
