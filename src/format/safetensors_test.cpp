#include "format/safetensors.h"

#include <cstring>
#include <gtest/gtest.h>

#include "format/model_fixture.h"

namespace ft::format::safetensors_test {
namespace {

Result<Safetensors> parse(const std::string& file) {
  return parse_safetensors(std::as_bytes(std::span(file)), "dir/m.safetensors");
}

std::string message_of(const std::string& file) {
  auto parsed = parse(file);
  return parsed.ok() ? "ok" : parsed.error().message;
}

/// One tensor 't' with this entry, over 16 bytes of data.
std::string one(const std::string& entry) {
  return with_header("{\"t\":" + entry + "}", std::string(16, 'x'));
}

TEST(Safetensors, GivesEveryTensorItsTypeShapeAndBytes) {
  const std::string file = safetensors_file({{"a", "F32", "[2,2]", std::string(16, 'a')},
                                             {"b", "U8", "[3]", "bcd"},
                                             {"scalar", "BF16", "[]", "zz"},
                                             {"empty", "I64", "[0,7]", ""}},
                                            R"({"format":"pt"})");
  auto parsed = parse(file);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  ASSERT_EQ(parsed->tensors.size(), 4U);
  EXPECT_EQ(parsed->metadata.at("format"), "pt");
  const TensorView& b = parsed->tensors[1];
  EXPECT_EQ(b.name, "b");
  EXPECT_EQ(b.dtype, DType::kU8);
  EXPECT_EQ(b.shape, (std::vector<std::int64_t>{3}));
  EXPECT_EQ(b.file, "dir/m.safetensors");
  EXPECT_EQ(std::memcmp(b.bytes.data(), "bcd", 3), 0);
  for (const TensorView& tensor : parsed->tensors) {
    EXPECT_EQ(tensor.bytes.size(), tensor.name == "empty"    ? 0U
                                   : tensor.name == "scalar" ? 2U
                                   : tensor.name == "a"      ? 16U
                                                             : 3U);
  }
}

TEST(Safetensors, KnowsEveryElementTypeByNameAndSize) {
  for (const char* name : {"F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8",
                           "BOOL", "F8_E4M3", "F8_E5M2", "F8_E8M0"}) {
    const auto dtype = dtype_from_name(name);
    ASSERT_TRUE(dtype.has_value()) << name;
    EXPECT_EQ(dtype_name(*dtype), name);
    EXPECT_EQ(message_of(safetensors_file({{"t", name, "[3]", std::string(3 * dtype_bytes(*dtype), 'x')}})),
              "ok");
  }
}

TEST(Safetensors, DataMayBeUnalignedAsMlxWritesIt) {
  const std::string file = safetensors_file({{"b", "U8", "[1]", "x"}, {"f", "F32", "[1]", floats({2.5F})}});
  auto parsed = parse(file);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(load_float(parsed->tensors[1].bytes.data(), DType::kF32, 0), 2.5F);
}

TEST(Safetensors, AHeaderBeyondItsLimitOrTheFileIsRefused) {
  EXPECT_NE(message_of("").find("at least 8 bytes, found 0"), std::string::npos);
  std::string file(8, '\0');
  std::uint64_t length = kMaxHeaderBytes + 1;
  std::memcpy(file.data(), &length, 8);
  EXPECT_NE(message_of(file).find("a header of at most 100000000 bytes, found 100000001"), std::string::npos);
  length = kMaxHeaderBytes;
  std::memcpy(file.data(), &length, 8);
  EXPECT_NE(message_of(file).find("a header of 100000000 bytes, found only 0"), std::string::npos);
  length = UINT64_MAX;
  std::memcpy(file.data(), &length, 8);
  EXPECT_NE(message_of(file).find("18446744073709551615"), std::string::npos);
}

struct BadCase {
  const char* entry;
  const char* complaint;
};

TEST(Safetensors, EachLieAboutATensorIsNamed) {
  const BadCase cases[] = {
      {R"(7)", "expected an object, found number"},
      {R"({"shape":[4],"data_offsets":[0,16]})", "expected a 'dtype' that is a string, found none"},
      {R"({"dtype":5,"shape":[4],"data_offsets":[0,16]})", "found 5"},
      {R"({"dtype":"F33","shape":[4],"data_offsets":[0,16]})", "found \"F33\""},
      {R"({"dtype":"F32","data_offsets":[0,16]})", "expected a 'shape' that is a list"},
      {R"({"dtype":"F32","shape":[-4],"data_offsets":[0,16]})", "found [-4]"},
      {R"({"dtype":"F32","shape":[4.0],"data_offsets":[0,16]})", "sides that are whole numbers"},
      {R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,16]})", "below 2^63"},
      {R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,16]})", "a size below 2^64 bytes"},
      {R"({"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]})", "a size below 2^64 bytes"},
      {R"({"dtype":"F32","shape":[1,1,1,1,1,1,1,1,4],"data_offsets":[0,16]})",
       "at most 8 dimensions, found 9"},
      {R"({"dtype":"F32","shape":[4]})", "expected 'data_offsets' of two whole numbers, found none"},
      {R"({"dtype":"F32","shape":[4],"data_offsets":[0]})", "two whole numbers"},
      {R"({"dtype":"F32","shape":[4],"data_offsets":[-1,15]})", "two whole numbers"},
      {R"({"dtype":"F32","shape":[4],"data_offsets":[16,0]})", "begins before it ends"},
      {R"({"dtype":"F32","shape":[5],"data_offsets":[0,20]})", "inside the file's 16 bytes"},
      {R"({"dtype":"F32","shape":[4],"data_offsets":[0,18446744073709551615]})",
       "inside the file's 16 bytes"},
      {R"({"dtype":"F32","shape":[3],"data_offsets":[0,16]})",
       "expected 12 bytes of data for F32 [3], found 16"},
      {R"({"dtype":"F32","shape":[3],"data_offsets":[4,16]})", "(hole)"},
  };
  for (const BadCase& bad : cases) {
    const std::string message = message_of(one(bad.entry));
    EXPECT_EQ(message.find("dir/m.safetensors: tensor 't': expected "), 0U) << message;
    EXPECT_NE(message.find(bad.complaint), std::string::npos) << message;
    EXPECT_NE(message.find("; "), std::string::npos) << message;
  }
}

