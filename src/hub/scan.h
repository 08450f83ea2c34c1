// Finds the models of any program on this machine: the cache of huggingface_hub, LM Studio, Ollama, MTPLX,
// and folders that the user names. It lists folders and reads small files; summarise() reads them. Bounded in
// depth, entries and time; the result names the bound that ended it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "hub/settings.h"
#include "hub/summary.h"

namespace ft::hub {

inline constexpr const char* kHubPlace = "Hugging Face cache";

struct FoundModel {
  std::string name;                    // "ORG/NAME", or what --model takes otherwise
  std::string place;                   // "Hugging Face cache", "LM Studio", "Ollama", "folder"
  std::string directory;               // or the GGUF file
  std::string revision;                // of a cache: the ref or the commit
  std::string root;                    // the folder to delete for it; empty: another program's
  bool partial = false;                // a download of it is unfinished
  std::vector<std::string> also = {};  // other names of a cache's snapshot: by its commit, by its other refs
  std::int64_t kept_bytes = -1;        // present bytes of an unfinished pull; -1: not a pull
};

struct ScanPlaces {
  std::string hub_cache;
  std::vector<std::string> lm_studio;  // <publisher>/<model>
  std::string ollama;
  std::vector<std::string> mtplx;    // <Org>--<Name>
  std::vector<std::string> folders;  // models in any depth up to kMaxScanDepth
};

inline constexpr int kMaxScanDepth = 4;
inline constexpr int kMaxScanEntries = 20'000;

/// The usual places, by the variables of these programs. `extra` are folders of the user.
ScanPlaces usual_places(const HubSettings& settings, const Variables& variables,
                        const std::vector<std::string>& extra);

struct Scan {
  std::vector<FoundModel> models;  // by place, then name
  std::string ended_early;         // a sentence; empty: all was seen
};
/// `out_of_time` is asked for each folder.
Scan scan_models(const ScanPlaces& places, const std::function<bool()>& out_of_time);

/// The models with the name `name`, or a name that ends with "/name"; case is ignored unless one matches
/// exactly. If there are none, the GGUF files of a repository of that name.
std::vector<FoundModel> matching(const std::vector<FoundModel>& models, const std::string& name);

ModelSummary summarise(const FoundModel& model);

}  // namespace ft::hub
