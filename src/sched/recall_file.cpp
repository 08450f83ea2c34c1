#include "sched/recall_file.h"

#include <cstring>
#include <filesystem>
#include <fmt/format.h>

#include "base/checksum.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "base/replace_file.h"
#include "drafters/recall.h"

namespace ft {
namespace {

/// Version of the file's form.
constexpr std::string_view kFirstWords = "foretoken texts 1 ";

class TextSink final : public ByteSink {
 public:
  explicit TextSink(std::string& text) : text_(text) {}
  bool put(std::span<const std::byte> bytes) override {
    text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return true;
  }

 private:
  std::string& text_;
};

class TextSource final : public ByteSource {
 public:
  explicit TextSource(std::string_view text) : text_(text) {}
  bool get(std::span<std::byte> out) override {
    failed_ = failed_ || out.size() > text_.size();
    if (failed_) return false;
    if (!out.empty()) std::memcpy(out.data(), text_.data(), out.size());
    text_.remove_prefix(out.size());
    return true;
  }
  std::int64_t left() const override { return failed_ ? 0 : std::ssize(text_); }

 private:
  std::string_view text_;
  bool failed_ = false;
};

std::uint64_t checksum_of(std::string_view text) { return checksum(std::as_bytes(std::span(text))); }

RecallDrafter* recall_of(Decoder& decoder) {
  return dynamic_cast<RecallDrafter*>(decoder.drafter(DrafterKind::kRecall));
}

}  // namespace

std::string recall_file_bytes(const RecallDrafter& drafter, const std::string& key) {
  std::string text = fmt::format("{}{}\n", kFirstWords, key);
  TextSink sink(text);
  drafter.write_to(sink);
  put_value(sink, checksum_of(text));
  return text;
}

Status read_recall_file(std::string_view bytes, const std::string& key, int vocabulary,
                        RecallDrafter& drafter) {
  std::uint64_t sum = 0;
  if (!bytes.starts_with(kFirstWords))
    return Error{Code::kCorrupt, "it is not a recall file of this version"};
  if (bytes.size() < kFirstWords.size() + sizeof(sum)) return Error{Code::kCorrupt, "it is damaged"};
  std::memcpy(&sum, bytes.data() + bytes.size() - sizeof(sum), sizeof(sum));
  bytes.remove_suffix(sizeof(sum));
  if (sum != checksum_of(bytes)) return Error{Code::kCorrupt, "it is damaged"};
  const std::size_t line = bytes.find('\n');
  if (line == std::string_view::npos) return Error{Code::kCorrupt, "it is damaged"};
  if (bytes.substr(kFirstWords.size(), line - kFirstWords.size()) != key)
    return Error{Code::kNotFound, "it is from another model"};
  TextSource source(bytes.substr(line + 1));
  return drafter.read_from(source, vocabulary);
}

void RecallFile::load(Decoder& decoder) {
  RecallDrafter* const drafter = recall_of(decoder);
  std::error_code unknown;
  if (options_.path.empty() || drafter == nullptr || !std::filesystem::exists(options_.path, unknown)) return;
  const Result<MappedFile> file = MappedFile::open(options_.path);
  Status status = file.ok() ? Status() : Status(file.error());
  // A file is smaller than the memory of its texts; a larger one was written with a larger limit.
  const auto most = static_cast<std::size_t>(decoder.options().recall_bytes);
  if (status.ok() && file->bytes().size() > most) {
    status = Error{Code::kExhausted, fmt::format("it has {} bytes, and the memory {} (--lookup-memory-mb)",
                                                 file->bytes().size(), most)};
  }
  if (status.ok()) {
    const auto bytes = file->bytes();
    status = read_recall_file({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, options_.key,
                              decoder.model().facts.vocabulary, *drafter);
  }
  if (!status.ok()) {
    log_warn(fmt::format("recall file {} is not used: {}; recall begins empty and the file is written anew",
                         options_.path, status.error().message));
  }
}

void RecallFile::store(Decoder& decoder, double now_ms, bool at_once) {
  const RecallDrafter* const drafter = recall_of(decoder);
  if (options_.path.empty() || drafter == nullptr || drafter->learnt() == written_) return;
  if (!at_once && now_ms < last_ms_ + kRestMs) return;
  written_ = drafter->learnt(), last_ms_ = now_ms;
  const Status status = replace_file(options_.path, recall_file_bytes(*drafter, options_.key));
  if (!status.ok())
    log_warn(status.error().message + "; texts of this run are not stored for the next start");
}

}  // namespace ft
