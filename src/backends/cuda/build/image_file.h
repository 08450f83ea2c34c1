// The file of compiled kernels that the build embeds: a header, its entries, then the images, each at a
// multiple of 64 bytes. Written by compile_kernels.cpp, read by kernel_images.cpp.
#pragma once

#include <cstdint>

namespace ft::cuda {

inline constexpr char kImageMagic[8] = {'F', 'T', 'K', 'E', 'R', 'N', '0', '1'};

struct ImageFileHeader {
  char magic[8];
  std::uint32_t count;
  std::uint32_t unused;
};

struct ImageEntry {
  char source[32];
  std::int32_t capability;
  char kind;  // ' ', 'a' or 'f'
  char ptx;
  char unused[2];
  std::uint64_t offset;  // from the file's begin
  std::uint64_t bytes;   // text ends with a zero
};

}  // namespace ft::cuda
