#include "backends/metal/macos/pipeline_archive.h"

#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>

#include "base/checksum.h"

namespace ft::metal {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kFailOnMiss = 4;  // MTLPipelineOptionFailOnBinaryArchiveMiss
constexpr std::size_t kDigits = 16;

Object made(const char* kind) { return message<Object>(message<Object>(class_named(kind), "alloc"), "init"); }

Object file_url(const std::string& path) {
  return message<Object, Object>(class_named("NSURL"), "fileURLWithPath:", text_of(path));
}

}  // namespace

void PipelineArchive::open(Object device, const std::string& folder, std::string_view key) {
  if (folder.empty()) return;
  device_ = device;
  path_ = folder + "/metal-" + fingerprint(key).substr(0, kDigits) + ".pipelines";
  std::error_code unknown;
  if (fs::is_regular_file(path_, unknown) && load(file_url(path_))) return;
  fs::create_directories(folder, unknown);
  load(nullptr);
}

/// No URL: an empty archive.
bool PipelineArchive::load(Object from) {
  const Owned descriptor(made("MTLBinaryArchiveDescriptor"));
  if (from != nullptr) message<void, Object>(descriptor.get(), "setUrl:", from);
  Object error = nullptr;
  archive_ = Owned(message<Object, Object, Object*>(
      device_, "newBinaryArchiveWithDescriptor:error:", descriptor.get(), &error));
  if (archive_.get() == nullptr) return false;
  Object const list = message<Object, Object>(class_named("NSArray"), "arrayWithObject:", archive_.get());
  list_ = Owned(message<Object>(list, "retain"));
  return true;
}

Owned PipelineArchive::find(Object function) const {
  if (archive_.get() == nullptr) return {};
  const Owned descriptor(made("MTLComputePipelineDescriptor"));
  message<void, Object>(descriptor.get(), "setComputeFunction:", function);
  message<void, Object>(descriptor.get(), "setBinaryArchives:", list_.get());
  Object error = nullptr;
  return Owned(message<Object, Object, std::uint64_t, Object*, Object*>(
      device_, "newComputePipelineStateWithDescriptor:options:reflection:error:", descriptor.get(),
      kFailOnMiss, nullptr, &error));
}

void PipelineArchive::add(Object function) {
  if (archive_.get() == nullptr) return;
  const Owned descriptor(made("MTLComputePipelineDescriptor"));
  message<void, Object>(descriptor.get(), "setComputeFunction:", function);
  Object error = nullptr;
  if (message<bool, Object, Object*>(
          archive_.get(), "addComputePipelineFunctionsWithDescriptor:error:", descriptor.get(), &error))
    grown_ = true;
}

void PipelineArchive::keep() {
  if (!grown_) return;
  grown_ = false;
  const std::string written = fmt::format("{}.{}", path_, ::getpid());
  Object error = nullptr;
  std::error_code unknown;
  if (message<bool, Object, Object*>(archive_.get(), "serializeToURL:error:", file_url(written), &error))
    fs::rename(written, path_, unknown);
  fs::remove(written, unknown);
}

}  // namespace ft::metal
