// Byte streams of base/byte_stream.h over memory. For tests; header-only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/byte_stream.h"

namespace ft::test {

class Written final : public ByteSink {
 public:
  explicit Written(std::size_t most = SIZE_MAX) : most_(most) {}
  bool put(std::span<const std::byte> more) override {
    if (bytes.size() + more.size() > most_) return false;
    bytes.insert(bytes.end(), more.begin(), more.end());
    return true;
  }
  std::vector<std::byte> bytes;

 private:
  std::size_t most_;
};

class Given final : public ByteSource {
 public:
  explicit Given(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool get(std::span<std::byte> out) override {
    failed_ = failed_ || out.size() > bytes_.size();
    if (failed_) return false;
    std::ranges::copy(bytes_.first(out.size()), out.begin());
    bytes_ = bytes_.subspan(out.size());
    return true;
  }
  std::int64_t left() const override { return static_cast<std::int64_t>(bytes_.size()); }

 private:
  std::span<const std::byte> bytes_;
  bool failed_ = false;
};

}  // namespace ft::test
