// Fuzzes the hub's answers to a request for a part of a file: whatever they are, the bytes are right or there
// is an error, and the requests end. Input: the file's length, four places, then the script.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "hub/ranges.h"
#include "hub/scripted_hub.h"

namespace {

constexpr std::size_t kPlaces = 6;

/// Two parts of the file, by one reader: the second may use the place of the first.
void read_parts(ft::hub::RangeReader& reader, const ft::hub::ScriptedHub& hub,
                const ft::hub::RemoteFile& file, const std::uint8_t* places) {
  const std::string& whole = hub.files.at(file.path);
  for (int part = 0; part < 2; ++part, places += 2) {
    const std::size_t first = places[0] * whole.size() / 256;
    const std::size_t bytes = places[1] * (whole.size() - first) / 255;
    std::vector<char> out(bytes);
    const ft::Status read = reader.read(file, static_cast<std::int64_t>(first), out);
    if (!read.ok()) {
      ft::hub::must(!read.error().message.empty());
    } else if (!hub.lied) {
      ft::hub::must(std::string_view(out.data(), bytes) == std::string_view(whole).substr(first, bytes));
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < kPlaces) return 0;
  ft::hub::ScriptedHub hub;
  hub.script.assign(reinterpret_cast<const char*>(data) + kPlaces, size - kPlaces);
  // Every request takes a byte of the script, or is answered rightly: a place and a part, twice.
  hub.most_requests = hub.script.size() + 4;
  std::string& content = hub.files["model.safetensors"];
  for (std::size_t at = 0; at < 1U + data[0] * 40U; ++at) content += static_cast<char>(at * 7 + at / 256);

  const ft::hub::HubSettings settings = hub.settings();
  ft::hub::ScriptedTransport transport(hub);
  const ft::hub::Pace pace = hub.pace(data[1] == 0 ? hub.most_requests + 1 : data[1]);
  ft::hub::PullEvents events;
  const auto repository = *ft::hub::parse_repository("o/n");
  ft::hub::HubClient client(settings, transport, pace, events);
  ft::hub::RangeReader reader(client, transport, repository, std::string(40, 'c'));
  const ft::hub::RemoteFile file{"model.safetensors", static_cast<std::int64_t>(content.size()),
                                 std::string(40, 'a'), std::string(64, 'b'), ""};
  read_parts(reader, hub, file, data + 2);
  return 0;
}
