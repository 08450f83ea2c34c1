// Fuzzes a repository whose headers are read at the hub. Input: a byte of choices, then parts that NUL ends:
// the script of the answers, config.json, the index, a list of files (empty: the right one); the rest is
// model.safetensors. A skeleton that is accepted has the bytes that the hub has wherever they were asked for.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unistd.h>

#include "base/mapped_file.h"
#include "format/safetensors.h"
#include "hub/digest.h"
#include "hub/scripted_hub.h"
#include "hub/skeleton.h"

namespace {

namespace fs = std::filesystem;
using ft::hub::must;

constexpr const char* kWeights = "model.safetensors";

std::string hash_of(const std::string& data, std::size_t digits) {
  auto digest = ft::hub::Digest::for_blob(std::string(digits, '0'), static_cast<std::int64_t>(data.size()));
  digest.add(std::as_bytes(std::span(data)));
  return digest.finish();
}

std::string listing(const std::map<std::string, std::string>& files) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [path, data] : files) {
    nlohmann::json entry = {
        {"type", "file"}, {"path", path}, {"size", data.size()}, {"oid", hash_of(data, 40)}};
    if (path.ends_with("safetensors")) entry["lfs"] = {{"oid", hash_of(data, 64)}, {"size", data.size()}};
    list.push_back(std::move(entry));
  }
  return list.dump();
}

std::string next_part(std::string_view& input) {
  const std::size_t end = std::min(input.find('\0'), input.size());
  std::string part(input.substr(0, end));
  input.remove_prefix(std::min(end + 1, input.size()));
  return part;
}

/// Its first bytes and its second half.
std::vector<ft::hub::ByteRange> wanted_of(const ft::format::TensorView& tensor) {
  const std::int64_t bytes = std::ssize(tensor.bytes);
  return {{0, std::min<std::int64_t>(bytes, 5)}, {bytes / 2, bytes - bytes / 2}};
}

/// Every wanted range in the folder equals the hub's file.
void check_weights(const std::string& path, const std::string& given) {
  const auto mapped = ft::MappedFile::open(path);
  must(mapped.ok() && mapped->bytes().size() == given.size());
  const auto made = ft::format::parse_safetensors(mapped->bytes(), "made");
  const auto source = ft::format::parse_safetensors(std::as_bytes(std::span(given)), "given");
  must(made.ok() && source.ok() && made->tensors.size() == source->tensors.size());
  for (std::size_t at = 0; at < made->tensors.size(); ++at) {
    const auto &a = made->tensors[at], &b = source->tensors[at];
    must(a.name == b.name && a.bytes.size() == b.bytes.size());
    for (const ft::hub::ByteRange& range : wanted_of(a)) {
      const auto first = static_cast<std::size_t>(range.first), bytes = static_cast<std::size_t>(range.bytes);
      must(std::ranges::equal(a.bytes.subspan(first, bytes), b.bytes.subspan(first, bytes)));
    }
  }
}

void check(const std::string& folder, const ft::hub::Skeleton& skeleton, const ft::hub::ScriptedHub& hub) {
  must(ft::hub::is_commit(skeleton.commit) && skeleton.fetched_bytes <= skeleton.all_bytes);
  for (const auto& [path, given] : hub.files) {
    if (path == kWeights || !fs::exists(folder + "/" + path)) continue;
    std::ifstream file(folder + "/" + path, std::ios::binary);
    must(std::string((std::istreambuf_iterator<char>(file)), {}) == given);
  }
  for (const ft::hub::RemoteFile& file : skeleton.weights) {
    if (file.path == kWeights && !hub.lied) check_weights(folder + "/" + kWeights, hub.files.at(kWeights));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const std::string root = [] {
    std::string name = (fs::temp_directory_path() / "foretoken-skeleton-fuzz-XXXXXX").string();
    must(::mkdtemp(name.data()) != nullptr);
    return name;
  }();
  const std::string folder = root + "/made";
  fs::remove_all(folder);
  fs::create_directory(folder);

  std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  ft::hub::ScriptedHub hub;
  hub.script = next_part(input);
  hub.files["config.json"] = next_part(input);
  if (std::string index = next_part(input); !index.empty())
    hub.files["model.safetensors.index.json"] = std::move(index);
  const std::string list = next_part(input);
  hub.files[kWeights] = std::string(input);
  hub.pages["/api/models/o/n/revision/main"] = R"({"sha": ")" + std::string(40, 'c') + "\"}";
  hub.pages["/api/models/o/n/tree/"] = list.empty() ? listing(hub.files) : list;
  hub.most_requests = hub.script.size() + list.size() + size * 2 + 16;

  const ft::hub::HubSettings settings = hub.settings();
  ft::hub::ScriptedTransport transport(hub);
  const ft::hub::Pace pace = hub.pace(data[0] == 0 ? hub.most_requests + 1 : data[0]);
  ft::hub::PullEvents events;
  const auto repository = *ft::hub::parse_repository("o/n");
  const auto skeleton =
      ft::hub::fetch_skeleton(settings, transport, pace, events, repository, folder, wanted_of);
  if (skeleton.ok()) {
    if (list.empty()) check(folder, *skeleton, hub);
  } else {
    must(!skeleton.error().message.empty());
  }
  const auto entries = fs::directory_iterator(root);
  must(std::distance(fs::begin(entries), fs::end(entries)) == 1);  // nothing is written outside
  return 0;
}
