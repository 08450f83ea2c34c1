#include "format/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/checksum.h"
#include "base/log.h"
#include "format/out_of_memory.h"
#include "format/safetensors.h"
#include "format/shard_list.h"

namespace ft::format {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kListedNames = 5;  // in a message about several tensors
constexpr std::size_t kFileSamples = 32;
constexpr std::size_t kSampleBytes = 64;

bool by_name(const TensorView& a, const TensorView& b) { return a.name < b.name; }

/// Every tensor that the index lists must be in the shard that the index names for it.
Status check_index(const ShardList& list, const Checkpoint& checkpoint) {
  std::string listed;
  std::size_t wrong = 0;
  for (const auto& [name, file] : list.weight_map) {
    const TensorView* tensor = checkpoint.find(name);
    if (tensor != nullptr && tensor->file.ends_with(file)) continue;
    // A sidecar replaces the MTP head of the main shards, and the index itself may name it.
    if (is_mtp_name(name) && !list.sidecar.empty()) continue;
    if (wrong++ < kListedNames) listed += (listed.empty() ? "" : ", ") + in_quotes(name) + " in " + file;
  }
  if (wrong == 0) return {};
  return Error{Code::kCorrupt, list.index_path + ": names " + std::to_string(wrong) +
                                   " tensor(s) that their file lacks (" + listed +
                                   (wrong > kListedNames ? ", ..." : "") +
                                   "); index and files are of different versions: download both again"};
}

}  // namespace

bool is_mtp_name(std::string_view name) {
  return name.starts_with("mtp.") || name.starts_with("language_model.mtp.") ||
         name.starts_with("model.mtp.");
}

Result<Checkpoint> Checkpoint::open(const std::string& directory, const std::string& head_file) {
  return with_memory_guard("open the model", directory, [&]() -> Result<Checkpoint> {
    FT_ASSIGN(const ShardList list, list_shards(directory, head_file));
    Checkpoint checkpoint;
    checkpoint.directory_ = directory;
    FT_TRY(checkpoint.load_shards(list.shards, list.sidecar, list.vision));
    FT_TRY(checkpoint.index_tensors());
    FT_TRY(check_index(list, checkpoint));
    checkpoint.find_mtp_file();
    return checkpoint;
  });
}

Result<Checkpoint> Checkpoint::of_memory(std::string name, std::vector<TensorView> tensors,
                                         std::string metadata_format, std::shared_ptr<const void> owner) {
  Checkpoint checkpoint;
  checkpoint.directory_ = std::move(name);
  checkpoint.tensors_ = std::move(tensors);
  checkpoint.metadata_format_ = std::move(metadata_format);
  checkpoint.owner_ = std::move(owner);
  FT_TRY(checkpoint.index_tensors());
  checkpoint.find_mtp_file();
  return checkpoint;
}

Result<Checkpoint> Checkpoint::of_files(std::string path, std::vector<OpenFile> files,
                                        std::vector<TensorView> tensors, std::string metadata_format,
                                        std::shared_ptr<const void> owner) {
  FT_ASSIGN(Checkpoint checkpoint,
            of_memory(std::move(path), std::move(tensors), std::move(metadata_format), std::move(owner)));
  checkpoint.files_ = std::move(files);
  if (!checkpoint.mtp_file_.empty())
    checkpoint.mtp_file_ = fs::path(checkpoint.directory_).filename().generic_string();
  return checkpoint;
}

Status Checkpoint::load_shards(const std::vector<std::string>& files, const std::string& sidecar,
                               const std::string& vision) {
  for (const std::string& file : files) FT_TRY(load_file(file, Kind::kShard));
  if (!vision.empty()) FT_TRY(load_file(vision, Kind::kVision));
  if (sidecar.empty()) return {};
  const std::size_t dropped =
      std::erase_if(tensors_, [](const TensorView& tensor) { return is_mtp_name(tensor.name); });
  if (dropped > 0) {
    log_warn(directory_ + ": the MTP head of " + sidecar + " is used; " + std::to_string(dropped) +
             " mtp tensors in the main files are ignored");
  }
  mtp_is_sidecar_ = true;
  mtp_file_ = sidecar;
  return load_file(sidecar, Kind::kMtp);
}

