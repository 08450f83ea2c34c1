// Checkpoint: every tensor of a model directory under its stored name, whichever files hold it, and the
// sidecar file of the MTP head if there is one. Owner: it keeps all files mapped; TensorView pointers and
// bytes live as long as it does, also across a move. Cost: reads headers only. Errors: as MappedFile
// and parse_safetensors, and kNotFound/kCorrupt/kInvalid for an index that names absent files, absent tensors
// or paths outside the directory.
// Which files: the first of these that exists; sidecars never count as shards.
//   the weight_map of model.safetensors.index.json
//   model.safetensors
//   model*.safetensors
//   *.safetensors
// Which sidecar: the first of these that applies.
//   config.json: mlx_lm_extra_tensors.mtp_file
//   mtplx_runtime.json: mtp_sidecar_file, mtp_file
//   mtp.safetensors
//   mtp/weights.safetensors
//   model-mtp.safetensors
// A vision tower may be in a separate vision.safetensors.
// Paths are confined to the directory by their text (no absolute path, no ".."). Symbolic links are followed,
// because download caches consist of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "format/tensor.h"

namespace ft::format {

inline constexpr std::size_t kMaxShards = 4096;

class Checkpoint {
 public:
  /// `head_file`: a sidecar elsewhere, in place of the directory's own MTP head; empty: none.
  static Result<Checkpoint> open(const std::string& directory, const std::string& head_file = "");
  /// Tensors made in memory. `owner` keeps their bytes; messages name `name` instead of a folder.
  static Result<Checkpoint> of_memory(std::string name, std::vector<TensorView> tensors,
                                      std::string metadata_format, std::shared_ptr<const void> owner);

  /// The tensors of mapped files that another reader has parsed; `owner` keeps the other memory that they
  /// point to. The first `header_bytes` of each file identify its contents.
  struct OpenFile {
    MappedFile file;
    std::uint64_t header_bytes = 0;
  };
  static Result<Checkpoint> of_files(std::string path, std::vector<OpenFile> files,
                                     std::vector<TensorView> tensors, std::string metadata_format,
                                     std::shared_ptr<const void> owner);

  /// Renames each tensor to the result of `name`; tensors with an empty result are dropped. `name` gives no
  /// name twice.
  void rename(const std::function<std::string(std::string_view)>& name);
  /// nullptr if no tensor has the name.
  const TensorView* find(std::string_view name) const;
  std::span<const TensorView> tensors() const { return tensors_; }  // sorted by name
  std::vector<std::string> names() const;                           // sorted

  const std::string& directory() const { return directory_; }
  std::uint64_t total_bytes() const { return total_bytes_; }  // of tensor data
  /// Releases the files' memory once a backend has packed its weights. The tensors stay readable; a touch
  /// reads them again. Does nothing for tensors made in memory.
  void drop_pages() const;
  /// 32 hexadecimal digits that change when the files do: from sizes, times, headers and samples of the data.
  /// For tensors made in memory: from names, shapes and samples.
  std::string state_fingerprint() const;
  /// __metadata__.format of the shards: "mlx", "pt", or "" if they have none or disagree; "gguf" of a GGUF
  /// file.
  const std::string& metadata_format() const { return metadata_format_; }
  /// The file that holds the MTP head, relative to the directory: a sidecar (`head_file` is as it was given),
  /// or the shard with `mtp.` tensors; "" if the checkpoint has no MTP head.
  const std::string& mtp_file() const { return mtp_file_; }
  bool mtp_is_sidecar() const { return mtp_is_sidecar_; }

 private:
  Status load_shards(const std::vector<std::string>& files, const std::string& sidecar,
                     const std::string& vision);
  enum class Kind { kShard, kMtp, kVision };
  Status load_file(const std::string& relative, Kind kind);
  Status index_tensors();
  void find_mtp_file();

  std::string directory_;
  std::vector<OpenFile> files_;
  std::shared_ptr<const void> owner_;  // of bytes that are not in a file
  std::vector<TensorView> tensors_;    // sorted by name once open
  std::uint64_t total_bytes_ = 0;
  std::string metadata_format_;
  std::string mtp_file_;
  bool mtp_is_sidecar_ = false;
};

/// True if `name` begins with "mtp.", "language_model.mtp." or "model.mtp.".
bool is_mtp_name(std::string_view name);

}  // namespace ft::format
