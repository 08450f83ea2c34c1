#include "format/writer.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>
#include <utility>

#include "base/system.h"
#include "base/utf8.h"
#include "format/out_of_memory.h"

namespace ft::format {
namespace {

constexpr std::size_t kHeaderAlignment = 64;  // data begins at a multiple of a cache line

Error not_writable(const std::string& path, const std::string& what) {
  return Error{Code::kInvalid, path + ": " + what};
}

Result<std::uint64_t> size_of(const TensorSpec& tensor, const std::string& path) {
  std::uint64_t bytes = dtype_bytes(tensor.dtype);
  for (const std::int64_t side : tensor.shape) {
    if (side < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(side), &bytes) ||
        bytes > INT64_MAX) {
      return tensor_error(Code::kInvalid, path, tensor.name,
                          "sides that are not negative and a size below 2^63", shape_text(tensor.shape),
                          "correct the list of tensors");
    }
  }
  return bytes;
}

std::string json_string(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string metadata_text(const std::map<std::string, std::string>& metadata) {
  std::string text(1, '{');
  for (const auto& [key, value] : metadata) {
    if (text.size() > 1) text += ',';
    text += json_string(key) + ':' + json_string(value);
  }
  text += '}';
  return text;
}

}  // namespace

Result<SafetensorsWriter> SafetensorsWriter::create(const std::string& path,
                                                    const std::vector<TensorSpec>& tensors,
                                                    const std::map<std::string, std::string>& metadata) {
  return with_memory_guard("write its header", path, [&] { return begin(path, tensors, metadata); });
}

Result<SafetensorsWriter> SafetensorsWriter::begin(const std::string& path,
                                                   const std::vector<TensorSpec>& tensors,
                                                   const std::map<std::string, std::string>& metadata) {
  std::vector<const TensorSpec*> order;
  for (const TensorSpec& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const TensorSpec* a, const TensorSpec* b) {
    const std::size_t a_bytes = dtype_bytes(a->dtype);
    const std::size_t b_bytes = dtype_bytes(b->dtype);
    return a_bytes != b_bytes ? a_bytes > b_bytes : a < b;  // else in the caller's order
  });

  SafetensorsWriter writer;
  std::string text(1, '{');
  if (!metadata.empty()) text += "\"__metadata__\":" + metadata_text(metadata);
  std::uint64_t reached = 0;
  for (const TensorSpec* tensor : order) {
    FT_ASSIGN(const std::uint64_t bytes, size_of(*tensor, path));
    if (!utf8_valid(tensor->name) || tensor->name == "__metadata__" ||
        !writer.places_.emplace(tensor->name, Place{reached, bytes, 0}).second) {
      return not_writable(path, "the tensor name " + in_quotes(tensor->name) +
                                    " is reserved, not UTF-8 or a duplicate; give every tensor its own name");
    }
    std::uint64_t end = 0;
    if (__builtin_add_overflow(reached, bytes, &end) || end > INT64_MAX / 2) {
      return not_writable(path, "the tensors together exceed 2^62 bytes; write several files");
    }
    if (text.size() > 1) text += ',';
    text += json_string(tensor->name) + ":{\"dtype\":" + json_string(std::string(dtype_name(tensor->dtype))) +
            ",\"shape\":" + shape_text(tensor->shape) + ",\"data_offsets\":[" + std::to_string(reached) +
            ',' + std::to_string(end) + "]}";
    reached = end;
  }
  text += '}';
  while ((8 + text.size()) % kHeaderAlignment != 0) text += ' ';
  const std::uint64_t data_begin = 8 + text.size();
  for (auto& [name, place] : writer.places_) place.begin += data_begin;

  writer.size_ = data_begin + reached;
  writer.path_ = path;
  writer.fd_ = ::open(writer.part().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (writer.fd_ < 0) return writer.system_error("create", errno);
  // A file system may be unable to reserve space (EOPNOTSUPP, EINVAL); a full disk is then found during
  // writing.
  const int reserved = reserve_space(writer.fd_, static_cast<std::int64_t>(writer.size_));
  if (reserved == ENOSPC || reserved == EFBIG) return writer.system_error("reserve space for", reserved);
  const auto length = static_cast<std::uint64_t>(text.size());
  FT_TRY(writer.write_at(0, std::as_bytes(std::span(&length, 1))));
  FT_TRY(writer.write_at(8, std::as_bytes(std::span(text))));
  return writer;
}

SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      size_(other.size_),
      places_(std::move(other.places_)) {}

SafetensorsWriter::~SafetensorsWriter() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(part().c_str());
}

Error SafetensorsWriter::system_error(const char* task, int number) const {
  const bool full = number == ENOSPC || number == EDQUOT || number == EFBIG;
  return Error{full ? Code::kExhausted : Code::kIo,
               part() + ": cannot " + task + " the file: " + std::strerror(number) + "; " +
                   (full ? "it needs " + std::to_string(size_) + " bytes: free space or choose another disk"
                         : std::string("check the directory, its permissions and the disk"))};
}

Status SafetensorsWriter::write_at(std::uint64_t position, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(position));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return system_error("write", done < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
    position += static_cast<std::uint64_t>(done);
  }
  return {};
}

Status SafetensorsWriter::write(std::string_view name, std::span<const std::byte> bytes,
                                std::uint64_t offset) {
  if (fd_ < 0) return not_writable(path_, "the file is finished; nothing can be added");
  const auto at = places_.find(name);
  if (at == places_.end())
    return not_writable(path_, "has no tensor " + in_quotes(name) + "; declare it in create()");
  Place& place = at->second;
  if (offset > place.size || bytes.size() > place.size - offset) {
    return tensor_error(Code::kInvalid, path_, name, std::to_string(place.size) + " bytes",
                        std::to_string(bytes.size()) + " at offset " + std::to_string(offset),
                        "write what was declared");
  }
  FT_TRY(write_at(place.begin + offset, bytes));
  std::atomic_ref(place.written).fetch_add(bytes.size(), std::memory_order_relaxed);
  constexpr std::size_t kWorthIt = std::size_t{1} << 18;
  if (bytes.size() >= kWorthIt) {
    begin_writeback(fd_, static_cast<std::int64_t>(place.begin + offset),
                    static_cast<std::int64_t>(bytes.size()));
  }
  return {};
}

Status SafetensorsWriter::finish() {
  if (fd_ < 0) return not_writable(path_, "the file is finished already");
  for (const auto& [name, place] : places_) {
    if (place.written == place.size) continue;
    return tensor_error(Code::kInvalid, path_, name, std::to_string(place.size) + " bytes written",
                        std::to_string(place.written), "write every declared tensor once before finish()");
  }
  if (::fsync(fd_) != 0) return system_error("write", errno);
  const int closed = ::close(std::exchange(fd_, -1));
  const int number = errno;
  if (closed == 0 && std::rename(part().c_str(), path_.c_str()) == 0) return {};
  const Error error = system_error("finish", closed != 0 ? number : errno);
  ::unlink(part().c_str());
  return error;
}

}  // namespace ft::format
