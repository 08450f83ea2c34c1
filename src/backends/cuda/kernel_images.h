// The kernels as compiled at build time (build/compile_kernels.cpp), one image a source and architecture.
// Thread: any. Errors: none; a build without NVRTC has no images (no_kernels.cpp).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ft::cuda {

/// All images in one piece; empty if this build has none.
std::span<const std::byte> kernel_bytes();

struct KernelImage {
  std::string source;  // "norm"
  int capability = 0;  // 90: of the first GPU that it is for
  char kind =
      0;  // ' ' runs on the later ones of the same generation, 'a' on that one only, 'f' on its family
  bool ptx = false;  // text for the driver's own compiler: any later GPU
  std::string_view bytes;
};

/// Empty unless the build tool wrote these bytes.
std::vector<KernelImage> read_images(std::span<const std::byte> bytes);

/// The best image of each source for a GPU; sources without a fitting image are left out.
std::vector<KernelImage> choose_images(const std::vector<KernelImage>& all, int capability);

}  // namespace ft::cuda
