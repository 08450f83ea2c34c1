// Every failure of a GPU becomes an error: memory that is refused, a card that is missing or too old, kernels
// that trap or never end. With a fake driver, and on a GPU, if there is one, with kernels that fail.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <set>

#include "backends/cuda/arguments.h"
#include "backends/cuda/backend.h"
#include "backends/cuda/build/image_file.h"
#include "backends/cuda/device.h"
#include "backends/cuda/fake_driver.h"
#include "backends/cuda/test_devices.h"
#include "backends/registry.h"
#include "backends/test_programs.h"

namespace ft {
namespace cuda {
namespace {

FakeDriver* fake = nullptr;
std::set<void*> taken;  // a lost device gives nothing back: its driver does, when the program ends

template <class... Args>
int good(Args... /*args*/) {
  ++fake->calls;
  return 0;
}
template <class... Args>
int handle(Handle* out, Args... /*args*/) {
  ++fake->calls;
  *out = fake;
  return 0;
}

int name_as_handle(Handle* function, Handle /*module*/, const char* name) {
  ++fake->calls;
  *function = const_cast<char*>(name);  // NOLINT(*-const-cast): only given back
  return 0;
}

void* take(std::size_t bytes) {
  if (fake->refuse > 0 && --fake->refuse == 0) return nullptr;
  ++fake->allocations;
  const auto whole = static_cast<std::size_t>(round_up(static_cast<std::int64_t>(bytes), 256));
  return *taken.insert(std::aligned_alloc(256, whole)).first;
}
void give(void* memory) {
  --fake->allocations;
  taken.erase(memory);
  std::free(memory);
}

}  // namespace

FakeDriver::FakeDriver() {
  fake = this;
  table.cuInit = [](unsigned) { return fake->init_status; };
  table.cuDriverGetVersion = [](int* version) { return *version = 12040, 0; };
  table.cuGetErrorString = [](int, const char** text) { return *text = "a fault of the test", 0; };
  table.cuDeviceGetCount = [](int* count) { return *count = fake->gpus, 0; };
  table.cuDeviceGet = [](int* device, int number) { return *device = number, 0; };
  table.cuDeviceGetName = [](char* name, int, int) { return std::strcpy(name, "a card"), 0; };
  table.cuDeviceGetAttribute = [](int* value, int attribute, int) {
    *value = attribute == kMajor              ? fake->capability / 10
             : attribute == kMinor            ? fake->capability % 10
             : attribute == kSharedBytesOptIn ? 227 << 10
                                              : 132;
    return 0;
  };
  table.cuDevicePrimaryCtxRetain = handle<int>;
  table.cuDevicePrimaryCtxRelease = good<int>;
  table.cuCtxSetCurrent = good<Handle>;
  table.cuMemGetInfo = [](std::size_t* free, std::size_t* total) { return *free = *total = 1 << 30, 0; };
  table.cuMemAlloc = [](Address* address, std::size_t bytes) {
    void* const memory = take(bytes);
    *address = reinterpret_cast<Address>(memory);
    return memory == nullptr ? kOutOfMemory : 0;
  };
  table.cuMemFree = [](Address address) { return give(reinterpret_cast<void*>(address)), 0; };
  table.cuMemHostAlloc = [](void** memory, std::size_t bytes, unsigned) {
    *memory = take(bytes);
    return *memory == nullptr ? kOutOfMemory : 0;
  };
  table.cuMemFreeHost = [](void* memory) { return give(memory), 0; };
  table.cuMemcpyHtoDAsync = [](Address to, const void* from, std::size_t bytes, Handle) {
    return std::memcpy(reinterpret_cast<void*>(to), from, bytes), 0;
  };
  table.cuMemcpyDtoHAsync = [](void* to, Address from, std::size_t bytes, Handle) {
    return std::memcpy(to, reinterpret_cast<const void*>(from), bytes), 0;
  };
  table.cuMemcpyDtoDAsync = [](Address to, Address from, std::size_t bytes, Handle) {
    return std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes), 0;
  };
  table.cuMemsetD8Async = [](Address to, unsigned char value, std::size_t bytes, Handle) {
    return std::memset(reinterpret_cast<void*>(to), value, bytes), 0;
  };
  table.cuStreamCreate = handle<unsigned>;
  table.cuStreamDestroy = table.cuStreamSynchronize = good<Handle>;
  table.cuStreamQuery = [](Handle) { return ++fake->calls, fake->query_status; };
  table.cuEventCreate = handle<unsigned>;
  table.cuEventRecord = good<Handle, Handle>;
  table.cuEventQuery = [](Handle) { return ++fake->calls, fake->event_status; };
  table.cuEventRecordWithFlags = good<Handle, Handle, unsigned>;
  table.cuEventElapsedTime = [](float* ms, Handle, Handle) { return *ms = 0, 0; };
  table.cuEventDestroy = good<Handle>;
  table.cuStreamBeginCapture = good<Handle, int>;
  table.cuStreamEndCapture = [](Handle, Handle* graph) { return *graph = fake, 0; };
  table.cuGraphInstantiateWithFlags = handle<Handle, unsigned long long>;
  table.cuGraphLaunch = good<Handle, Handle>;
  table.cuGraphDestroy = good<Handle>;
  table.cuGraphExecDestroy = good<Handle>;
  table.cuModuleLoadData = handle<const void*>;
  table.cuModuleUnload = good<Handle>;
  table.cuModuleGetFunction = name_as_handle;
  table.cuFuncSetAttribute = good<Handle, int, int>;
  table.cuFuncGetAttribute = [](int* value, int, Handle) { return *value = 0, 0; };
  table.cuLaunchKernelEx = [](const LaunchConfig*, Handle function, void**, void**) {
    fake->launched.emplace_back(static_cast<const char*>(function));
    return ++fake->calls, fake->launch_status;
  };
  table.cuOccupancyMaxActiveClusters = [](int* count, Handle, const LaunchConfig*) {
    return ++fake->calls, *count = 16, 0;
  };
}

FakeDriver::~FakeDriver() {
  for (void* memory : taken) std::free(memory);
  taken.clear();
  fake = nullptr;
}

std::vector<std::byte> FakeDriver::images(const char* source) {
  ImageFileHeader header{};
  std::memcpy(header.magic, kImageMagic, sizeof header.magic);
  header.count = 1;
  ImageEntry entry{};
  std::strncpy(entry.source, source, sizeof entry.source - 1);
  entry.capability = 80, entry.ptx = 1;
  entry.offset = sizeof header + sizeof entry, entry.bytes = 1;
  std::vector<std::byte> bytes(entry.offset + 1);
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, &entry, sizeof entry);
  return bytes;
}

