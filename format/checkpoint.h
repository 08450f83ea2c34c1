// Checkpoint: every tensor of a model directory under its stored name, whichever files it is spread over, and
// the sidecar file of the MTP head if there is one. Owner: keeps all files mapped; TensorView pointers and
// bytes live as long as it does, also across a move. Threads: const use from any. Cost: reads headers only.
// Errors: MappedFile's, parse_safetensors's, and kNotFound/kCorrupt/kInvalid for an index that names absent
// files, absent tensors or paths outside the directory. Which files: the weight_map of
// model.safetensors.index.json; else model.safetensors; else model*.safetensors; else *.safetensors; sidecars
// never count as shards. Which sidecar, first that applies: config.json mlx_lm_extra_tensors.mtp_file;
// mtplx_runtime.json mtp_sidecar_file, mtp_file; mtp.safetensors; mtp/weights.safetensors;
// model-mtp.safetensors. Paths are confined to the directory by their text (no absolute path, no "..");
// symbolic links are followed, because download caches are made of them.
#pragma once

#include <cstdint>
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
  static Result<Checkpoint> open(const std::string& directory);
  /// Tensors that were made in memory; `owner` keeps their bytes. `name` stands where messages name a folder.
  static Result<Checkpoint> of_memory(std::string name, std::vector<TensorView> tensors,
                                      std::string metadata_format, std::shared_ptr<const void> owner);

  /// nullptr when there is none of that name.
  const TensorView* find(std::string_view name) const;
  std::span<const TensorView> tensors() const { return tensors_; }  // sorted by name
  std::vector<std::string> names() const;                           // sorted

  const std::string& directory() const { return directory_; }
  std::uint64_t total_bytes() const { return total_bytes_; }  // of tensor data
  /// Gives the files' memory back to the system, once a backend has packed what it needs: the tensors stay
  /// readable and are read again where they are touched. Nothing for tensors made in memory.
  void drop_pages() const;
  /// 32 digits that change when the files do: their sizes, times, headers and samples of their data; of
  /// tensors made in memory names, shapes and samples.
  std::string state_fingerprint() const;
  /// __metadata__.format of the shards: "mlx", "pt", or "" when they have none or disagree.
  const std::string& metadata_format() const { return metadata_format_; }
  /// The file that holds the MTP head, relative to the directory: a sidecar, or the shard with `mtp.`
  /// tensors; "" when the checkpoint has no head.
  const std::string& mtp_file() const { return mtp_file_; }
  bool mtp_is_sidecar() const { return mtp_is_sidecar_; }

 private:
  Status load_shards(const std::vector<std::string>& files, const std::string& sidecar);
  Status load_file(const std::string& relative, bool sidecar);
  Status index_tensors();
  void find_mtp_file();

  std::string directory_;
  std::vector<MappedFile> files_;
  std::shared_ptr<const void> owner_;  // of bytes that are in no file
  std::vector<TensorView> tensors_;    // sorted by name once open
  std::uint64_t total_bytes_ = 0;
  std::string metadata_format_;
  std::string mtp_file_;
  bool mtp_is_sidecar_ = false;
};

/// "mtp.", "language_model.mtp." or "model.mtp." in front of `name`.
bool is_mtp_name(std::string_view name);

}  // namespace ft::format
