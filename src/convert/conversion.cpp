#include "convert/conversion.h"

#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <system_error>
#include <utility>

#include "convert/folder.h"

namespace ft::convert {
namespace {

namespace fs = std::filesystem;

constexpr const char* kState = "convert.state";

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Removes files of an earlier model, so that no old shard is mistaken for a new one.
void clear(const fs::path& folder) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name == "config.json" || name == kState || name.ends_with(".part") ||
        name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json")) {
      fs::remove(entry.path(), ignored);
    }
  }
}

bool has_weights(const fs::path& folder) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".safetensors") return true;
  }
  return false;
}

/// True: the folder holds files of a stopped run of the same plan.
Result<bool> prepare(const Source& source, const fs::path& folder, const Plan& plan, bool force) {
  std::error_code failed, ignored;
  if (fs::exists(folder, ignored) && fs::equivalent(folder, source.directory, ignored)) {
    return Error{Code::kInvalid, folder.string() + " is the source itself; write to another folder"};
  }
  const std::string state = text_of(folder / kState);
  if (state == plan.fingerprint) return true;
  if (!force && !state.empty() && has_weights(folder)) {
    return Error{Code::kInvalid, folder.string() +
                                     " holds a stopped conversion of another source or recipe; continue that "
                                     "one, or replace it with --force"};
  }
  if (!force && fs::exists(folder / "config.json", ignored)) {
    return Error{
        Code::kInvalid,
        folder.string() + " already contains a model; write to another folder, or replace it with --force"};
  }
  fs::create_directories(folder, failed);
  if (failed) {
    return Error{Code::kIo,
                 folder.string() + " cannot be created: " + failed.message() + "; choose another folder"};
  }
  clear(folder);
  FT_TRY(write_whole((folder / kState).string(), plan.fingerprint));
  return false;
}

/// Brings one file to the disk and to its name while the next one is made.
class Finishing {
 public:
  void begin(format::SafetensorsWriter writer) {
    file_ =
        std::async(std::launch::async, [writer = std::move(writer)]() mutable { return writer.finish(); });
  }
  Status wait() { return file_.valid() ? file_.get() : Status(); }

 private:
  std::future<Status> file_;  // its destructor waits
};

std::uint64_t source_bytes_of(const OutputFile& file) {
  std::uint64_t bytes = 0;
  for (const OutputTensor& tensor : file.tensors) bytes += tensor.source_bytes;
  return bytes;
}

}  // namespace

Result<ConversionResult> convert_model(const Source& source, const Recipe& recipe, const Plan& plan,
                                       const ConversionOptions& options, const ProgressCall& progress) {
  const fs::path folder(options.directory);
  FT_ASSIGN(const bool continued, prepare(source, folder, plan, options.force));
  ConversionResult result;
  EncodeProgress state{0, plan.source_bytes, progress, source.drop_pages};
  try {
    ThreadPool pool(options.threads);
    Finishing finishing;
    for (const OutputFile& file : plan.files) {
      const fs::path path = folder / file.name;
      std::error_code ignored;
      ++result.files;
      if (continued && fs::exists(path, ignored)) {
        state.done += source_bytes_of(file);
        ++result.kept;
        continue;
      }
      FT_ASSIGN(format::SafetensorsWriter writer, write_tensors(file, path.string(), pool, state));
      FT_TRY(finishing.wait());
      finishing.begin(std::move(writer));
    }
    FT_TRY(finishing.wait());
  } catch (const std::system_error& error) {
    return Error{Code::kExhausted, std::string("no thread can be started: ") + error.what()};
  }
  FT_TRY(write_side_files(source, recipe, plan, options.directory));
  FT_TRY(write_config(source, recipe, plan, options.directory));
  std::error_code ignored;
  fs::remove(folder / kState, ignored);
  result.bytes = plan.bytes;
  return result;
}

}  // namespace ft::convert