namespace {

/// A program on the fake driver: it compiles and runs, or the failure is a sentence.
class CudaFaults : public testing::Test {
 protected:
  Result<std::shared_ptr<Device>> open(int number = 0, std::int64_t patience_ms = 50) {
    images_ = FakeDriver::images();
    return open_device({number, patience_ms}, driver_.table, images_);
  }

  struct Setup {
    std::unique_ptr<Backend> backend;
    std::unique_ptr<Executable> executable;
    std::unique_ptr<State> state;
    std::unique_ptr<RowStore> rows;
  };
  Result<Setup> make() {
    Setup setup;
    FT_ASSIGN(std::shared_ptr<Device> device, open());
    FT_ASSIGN(setup.backend, make_backend_on(std::move(device), 16));
    FT_ASSIGN(setup.executable, setup.backend->compile(test_.program, {.max_rows = 8, .max_logit_rows = 8}));
    FT_ASSIGN(setup.state, setup.backend->make_state(test_.program.layout(), {.slots = 1, .blocks = 4}));
    FT_ASSIGN(setup.rows, setup.backend->make_rows(test_shape_.hidden, 8));
    return setup;
  }
  static void step(Setup& setup, std::int64_t position = 0) {
    const std::vector<std::int32_t> tokens = {1}, blocks = {0, 1, 2, 3}, logit_rows = {0};
    const Segment segment{{blocks, 0, 0, 0}, position, 1, 1};
    const SamplingParams greedy;
    SampleRow sample;
    sample.sampler = &greedy;
    StepArgs args;
    args.tokens = tokens, args.segments = {&segment, 1}, args.logit_rows = logit_rows;
    args.samples = {&sample, 1};
    setup.executable->run(args, *setup.state);
  }

