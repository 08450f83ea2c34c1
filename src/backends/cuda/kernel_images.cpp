#include "backends/cuda/kernel_images.h"

#include <cstdint>
#include <cstring>
#include <map>

#include "backends/cuda/build/image_file.h"

namespace ft::cuda {
namespace {

/// How well an image fits; 0: not at all.
int fitness(const KernelImage& image, int capability) {
  if (capability < image.capability) return 0;
  if (image.ptx) return 1;
  if (image.kind == 'a' && capability != image.capability) return 0;
  if (capability / 10 != image.capability / 10) return 0;
  return 1 + image.capability;
}

}  // namespace

std::vector<KernelImage> read_images(std::span<const std::byte> bytes) {
  std::vector<KernelImage> images;
  ImageFileHeader header{};
  if (bytes.size() < sizeof header) return images;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, kImageMagic, sizeof header.magic) != 0) return images;
  for (std::uint32_t i = 0; i < header.count; ++i) {
    ImageEntry entry{};
    const std::size_t at = sizeof header + i * sizeof entry;
    if (at + sizeof entry > bytes.size()) return {};
    std::memcpy(&entry, bytes.data() + at, sizeof entry);
    if (entry.offset > bytes.size() || entry.bytes > bytes.size() - entry.offset) return {};
    KernelImage image;
    image.source.assign(entry.source, strnlen(entry.source, sizeof entry.source));
    image.capability = entry.capability;
    image.kind = entry.kind;
    image.ptx = entry.ptx != 0;
    image.bytes = {reinterpret_cast<const char*>(bytes.data() + entry.offset),
                   static_cast<std::size_t>(entry.bytes)};
    images.push_back(std::move(image));
  }
  return images;
}

std::vector<KernelImage> choose_images(const std::vector<KernelImage>& all, int capability) {
  std::map<std::string, const KernelImage*> best;
  for (const KernelImage& image : all) {
    const KernelImage*& chosen = best[image.source];
    if (fitness(image, capability) > (chosen == nullptr ? 0 : fitness(*chosen, capability))) chosen = &image;
  }
  std::vector<KernelImage> images;
  for (const auto& [source, image] : best) {
    if (image != nullptr) images.push_back(*image);
  }
  return images;
}

}  // namespace ft::cuda
