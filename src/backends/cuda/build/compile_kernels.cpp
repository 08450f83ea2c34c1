// Compiles the kernels with NVRTC, which needs neither a GPU nor a toolkit:
//   compile_kernels NVRTC_FOLDER CACHE_FOLDER ROOT OUT TARGETS FILE.cu...
// writes OUT (image_file.h), and OUT.log: the assembler's report on registers and spills
// (tools/gpu/resources). TARGETS: "all", or names with commas between, as "sm_90a,compute_80". An image is
// compiled once: the cache names it by a checksum of its source, the headers that this includes and the
// options. A source whose name begins with "hopper_" is compiled for sm_90a and later only, "sm90_" for
// sm_90a alone.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "backends/cuda/build/image_file.h"

namespace {

namespace fs = std::filesystem;
using Program = void*;

struct Nvrtc {
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*);
  int (*compile)(Program, int, const char* const*);
  int (*log_size)(Program, std::size_t*);
  int (*log)(Program, char*);
  int (*cubin_size)(Program, std::size_t*);
  int (*cubin)(Program, char*);
  int (*ptx_size)(Program, std::size_t*);
  int (*ptx)(Program, char*);
};

struct Target {
  const char* option;
  int capability;
  char kind;
  bool ptx;
};
constexpr Target kTargets[] = {{"sm_80", 80, ' ', false},
                               {"sm_90a", 90, 'a', false},
                               {"sm_100f", 100, 'f', false},
                               {"sm_120f", 120, 'f', false},
                               {"compute_80", 80, ' ', true}};

struct Job {
  std::string source, name;  // path, stem
  Target target;
  fs::path image;  // in the cache
};

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::uint64_t checksum(std::uint64_t seed, const std::string& text) {
  for (const char c : text) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return seed;
}

/// A source and the headers that it includes, each once.
std::string whole_text(const fs::path& root, const fs::path& file, std::set<std::string>& seen) {
  std::string all = read_file(file);
  const std::string word = "#include \"", text = all;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at)) {
    at += word.size();
    const std::string name = text.substr(at, text.find('"', at) - at);
    if (seen.insert(name).second) all += whole_text(root, root / name, seen);
  }
  return all;
}

bool load(const fs::path& folder, Nvrtc& nvrtc) {
  // NVRTC finds this one by itself only if the folder is on the search path.
  const char* const builtins = "libnvrtc-builtins.so.12.9";
  if (dlopen((folder / builtins).c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) return false;
  void* const library = dlopen((folder / "libnvrtc.so.12").c_str(), RTLD_NOW);
  if (library == nullptr) return false;
  bool all = true;
  const auto take = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    all = all && function != nullptr;
  };
  take(nvrtc.create, "nvrtcCreateProgram"), take(nvrtc.compile, "nvrtcCompileProgram");
  take(nvrtc.log_size, "nvrtcGetProgramLogSize"), take(nvrtc.log, "nvrtcGetProgramLog");
  take(nvrtc.cubin_size, "nvrtcGetCUBINSize"), take(nvrtc.cubin, "nvrtcGetCUBIN");
  take(nvrtc.ptx_size, "nvrtcGetPTXSize"), take(nvrtc.ptx, "nvrtcGetPTX");
  return all;
}

std::vector<std::string> options_of(const Target& target, const std::string& root) {
  std::vector<std::string> options = {std::string("--gpu-architecture=") + target.option,
                                      "--std=c++17",
                                      "--fmad=false",
                                      "--prec-div=true",
                                      "--prec-sqrt=true",
                                      "--ftz=false",
                                      "--include-path=" + root};
  if (!target.ptx) options.emplace_back("--ptxas-options=-v");
  return options;
}

/// Runs in a separate process: 0 if the image and its log (registers, spills) are in the cache.
int compile(const Nvrtc& nvrtc, const Job& job, const std::string& root) {
  const std::string text = read_file(job.source);
  Program program = nullptr;
  if (nvrtc.create(&program, text.c_str(), job.source.c_str(), 0, nullptr, nullptr) != 0) return 1;
  const std::vector<std::string> options = options_of(job.target, root);
  std::vector<const char*> words;
  for (const std::string& option : options) words.push_back(option.c_str());
  const int status = nvrtc.compile(program, static_cast<int>(words.size()), words.data());
  std::size_t size = 0;
  nvrtc.log_size(program, &size);
  std::string log(size, '\0');
  nvrtc.log(program, log.data());
  if (status != 0) {
    std::fprintf(stderr, "%s for %s:\n%s\n", job.source.c_str(), job.target.option, log.c_str());
    return 1;
  }
  (job.target.ptx ? nvrtc.ptx_size : nvrtc.cubin_size)(program, &size);
  std::string image(size, '\0');
  (job.target.ptx ? nvrtc.ptx : nvrtc.cubin)(program, image.data());
  std::ofstream(job.image.string() + ".log", std::ios::binary) << log.c_str();
  const std::string part = job.image.string() + ".part" + std::to_string(getpid());
  std::ofstream(part, std::ios::binary).write(image.data(), static_cast<std::streamsize>(image.size()));
  std::error_code error;
  fs::rename(part, job.image, error);
  return error ? 1 : 0;
}

