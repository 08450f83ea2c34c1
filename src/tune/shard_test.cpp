#include "tune/shard.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>

#include "base/text_file.h"
#include "format/half.h"
#include "format/model_fixture.h"

namespace ft::tune::shard_test {
namespace {

using format::TemporaryFolder;

constexpr std::size_t kMaxBytes = std::size_t{1} << 20;

ShardHeader header() { return {"model", "prompts", {-1, 2, 5}, 6, 2, 64}; }

Document document(int tokens, int prompt_tokens, int salt) {
  Document made;
  made.prompt_tokens = prompt_tokens;
  for (int i = 0; i < tokens; ++i) {
    made.tokens.push_back(salt + i);
    for (int j = 0; j < header().width; ++j)
      made.rows.push_back(finite_half(static_cast<float>(salt * i) + 0.25F * static_cast<float>(j)));
    for (int j = 0; j < header().hidden; ++j)
      made.hidden.push_back(finite_half(static_cast<float>(i) - static_cast<float>(j)));
  }
  return made;
}

std::vector<Document> some() { return {document(7, 3, 1), document(1, 0, 5), document(12, 12, 9)}; }

std::string bytes_of(const std::string& path) { return *read_binary_file(path, kMaxBytes); }

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST(Shard, WhatIsWrittenIsReadBack) {
  const TemporaryFolder folder;
  const std::string path = folder.file("s.safetensors");
  const std::vector<Document> written = some();
  ASSERT_TRUE(write_shard(path, header(), written).ok());
  const Result<std::vector<Document>> read = read_shard(path, header());
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_EQ(read->size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const Document &a = written[i], &b = (*read)[i];
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.prompt_tokens, b.prompt_tokens);
    EXPECT_EQ(a.rows, b.rows);
    EXPECT_EQ(a.hidden, b.hidden);
  }
  const Result<ShardSize> size = check_shard(path, header());
  ASSERT_TRUE(size.ok());
  EXPECT_EQ(size->documents, 3);
  EXPECT_EQ(size->tokens, 20);
  EXPECT_EQ(size->answer_tokens, 5);
}

TEST(Shard, ItHasTheSizeThatIsSaidBeforeItIsWritten) {
  const TemporaryFolder folder;
  const std::string path = folder.file("s.safetensors");
  ASSERT_TRUE(write_shard(path, header(), some()).ok());
  constexpr std::int64_t kMaxHeader = 1024;
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path));
  EXPECT_GE(size, shard_bytes(header(), 3, 20));
  EXPECT_LE(size, shard_bytes(header(), 3, 20) + kMaxHeader);
}

TEST(Shard, AShardWithoutATextIsOneToo) {
  const TemporaryFolder folder;
  const std::string path = folder.file("s.safetensors");
  ASSERT_TRUE(write_shard(path, header(), {}).ok());
  const Result<ShardSize> size = check_shard(path, header());
  ASSERT_TRUE(size.ok()) << size.error().message;
  EXPECT_EQ(size->documents, 0);
}

TEST(Shard, ATornFileIsFoundWhereverItEnds) {
  const TemporaryFolder folder;
  const std::string path = folder.file("s.safetensors");
  ASSERT_TRUE(write_shard(path, header(), some()).ok());
  const std::string whole = bytes_of(path);
  for (std::size_t size = 1; size < whole.size(); size += 13) {
    write(path, whole.substr(0, size));
    const Result<ShardSize> found = check_shard(path, header());
    ASSERT_FALSE(found.ok()) << size;
    EXPECT_EQ(found.error().code, Code::kCorrupt) << size;
  }
}

TEST(Shard, AChangedByteOfItsDataIsFound) {
  const TemporaryFolder folder;
  const std::string path = folder.file("s.safetensors");
  ASSERT_TRUE(write_shard(path, header(), some()).ok());
  const std::string whole = bytes_of(path);
  const auto data = whole.size() - static_cast<std::size_t>(shard_bytes(header(), 3, 20));
  for (std::size_t at = data; at < whole.size(); at += 7) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    write(path, changed);
    const Result<ShardSize> found = check_shard(path, header());
    ASSERT_FALSE(found.ok()) << at;
    EXPECT_EQ(found.error().code, Code::kCorrupt) << at;
  }
}

TEST(Shard, OneOfOtherWorkIsRefusedByName) {
  const TemporaryFolder folder;
  const std::string path = folder.file("s.safetensors");
  ASSERT_TRUE(write_shard(path, header(), some()).ok());
  std::vector<ShardHeader> others(4, header());
  others[0].model = "another", others[1].layers = {-1, 2, 6}, others[2].first = 32,
  others[3].prompts = "others";
  for (const ShardHeader& other : others) {
    const Result<ShardSize> found = check_shard(path, other);
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.error().code, Code::kInvalid);
    EXPECT_NE(found.error().message.find("belongs to other work"), std::string::npos);
  }
}

TEST(Shard, AnAbsentFileIsNotFound) {
  const TemporaryFolder folder;
  EXPECT_EQ(check_shard(folder.file("none"), header()).error().code, Code::kNotFound);
}

TEST(Shard, ANumberBeyondFloat16BecomesTheLargestOne) {
  EXPECT_EQ(format::f16_to_float(finite_half(1e30F)), 65504);
  EXPECT_EQ(format::f16_to_float(finite_half(-std::numeric_limits<float>::infinity())), -65504);
  EXPECT_EQ(format::f16_to_float(finite_half(std::numeric_limits<float>::quiet_NaN())), 0);
  EXPECT_EQ(format::f16_to_float(finite_half(0.5F)), 0.5F);
}

}  // namespace
}  // namespace ft::tune::shard_test
