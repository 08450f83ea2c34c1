// Which files of a repository a model needs: what mlx-lm fetches (mlx_lm/utils.py, `allow_patterns`), and
// every safetensors file that the index or the configuration names, such as an MTP head of its own.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "hub/listing.h"
#include "hub/repository.h"

namespace ft::hub {

struct FileChoice {
  std::vector<RemoteFile> texts;    // configuration, tokenizer, templates, cards
  std::vector<RemoteFile> weights;  // heads of their own first, the largest last
};

/// `include` and `exclude` are patterns such as "*.bin"; they add to and take from the usual choice.
/// kNotFound if there are no weights that can be used; the sentence lists what there is.
Result<FileChoice> choose_files(const std::vector<RemoteFile>& files, const Repository& repository,
                                const std::vector<std::string>& include,
                                const std::vector<std::string>& exclude);

/// The files that config.json and the index in the folder `snapshot` name and `choice` lacks are added. What
/// cannot be read there adds nothing.
void add_named_weights(const std::vector<RemoteFile>& files, const std::string& snapshot,
                       const std::vector<std::string>& exclude, FileChoice& choice);

}  // namespace ft::hub