TEST(Safetensors, OverlapHolesAndTrailingBytesAreRefused) {
  const std::string a = R"("a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]})";
  const auto with_b = [&](const char* offsets) {
    return with_header("{" + a + R"(,"b":{"dtype":"U8","shape":[8],"data_offsets":)" + offsets + "}}",
                       std::string(17, 'x'));
  };
  EXPECT_NE(message_of(with_b("[7,15]")).find("tensor 'b'"), std::string::npos);
  EXPECT_NE(message_of(with_b("[7,15]")).find("(overlap)"), std::string::npos);
  EXPECT_NE(message_of(with_b("[9,17]")).find("where 'a' ends, found 9 (hole)"), std::string::npos);
  EXPECT_NE(message_of(with_b("[8,16]")).find("end at byte 16, found 1 bytes more"), std::string::npos);
}

TEST(Safetensors, ANameThereTwiceIsRefused) {
  const std::string t = R"("t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  EXPECT_NE(message_of(with_header("{" + t + "," + t + "}", "")).find("the key 't' twice"),
            std::string::npos);
}

TEST(Safetensors, AnOddHeaderOrMetadataIsRefused) {
  EXPECT_NE(message_of(with_header("[]", "")).find("a header that is an object, found array"),
            std::string::npos);
  EXPECT_NE(message_of(with_header(R"({"__metadata__":[]})", "")).find("'__metadata__'"), std::string::npos);
  EXPECT_NE(message_of(with_header(R"({"__metadata__":{"a":1}})", "")).find("to hold strings"),
            std::string::npos);
  EXPECT_EQ(message_of(with_header(R"({"__metadata__":null})", "")), "ok") << "as none";
  EXPECT_EQ(message_of(with_header("{}  ", "")), "ok") << "padding is part of the format";
}

TEST(Safetensors, AHugeNameIsCutInTheMessage) {
  const std::string name(10000, 'n');
  const std::string message = message_of(with_header("{\"" + name + "\":0}", ""));
  EXPECT_NE(message.find("nnn...'"), std::string::npos);
  EXPECT_LT(message.size(), 500U);
}

TEST(Safetensors, EveryTruncationIsAnErrorAndNotACrash) {
  const std::string file = safetensors_file(
      {{"a", "F32", "[2]", floats({1, 2})}, {"b", "BF16", "[3]", "abcdef"}}, R"({"format":"mlx"})");
  ASSERT_EQ(message_of(file), "ok");
  for (std::size_t length = 0; length < file.size(); ++length) {
    auto parsed = parse(file.substr(0, length));
    ASSERT_FALSE(parsed.ok()) << length;
    EXPECT_EQ(parsed.error().code, Code::kCorrupt);
    EXPECT_EQ(parsed.error().message.find("dir/m.safetensors: "), 0U);
  }
}

TEST(Safetensors, EverySingleByteChangeIsAnErrorOrAFileWhoseViewsAreInside) {
  const std::string file =
      safetensors_file({{"a", "F32", "[2]", floats({1, 2})}, {"b", "BF16", "[3]", "abcdef"}});
  for (std::size_t at = 0; at + 14 < file.size(); ++at) {
    for (const char byte : {'\0', '0', '9', '"', '}', ']', '-', '\xFF'}) {
      std::string changed = file;
      changed[at] = byte;
      auto parsed = parse(changed);
      if (!parsed.ok()) continue;
      const auto all = std::as_bytes(std::span(changed));
      for (const TensorView& tensor : parsed->tensors) {
        EXPECT_GE(tensor.bytes.data(), all.data());
        EXPECT_LE(tensor.bytes.data() + tensor.bytes.size(), all.data() + all.size());
      }
    }
  }
}

}  // namespace
}  // namespace ft::format::safetensors_test