Status Checkpoint::load_file(const std::string& relative, Kind kind) {
  const std::string path = (fs::path(directory_) / relative).string();
  FT_ASSIGN(MappedFile file, MappedFile::open(path));
  FT_ASSIGN(Safetensors contents, parse_safetensors(file.bytes(), path));
  for (TensorView& tensor : contents.tensors) {
    // An MTP head that was published alone may leave out the prefix.
    if (kind == Kind::kMtp && !is_mtp_name(tensor.name)) tensor.name.insert(0, "mtp.");
    tensors_.push_back(std::move(tensor));
  }
  if (kind == Kind::kShard) {
    const std::string& format = contents.metadata["format"];
    if (files_.empty()) metadata_format_ = format;
    if (metadata_format_ != format) metadata_format_.clear();
  }
  std::uint64_t header = 0;
  std::memcpy(&header, file.bytes().data(), sizeof header);  // it was read and checked before
  files_.push_back({std::move(file), sizeof header + header});
  return {};
}

Status Checkpoint::index_tensors() {
  std::sort(tensors_.begin(), tensors_.end(), by_name);
  for (std::size_t i = 1; i < tensors_.size(); ++i) {
    if (tensors_[i].name != tensors_[i - 1].name) continue;
    return tensor_error(Code::kCorrupt, tensors_[i].file, tensors_[i].name, "every tensor in one file only",
                        "it in " + tensors_[i - 1].file + " too",
                        "remove the files that do not belong to this model");
  }
  for (const TensorView& tensor : tensors_) total_bytes_ += tensor.bytes.size();
  return {};
}

void Checkpoint::rename(const std::function<std::string(std::string_view)>& name) {
  for (TensorView& tensor : tensors_) tensor.name = name(tensor.name);
  std::erase_if(tensors_, [](const TensorView& tensor) { return tensor.name.empty(); });
  std::sort(tensors_.begin(), tensors_.end(), by_name);
  find_mtp_file();
}

void Checkpoint::find_mtp_file() {
  if (!mtp_file_.empty()) return;
  for (const TensorView& tensor : tensors_) {
    if (!is_mtp_name(tensor.name)) continue;
    mtp_file_ = fs::path(tensor.file).lexically_relative(directory_).generic_string();
    return;
  }
}

void Checkpoint::drop_pages() const {
  for (const OpenFile& open : files_) open.file.drop_pages(0, open.file.bytes().size());
}

std::string Checkpoint::state_fingerprint() const {
  std::string text;
  const auto add = [&text](std::span<const std::byte> bytes) {
    text += std::to_string(checksum(bytes)) + ' ';
  };
  const auto add_samples = [&add](std::span<const std::byte> bytes, std::size_t samples) {
    for (std::size_t i = 0; i < samples && !bytes.empty(); ++i) {
      const std::size_t at = bytes.size() / samples * i;
      add(bytes.subspan(at, std::min(kSampleBytes, bytes.size() - at)));
    }
  };
  for (const auto& [file, header] : files_) {
    const std::span<const std::byte> bytes = file.bytes();
    text += fs::path(file.path()).filename().string() + ' ' + std::to_string(bytes.size()) + ' ' +
            std::to_string(file.modified_ns()) + ' ';
    add(bytes.first(std::min<std::size_t>(bytes.size(), header)));
    add_samples(bytes, kFileSamples);
  }
  if (files_.empty()) {
    for (const TensorView& tensor : tensors_) {
      text += tensor.name + ' ' + std::string(dtype_name(tensor.dtype)) + shape_text(tensor.shape) + ' ';
      add_samples(tensor.bytes, 1);
    }
  }
  return fingerprint(text);
}

const TensorView* Checkpoint::find(std::string_view name) const {
  const auto at =
      std::lower_bound(tensors_.begin(), tensors_.end(), name,
                       [](const TensorView& tensor, std::string_view key) { return tensor.name < key; });
  return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> result;
  result.reserve(tensors_.size());
  for (const TensorView& tensor : tensors_) result.push_back(tensor.name);
  return result;
}

}  // namespace ft::format