/// Compiles the images that the cache lacks, each in a process, as many at a time as there are cores.
bool compile_all(const Nvrtc& nvrtc, const std::vector<Job>& jobs, const std::string& root) {
  const unsigned most = std::max(1U, std::thread::hardware_concurrency());
  unsigned running = 0;
  bool good = true;
  const auto reap = [&] {
    int status = 0;
    if (wait(&status) > 0) good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    --running;
  };
  for (const Job& job : jobs) {
    if (fs::exists(job.image)) continue;
    if (running == most) reap();
    const pid_t child = fork();
    if (child == 0) _exit(compile(nvrtc, job, root));
    if (child < 0) return false;
    ++running;
  }
  while (running > 0) reap();
  return good;
}

bool write_log(const std::vector<Job>& jobs, const fs::path& out) {
  std::ofstream file(out, std::ios::binary);
  for (const Job& job : jobs) file << read_file(job.image.string() + ".log") << "\n";
  return file.good();
}

bool write(const std::vector<Job>& jobs, const fs::path& out) {
  ft::cuda::ImageFileHeader header{};
  std::copy(std::begin(ft::cuda::kImageMagic), std::end(ft::cuda::kImageMagic), header.magic);
  header.count = static_cast<std::uint32_t>(jobs.size());
  std::uint64_t offset = sizeof header + jobs.size() * sizeof(ft::cuda::ImageEntry);
  std::string entries, images;
  const std::uint64_t first = offset;
  for (const Job& job : jobs) {
    const std::uint64_t pad = (64 - (first + images.size()) % 64) % 64;
    images.append(pad, '\0');
    const std::string image = read_file(job.image);
    ft::cuda::ImageEntry entry{};
    std::strncpy(entry.source, job.name.c_str(), sizeof entry.source - 1);
    entry.capability = job.target.capability;
    entry.kind = job.target.kind;
    entry.ptx = job.target.ptx ? 1 : 0;
    entry.offset = first + images.size();
    entry.bytes = image.size();
    entries.append(reinterpret_cast<const char*>(&entry), sizeof entry);
    images += image;
  }
  std::ofstream file(out, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&header), sizeof header);
  file.write(entries.data(), static_cast<std::streamsize>(entries.size()));
  file.write(images.data(), static_cast<std::streamsize>(images.size()));
  return file.good();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) {
    std::fprintf(stderr, "usage: compile_kernels NVRTC_FOLDER CACHE_FOLDER ROOT OUT TARGETS FILE.cu...\n");
    return 2;
  }
  const fs::path folder = argv[1], cache = argv[2], root = argv[3];
  Nvrtc nvrtc{};
  if (!load(folder, nvrtc)) {
    std::fprintf(stderr, "compile_kernels: %s: run tools/setup cuda again\n", dlerror());
    return 1;
  }
  fs::create_directories(cache);
  const std::string architectures = std::string(",") + argv[5] + ",";
  std::vector<Job> jobs;
  for (int i = 6; i < argc; ++i) {
    const fs::path source = argv[i];
    const std::string stem = source.stem().string();
    const bool hopper = stem.starts_with("hopper_"), sm90 = stem.starts_with("sm90_");
    std::set<std::string> seen;
    const std::string text = whole_text(root, source, seen);
    for (const Target& target : kTargets) {
      if ((hopper && target.capability < 90) || (sm90 && target.capability != 90)) continue;
      if (architectures != ",all," &&
          architectures.find(std::string(",") + target.option + ",") == std::string::npos)
        continue;
      std::uint64_t sum = checksum(0xCBF29CE484222325ULL, text);
      for (const std::string& option : options_of(target, "")) sum = checksum(sum, option);
      char name[32];
      std::snprintf(name, sizeof name, "%016llx.image", static_cast<unsigned long long>(sum));
      jobs.push_back({source.string(), source.stem().string(), target, cache / name});
    }
  }
  if (!compile_all(nvrtc, jobs, root.string()) || !write(jobs, argv[4]) ||
      !write_log(jobs, std::string(argv[4]) + ".log")) {
    std::fprintf(stderr, "compile_kernels: no kernels; see above\n");
    return 1;
  }
  return 0;
}