  FakeDriver driver_;
  std::vector<std::byte> images_;
  TestShape test_shape_;
  TestProgram test_{test_shape_, 1};
};

TEST_F(CudaFaults, ACardThatIsMissingOrTooOldHasItsSentence) {
  driver_.gpus = 0;
  EXPECT_EQ(open().error().code, Code::kNotFound);
  EXPECT_EQ(open().error().message,
            "cuda backend: found 0 GPUs, but --device is 0 (the first is 0); choose another --device, or use "
            "--backend cpu");
  driver_.gpus = 2;
  EXPECT_TRUE(open(1).ok());
  EXPECT_EQ(open(2).error().code, Code::kInvalid);
  EXPECT_EQ(open(2).error().message,
            "cuda backend: found 2 GPUs, but --device is 2 (the first is 0); choose another --device, or use "
            "--backend cpu");
  driver_.capability = 75;
  EXPECT_EQ(open().error().code, Code::kUnsupported);
  EXPECT_EQ(open().error().message,
            "cuda backend: a card is sm_75; it needs sm_80 or later, use --backend cpu");
  driver_.init_status = kNoDevice;
  EXPECT_EQ(open().error().code, Code::kNotFound);
}

TEST_F(CudaFaults, EveryAllocationMayBeRefused) {
  std::set<std::string> sentences;
  for (int n = 1;; ++n) {
    driver_.refuse = n;
    std::string why;
    try {
      Result<Setup> setup = make();
      if (setup.ok()) {
        step(*setup);
      } else {
        why = setup.error().message;
      }
    } catch (const DeviceError& error) {
      why = error.what();
    }
    const bool all = driver_.refuse > 0;  // it needed fewer than n
    EXPECT_EQ(driver_.allocations, 0) << "after number " << n;
    EXPECT_EQ(why.empty(), all) << why;
    if (all) break;
    EXPECT_EQ(why.rfind("cuda backend: no ", 0), 0U) << why;
    EXPECT_NE(why.find("; "), std::string::npos) << why;
    sentences.insert(why);
    ASSERT_LT(n, 1000);
  }
  EXPECT_GE(sentences.size(), 6U);
}

TEST_F(CudaFaults, AStepIsLaterAbleToRunAfterAnErrorThatIsNotFinal) {
  Result<Setup> setup = make();
  ASSERT_TRUE(setup.ok());
  driver_.launch_status = 701;
  EXPECT_THROW(step(*setup), DeviceError);
  driver_.launch_status = 0;
  step(*setup);
}

TEST_F(CudaFaults, AKernelThatTrapsLosesTheBackend) {
  Result<Setup> setup = make();
  ASSERT_TRUE(setup.ok());
  driver_.query_status = 719;
  const auto lost = [&]() -> std::string {
    try {
      step(*setup);
    } catch (const BackendLost& failure) {
      return failure.what();
    }
    return "";
  };
  EXPECT_EQ(lost(), "cuda backend: a step failed: a fault of the test (719)");
  driver_.query_status = 0;
  const int calls = driver_.calls;
  EXPECT_EQ(lost(), "cuda backend: a step failed: a fault of the test (719)");
  *setup = {};
  EXPECT_EQ(driver_.calls, calls) << "a lost card is not asked again: it might never answer";
}

TEST_F(CudaFaults, AKernelThatNeverEndsLosesTheBackend) {
  Result<Setup> setup = make();
  ASSERT_TRUE(setup.ok());
  driver_.query_status = kNotReady;
  try {
    step(*setup);
    FAIL();
  } catch (const BackendLost& failure) {
    EXPECT_EQ(std::string(failure.what()), "cuda backend: a step has not ended after 0.05 s");
  }
}

TEST_F(CudaFaults, ASecondThreadReadsWhileStepsAreInFlight) {
  const std::shared_ptr<Device> device = *open();
  constexpr std::size_t kBytes = (std::size_t{9} << 20) + 5;  // parts of the staging memory, and a rest
  const Memory memory(device, kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) *memory.at<unsigned char>(static_cast<int>(i)) = i * 7 % 251;
  driver_.query_status = kNotReady;  // the first stream is never idle
  for (const bool staged : {false, true}) {
    std::vector<unsigned char> out(kBytes);
    if (!staged) driver_.refuse = 1;
    device->settle();
    device->read_settled(out.data(), memory.at(), kBytes);
    EXPECT_EQ(std::memcmp(out.data(), memory.at(), kBytes), 0);
  }
}

TEST_F(CudaFaults, ASecondThreadLearnsThatTheCardIsLost) {
  const std::shared_ptr<Device> device = *open();
  const Memory memory(device, 64);
  std::byte out[64];
  device->read_settled(out, memory.at(), sizeof out);
  driver_.event_status = 700;
  EXPECT_THROW(device->read_settled(out, memory.at(), sizeof out), BackendLost);
  EXPECT_THROW(device->settle(), BackendLost);
  EXPECT_THROW(device->wait(), BackendLost);
}

TEST_F(CudaFaults, AutoSaysWhyItLeavesTheGpu) {
  std::string said;
  BackendOptions options;
  options.threads = 1;
  options.notice = [&said](const std::string& why) { said = why; };
  const auto choose = [&](Status suits) {
    said.clear();
    options.check_device = [suits](const Backend&) { return suits; };
    return choose_backend(options, make_backend_on(*open(), 16));
  };
  EXPECT_EQ((*choose({}))->name(), "cuda");
  EXPECT_EQ(said, "");
  EXPECT_EQ((*choose(Error{Code::kExhausted, "1 slot needs 40 GB"}))->name(), "cpu");
  EXPECT_EQ(said, "--backend auto falls back to the CPU: 1 slot needs 40 GB");
  driver_.capability = 75;
  EXPECT_EQ((*choose_backend(options, open().error()))->name(), "cpu");
  EXPECT_NE(said.find("a card is sm_75"), std::string::npos);
  EXPECT_EQ((*choose_backend(options, Error{Code::kNotFound, "no driver"}))->name(), "cpu");
  EXPECT_EQ(choose_backend(options, Error{Code::kInvalid, "no such number"}).error().message,
            "no such number");
}

// ---- on a GPU: the context does not survive these, so each runs in a separate process ----

/// Exits with 0 if the kernel's end is a BackendLost whose sentence has `part`.
[[noreturn]] void fail_with(const char* kernel, const char* part) {
  Result<std::shared_ptr<Device>> device = open_device({0, 2000});
  if (!device.ok()) std::exit(2);
  Memory number(*device, sizeof(int));
  (*device)->clear(number.at(), sizeof(int));
  const FaultArgs args{number.at<int>()};
  try {
    (*device)->launch({kernel, {1}, 32}, &args);
    (*device)->wait();
  } catch (const BackendLost& failure) {
    const bool named = std::strstr(failure.what(), part) != nullptr;
    std::fprintf(stderr, "%s\n", failure.what());
    std::_Exit(named ? 0 : 3);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    std::_Exit(4);
  }
  std::_Exit(5);
}

TEST(CudaFaultsOnAGpu, EveryOneLosesTheBackendWithASentence) {
  if (const std::string why = why_not("auto"); !why.empty()) GTEST_SKIP() << why;
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(fail_with("fault_trap", "a step failed"), testing::ExitedWithCode(0), "cuda backend");
  EXPECT_EXIT(fail_with("fault_address", "a step failed"), testing::ExitedWithCode(0), "cuda backend");
  EXPECT_EXIT(fail_with("fault_spin", "has not ended after 2 s"), testing::ExitedWithCode(0), "cuda backend");
}

}  // namespace
}  // namespace cuda
}  // namespace ft
