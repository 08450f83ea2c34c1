#include "format/writer.h"

#include <csignal>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "base/mapped_file.h"
#include "format/model_fixture.h"
#include "format/safetensors.h"

namespace ft::format::writer_test {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

TEST(Writer, WhatItWritesIsReadBackAndAligned) {
  const TemporaryFolder folder;
  const std::string path = folder.file("m.safetensors");
  auto writer = SafetensorsWriter::create(
      path, {{"u8", DType::kU8, {3}}, {"f", DType::kF32, {2}}, {"empty", DType::kF16, {0, 4}}},
      {{"format", "mlx"}});
  ASSERT_TRUE(writer.ok()) << writer.error().message;
  EXPECT_TRUE(writer->write("u8", bytes_of("xyz")).ok());
  const std::string data = floats({1.5F, -2});
  EXPECT_TRUE(writer->write("f", bytes_of(data.substr(0, 5))).ok());
  EXPECT_TRUE(writer->write("f", bytes_of(data.substr(5)), 5).ok());
  EXPECT_FALSE(std::filesystem::exists(path)) << "the name appears only when the file is whole";
  ASSERT_TRUE(writer->finish().ok());
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));

  auto file = MappedFile::open(path);
  ASSERT_TRUE(file.ok());
  auto parsed = parse_safetensors(file->bytes(), path);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->metadata.at("format"), "mlx");
  ASSERT_EQ(parsed->tensors.size(), 3U);
  for (const TensorView& tensor : parsed->tensors) {
    EXPECT_EQ(
        static_cast<std::size_t>(tensor.bytes.data() - file->bytes().data()) % dtype_bytes(tensor.dtype), 0U);
    if (tensor.name == "f") {
      EXPECT_EQ(load_float(tensor.bytes.data(), DType::kF32, 1), -2.0F);
    }
    if (tensor.name == "u8") {
      EXPECT_EQ(static_cast<char>(tensor.bytes[2]), 'z');
    }
  }
}

TEST(Writer, AnUnfinishedFileIsRemoved) {
  const TemporaryFolder folder;
  const std::string path = folder.file("m.safetensors");
  {
    auto writer = SafetensorsWriter::create(path, {{"a", DType::kU8, {3}}}, {});
    ASSERT_TRUE(writer.ok());
    EXPECT_TRUE(std::filesystem::exists(path + ".part"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Writer, RefusesUnknownNamesExcessBytesAndMissingTensors) {
  const TemporaryFolder folder;
  auto writer =
      SafetensorsWriter::create(folder.file("m"), {{"a", DType::kU8, {3}}, {"b", DType::kU8, {1}}}, {});
  ASSERT_TRUE(writer.ok());
  EXPECT_NE(writer->write("c", bytes_of("x")).error().message.find("has no tensor 'c'"), std::string::npos);
  EXPECT_NE(
      writer->write("a", bytes_of("xyzw")).error().message.find("expected 3 bytes, found 4 at offset 0"),
      std::string::npos);
  EXPECT_FALSE(writer->write("a", bytes_of("x"), UINT64_MAX).ok());
  EXPECT_TRUE(writer->write("a", bytes_of("xyz")).ok());
  const Status unfinished = writer->finish();
  ASSERT_FALSE(unfinished.ok());
  EXPECT_NE(unfinished.error().message.find("tensor 'b': expected 1 bytes written, found 0"),
            std::string::npos);
  EXPECT_TRUE(writer->write("b", bytes_of("x")).ok());
  EXPECT_TRUE(writer->finish().ok());
  EXPECT_FALSE(writer->write("b", bytes_of("x")).ok());
  EXPECT_FALSE(writer->finish().ok());
}

TEST(Writer, RefusesImpossibleTensorLists) {
  const TemporaryFolder folder;
  const auto attempt = [&](const std::vector<TensorSpec>& tensors) {
    return SafetensorsWriter::create(folder.file("m"), tensors, {}).ok();
  };
  EXPECT_FALSE(attempt({{"a", DType::kU8, {1}}, {"a", DType::kU8, {1}}}));
  EXPECT_FALSE(attempt({{"__metadata__", DType::kU8, {1}}}));
  EXPECT_FALSE(attempt({{"\xFF", DType::kU8, {1}}}));
  EXPECT_FALSE(attempt({{"a", DType::kU8, {-1}}}));
  EXPECT_FALSE(attempt({{"a", DType::kF32, {INT64_MAX}}}));
  EXPECT_FALSE(attempt({{"a", DType::kU8, {INT64_MAX / 2}}, {"b", DType::kU8, {INT64_MAX / 2}}}));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Writer, AnAbsentDirectoryIsAnErrorThatNamesTheFile) {
  auto writer = SafetensorsWriter::create("/nonexistent/m", {}, {});
  ASSERT_FALSE(writer.ok());
  EXPECT_EQ(writer.error().code, Code::kIo);
  EXPECT_NE(writer.error().message.find("/nonexistent/m.part"), std::string::npos);
}

// A file size limit replaces a full disk: the same call fails, with EFBIG instead of ENOSPC.
TEST(Writer, WithoutRoomForTheFileItSaysHowMuchIsNeededAndLeavesNothing) {
  const TemporaryFolder folder;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  auto writer = SafetensorsWriter::create(folder.file("m"), {{"a", DType::kU8, {100000}}}, {});
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(writer.ok());
  EXPECT_EQ(writer.error().code, Code::kExhausted);
  EXPECT_NE(writer.error().message.find("it needs 100"), std::string::npos) << writer.error().message;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace ft::format::writer_test
