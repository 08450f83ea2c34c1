// The files of a repository that a model needs: those that mlx-lm fetches (mlx_lm/utils.py,
// `allow_patterns`), and every safetensors file that the index or the configuration names, such as a separate
// MTP head. The other small files come too, so that huggingface_hub finds the snapshot whole.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "hub/listing.h"
#include "hub/repository.h"

namespace ft::hub {

struct FileChoice {
  std::vector<RemoteFile> texts;    // configuration, tokenizer, templates, cards
  std::vector<RemoteFile> others;   // the repository's other small files, such as a licence
  std::vector<RemoteFile> weights;  // separate heads first, the largest last
};

/// Size limits of one file in FileChoice::others, and of all: larger files do not belong to a model.
inline constexpr std::int64_t kMaxOtherBytes = std::int64_t{1} << 20;
inline constexpr std::int64_t kMaxOthersBytes = std::int64_t{32} << 20;
inline constexpr std::size_t kMaxOthers = 256;

/// `include` and `exclude` are patterns such as "*.bin"; they add to and take from the usual choice.
/// kNotFound if there are no usable weights; the sentence lists the weights that exist.
Result<FileChoice> choose_files(const std::vector<RemoteFile>& files, const Repository& repository,
                                const std::vector<std::string>& include,
                                const std::vector<std::string>& exclude);

/// Adds the files that config.json and the index in the folder `snapshot` name and `choice` lacks. Unreadable
/// files add nothing.
void add_named_weights(const std::vector<RemoteFile>& files, const std::string& snapshot,
                       const std::vector<std::string>& exclude, FileChoice& choice);

}  // namespace ft::hub
