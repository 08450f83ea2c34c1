#include "backends/metal/macos/fake_metal.h"

#include <algorithm>
#include <deque>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <set>
#include <unistd.h>
#include <utility>

#include "backends/metal/macos/objective_c.h"
#include "backends/metal/twin/kernels.h"

namespace ft::metal {
namespace {

using U64 = std::uint64_t;
constexpr U64 kMaxArgumentBytes = 4096, kMaxThreads = 1024, kCompleted = 4, kFailed = 5;

struct Thing;

struct Launch {
  Thing* pipeline = nullptr;
  std::map<U64, std::pair<Thing*, U64>> buffers;  // by index: buffer and offset
  std::vector<std::byte> arguments;
  U64 arguments_index = 0;
  Size3 grid{}, threads{};
};

/// Any object; unused members stay empty.
struct Thing {
  std::string kind, text;
  int references = 1;
  std::vector<std::byte> own;  // memory of a buffer
  std::byte* data = nullptr;
  U64 bytes = 0;
  int kernel = -1;
  Thing* other = nullptr;         // of an encoder: its command buffer; of a descriptor: function, URL
  Thing* list = nullptr;          // of a pipeline's descriptor: archives
  std::set<std::string> kernels;  // of an archive
  Launch next;                    // of an encoder
  std::vector<Launch> launches;   // of a command buffer
  bool ended = false, committed = false, done = false, failed = false;
};

FakeGpu gpu;
std::deque<Thing> things;
std::vector<std::vector<Thing*>> pools;
std::vector<Thing*> committed;  // command buffers without a wait
std::map<std::string, void (*)(), std::less<>> methods;

void breach(const std::string& what) { gpu.breaches.push_back(what); }

Thing* make(const char* kind, std::string text = {}) {
  Thing& thing = things.emplace_back();
  thing.kind = kind, thing.text = std::move(text);
  return &thing;
}

void release(Thing* thing) {
  if (--thing->references == 0) thing->own = {};
}

Thing* autoreleased(Thing* thing) {
  if (pools.empty()) {
    breach(thing->kind + " is autoreleased without a pool");
  } else {
    pools.back().push_back(thing);
  }
  return thing;
}

void refuse(Thing** error, const std::string& why) { *error = autoreleased(make("NSError", why)); }

void run(Thing* commands) {
  if (commands->done) return;
  commands->done = true;
  ++gpu.command_buffers;
  commands->failed = !gpu.failure.empty();
  commands->text = std::exchange(gpu.failure, {});
  for (const Launch& launch : commands->launches) {
    std::vector<std::byte*> places;
    for (const auto& [index, place] : launch.buffers) places.push_back(place.first->data + place.second);
    ++gpu.launches;
    const Grid grid{static_cast<unsigned>(launch.grid.width), static_cast<unsigned>(launch.grid.height),
                    static_cast<unsigned>(launch.grid.depth)};
    if (!commands->failed)
      run_twin_kernel(launch.pipeline->kernel, places, launch.arguments.data(), grid,
                      static_cast<int>(launch.threads.width));
    for (const auto& [index, place] : launch.buffers) release(place.first);
  }
}

// ---- the methods, by class; a method of "any" is every object's ----

using Sel = void*;

Thing* retain(Thing* self, Sel) { return ++self->references, self; }
void release_it(Thing* self, Sel) { release(self); }
Thing* alloc(Thing* self, Sel) { return make(self->text.c_str()); }
Thing* itself(Thing* self, Sel) { return self; }
Thing* string(Thing*, Sel, const char* text, U64) { return autoreleased(make("NSString", text)); }
const char* utf8(Thing* self, Sel) { return self->text.c_str(); }
Thing* url(Thing*, Sel, Thing* path) { return autoreleased(make("NSURL", path->text)); }
Thing* array(Thing*, Sel, Thing* only) {
  Thing* const list = autoreleased(make("NSArray"));
  list->other = only;
  return list;
}
Thing* why(Thing* self, Sel) { return autoreleased(make("NSString", self->text)); }

Thing* device_name(Thing*, Sel) { return autoreleased(make("NSString", gpu.name)); }
bool supports(Thing*, Sel, U64 family) { return family <= 1000 + static_cast<U64>(gpu.family); }
U64 working_set(Thing*, Sel) { return gpu.working_set; }
U64 max_buffer(Thing*, Sel) { return gpu.max_buffer; }
U64 allocated(Thing*, Sel) {
  U64 all = 0;
  for (const Thing& thing : things)
    all += thing.references > 0 && thing.kind == "MTLBuffer" ? thing.bytes : 0;
  return all;
}
Thing* new_queue(Thing*, Sel) { return gpu.has_queue ? make("MTLCommandQueue") : nullptr; }
Thing* new_buffer(Thing*, Sel, U64 bytes, U64 options) {
  if (options != 0) breach("a buffer that the host does not see");
  if (bytes == 0 || bytes > gpu.max_buffer) breach(fmt::format("a buffer of {} bytes", bytes));
  Thing* const buffer = make("MTLBuffer");
  buffer->own.resize(bytes, std::byte{0xFF});  // NaN: stricter than Metal, which clears it
  buffer->data = buffer->own.data(), buffer->bytes = bytes;
  return buffer;
}
Thing* wrap_buffer(Thing*, Sel, std::byte* pages, U64 bytes, U64, Thing* deallocator) {
  constexpr U64 kMacPage = 16384;
  const U64 page = std::min<U64>(kMacPage, static_cast<U64>(::sysconf(_SC_PAGESIZE)));
  if (reinterpret_cast<std::uintptr_t>(pages) % page != 0 || bytes % kMacPage != 0)
    breach("pages that do not begin and end at a page");
  if (deallocator != nullptr) breach("a deallocator for pages that have an owner");
  if (!gpu.takes_pages) return nullptr;
  Thing* const buffer = make("MTLBuffer");
  buffer->data = pages, buffer->bytes = bytes;
  return buffer;
}
std::byte* contents(Thing* self, Sel) { return self->data; }

bool responds(Thing*, Sel, Sel asked) {
  return !gpu.is_macos_14 || *static_cast<std::string*>(asked) != "setMathMode:";
}
void math_mode(Thing*, Sel, std::int64_t mode) { gpu.math = mode == 0 ? "safe" : "fast"; }
void math_functions(Thing*, Sel, std::int64_t which) { gpu.math += which == 1 ? " precise" : " fast"; }
void fast_math(Thing*, Sel, bool on) { gpu.math = on ? "fast math" : "no fast math"; }
Thing* new_library(Thing*, Sel, Thing* text, Thing* options, Thing** error) {
  if (text->text.find("kernel void") == std::string::npos) breach("a text without kernels");
  if (options == nullptr || gpu.math.empty()) breach("a text that is compiled with fast math");
  if (gpu.compile_error.empty()) return make("MTLLibrary");
  refuse(error, gpu.compile_error);
  return nullptr;
}
Thing* new_function(Thing*, Sel, Thing* name) {
  if (find_twin_kernel(name->text) < 0) return nullptr;
  return make("MTLFunction", name->text);
}
Thing* pipeline_of(const Thing* function) {
  Thing* const pipeline = make("MTLComputePipelineState", function->text);
  pipeline->kernel = find_twin_kernel(function->text);
  return pipeline;
}
Thing* new_pipeline(Thing*, Sel, Thing* function, Thing** error) {
  if (function->text == gpu.refused_kernel) return refuse(error, "too many registers"), nullptr;
  ++gpu.compiled;
  return pipeline_of(function);
}
U64 max_threads(Thing*, Sel) { return kMaxThreads; }

void set_other(Thing* self, Sel, Thing* other) { self->other = other; }
void set_list(Thing* self, Sel, Thing* list) { self->list = list; }
Thing* new_archive(Thing*, Sel, Thing* descriptor, Thing** error) {
  if (!gpu.has_archives) return refuse(error, "no archives"), nullptr;
  std::set<std::string> kernels;
  if (descriptor->other != nullptr) {
    std::ifstream file(descriptor->other->text);
    std::string line;
    if (!std::getline(file, line) || line != "fake archive of " + gpu.name)
      return refuse(error, "invalid file"), nullptr;
    while (std::getline(file, line)) kernels.insert(line);
  }
  Thing* const archive = make("MTLBinaryArchive");
  archive->kernels = std::move(kernels);
  return archive;
}
Thing* archived_pipeline(Thing*, Sel, Thing* descriptor, U64 options, void*, Thing** error) {
  if (options != 4) breach("an archive that is asked to compile");
  const Thing* const function = descriptor->other;
  if (!descriptor->list->other->kernels.contains(function->text)) return refuse(error, "a miss"), nullptr;
  ++gpu.from_archive;
  return pipeline_of(function);
}
bool add_functions(Thing* self, Sel, Thing* descriptor, Thing**) {
  return self->kernels.insert(descriptor->other->text).second;
}
bool serialize(Thing* self, Sel, Thing* to, Thing** error) {
  std::ofstream file(to->text);
  file << "fake archive of " << gpu.name << "\n";
  for (const std::string& kernel : self->kernels) file << kernel << "\n";
  if (!file) refuse(error, "no such folder");
  return static_cast<bool>(file);
}

Thing* new_commands(Thing*, Sel) { return autoreleased(make("MTLCommandBuffer")); }
Thing* new_encoder(Thing* self, Sel) {
  Thing* const encoder = autoreleased(make("MTLComputeCommandEncoder"));
  encoder->other = self;
  return encoder;
}
void set_pipeline(Thing* self, Sel, Thing* pipeline) { self->next.pipeline = pipeline; }
void set_buffer(Thing* self, Sel, Thing* buffer, U64 offset, U64 index) {
  if (buffer->references <= 0) breach("a buffer that was released is bound");
  if (offset % 4 != 0 || offset >= buffer->bytes) breach(fmt::format("offset {} of a buffer", offset));
  self->next.buffers[index] = {buffer, offset};
}
void set_bytes(Thing* self, Sel, const std::byte* bytes, U64 size, U64 index) {
  if (size == 0 || size > kMaxArgumentBytes) breach(fmt::format("arguments of {} bytes", size));
  self->next.arguments.assign(bytes, bytes + size);
  self->next.arguments_index = index;
}
void dispatch(Thing* self, Sel, Size3 grid, Size3 threads) {
  const Launch& launch = self->next;
  if (self->ended) breach("a launch after endEncoding");
  if (launch.pipeline == nullptr || launch.arguments.empty())
    breach("a launch without pipeline or arguments");
  if (threads.width * threads.height * threads.depth > kMaxThreads || threads.width % 32 != 0)
    breach(fmt::format("a threadgroup of {} threads", threads.width));
  if (grid.width * grid.height * grid.depth == 0) breach("a launch of no threadgroups");
  Launch& kept = self->other->launches.emplace_back(launch);
  kept.grid = grid, kept.threads = threads;
  std::erase_if(kept.buffers, [&](const auto& bound) { return bound.first >= launch.arguments_index; });
  for (const auto& [index, place] : kept.buffers) {
    if (place.first->references++ <= 0) breach("a launch with a buffer that was released");
  }
}
void end_encoding(Thing* self, Sel) { self->ended = self->other->ended = true; }
void commit(Thing* self, Sel) {
  if (!self->ended || self->committed) breach("a command buffer that is committed too early or twice");
  self->committed = true;
  ++self->references;  // the queue's, until it is done
  committed.push_back(self);
}
void wait(Thing* self, Sel) {
  if (!self->committed) return breach("a wait for a command buffer that was not committed");
  while (!self->done) {  // the queue runs them in order
    Thing* const first = committed.front();
    committed.erase(committed.begin());
    run(first);
    release(first);
  }
}
U64 status(Thing* self, Sel) { return self->failed ? kFailed : kCompleted; }
Thing* error_of(Thing* self, Sel) {
  return self->failed ? autoreleased(make("NSError", self->text)) : nullptr;
}
double begin_s(Thing*, Sel) { return 1; }
double end_s(Thing* self, Sel) { return 1 + 0.001 * static_cast<double>(self->launches.size()); }

template <class Function>
void (*as_method(Function* function))() {
  return reinterpret_cast<void (*)()>(function);
}

void add_methods() {
  methods = {{"any retain", as_method(retain)},
             {"any release", as_method(release_it)},
             {"class alloc", as_method(alloc)},
             {"any init", as_method(itself)},
             {"class stringWithCString:encoding:", as_method(string)},
             {"NSString UTF8String", as_method(utf8)},
             {"class fileURLWithPath:", as_method(url)},
             {"class arrayWithObject:", as_method(array)},
             {"NSError localizedDescription", as_method(why)},
             {"MTLDevice name", as_method(device_name)},
             {"MTLDevice supportsFamily:", as_method(supports)},
             {"MTLDevice recommendedMaxWorkingSetSize", as_method(working_set)},
             {"MTLDevice maxBufferLength", as_method(max_buffer)},
             {"MTLDevice currentAllocatedSize", as_method(allocated)},
             {"MTLDevice newCommandQueue", as_method(new_queue)},
             {"MTLDevice newBufferWithLength:options:", as_method(new_buffer)},
             {"MTLDevice newBufferWithBytesNoCopy:length:options:deallocator:", as_method(wrap_buffer)},
             {"MTLBuffer contents", as_method(contents)},
             {"MTLCompileOptions respondsToSelector:", as_method(responds)},
             {"MTLCompileOptions setMathMode:", as_method(math_mode)},
             {"MTLCompileOptions setMathFloatingPointFunctions:", as_method(math_functions)},
             {"MTLCompileOptions setFastMathEnabled:", as_method(fast_math)},
             {"MTLDevice newLibraryWithSource:options:error:", as_method(new_library)},
             {"MTLLibrary newFunctionWithName:", as_method(new_function)},
             {"MTLDevice newComputePipelineStateWithFunction:error:", as_method(new_pipeline)},
             {"MTLComputePipelineState maxTotalThreadsPerThreadgroup", as_method(max_threads)},
             {"MTLBinaryArchiveDescriptor setUrl:", as_method(set_other)},
             {"MTLComputePipelineDescriptor setComputeFunction:", as_method(set_other)},
             {"MTLComputePipelineDescriptor setBinaryArchives:", as_method(set_list)},
             {"MTLDevice newBinaryArchiveWithDescriptor:error:", as_method(new_archive)},
             {"MTLDevice newComputePipelineStateWithDescriptor:options:reflection:error:",
              as_method(archived_pipeline)},
             {"MTLBinaryArchive addComputePipelineFunctionsWithDescriptor:error:", as_method(add_functions)},
             {"MTLBinaryArchive serializeToURL:error:", as_method(serialize)},
             {"MTLCommandQueue commandBuffer", as_method(new_commands)},
             {"MTLCommandBuffer computeCommandEncoder", as_method(new_encoder)},
             {"MTLComputeCommandEncoder setComputePipelineState:", as_method(set_pipeline)},
             {"MTLComputeCommandEncoder setBuffer:offset:atIndex:", as_method(set_buffer)},
             {"MTLComputeCommandEncoder setBytes:length:atIndex:", as_method(set_bytes)},
             {"MTLComputeCommandEncoder dispatchThreadgroups:threadsPerThreadgroup:", as_method(dispatch)},
             {"MTLComputeCommandEncoder endEncoding", as_method(end_encoding)},
             {"MTLCommandBuffer commit", as_method(commit)},
             {"MTLCommandBuffer waitUntilCompleted", as_method(wait)},
             {"MTLCommandBuffer status", as_method(status)},
             {"MTLCommandBuffer error", as_method(error_of)},
             {"MTLCommandBuffer GPUStartTime", as_method(begin_s)},
             {"MTLCommandBuffer GPUEndTime", as_method(end_s)}};
}

U64 answer_of_nil(Thing*, Sel) { return 0; }

// ---- the runtime ----

Object class_of_name(const char* name) {
  static std::map<std::string, Thing> classes;
  Thing& found = classes[name];
  found.kind = "class", found.text = name;
  return &found;
}
void* selector_of(const char* name) {
  static std::set<std::string> selectors;
  ++gpu.look_ups;
  return const_cast<std::string*>(&*selectors.insert(name).first);
}
void* begin_pool() {
  pools.emplace_back();
  return nullptr;
}
void end_pool(void*) {
  const std::vector<Thing*> ended = std::move(pools.back());
  pools.pop_back();
  for (Thing* thing : ended) release(thing);
}
Object the_device() { return gpu.exists ? make("MTLDevice") : nullptr; }

}  // namespace

/// The method of a message. Called by fake_send, which then jumps there with the arguments as they were.
extern "C" void (*fake_method(Thing* to, std::string* selector))() {
  if (to == nullptr) return as_method(answer_of_nil);
  if (to->references <= 0) breach(fmt::format("{} of a {} that was released", *selector, to->kind));
  for (const std::string& kind : {to->kind, std::string("any")}) {
    const auto found = methods.find(kind + " " + *selector);
    if (found != methods.end()) return found->second;
  }
  breach(fmt::format("{} has no method {}", to->kind, *selector));
  return as_method(answer_of_nil);
}
extern "C" void fake_send();

// As objc_msgSend: the registers of arguments are kept while the method is looked up. No method takes floats.
#if defined(__x86_64__)
__asm__(
    ".text\n.globl fake_send\n.type fake_send,@function\nfake_send:\n"
    "  pushq %rdi\n  pushq %rsi\n  pushq %rdx\n  pushq %rcx\n  pushq %r8\n  pushq %r9\n  subq $8, %rsp\n"
    "  call fake_method\n"
    "  addq $8, %rsp\n  popq %r9\n  popq %r8\n  popq %rcx\n  popq %rdx\n  popq %rsi\n  popq %rdi\n"
    "  jmp *%rax\n.size fake_send,.-fake_send\n");
#elif defined(__aarch64__)
__asm__(
    ".text\n.globl fake_send\n.type fake_send,%function\nfake_send:\n"
    "  stp x29, x30, [sp, #-80]!\n  stp x0, x1, [sp, #16]\n  stp x2, x3, [sp, #32]\n"
    "  stp x4, x5, [sp, #48]\n  stp x6, x7, [sp, #64]\n"
    "  bl fake_method\n  mov x16, x0\n"
    "  ldp x0, x1, [sp, #16]\n  ldp x2, x3, [sp, #32]\n  ldp x4, x5, [sp, #48]\n  ldp x6, x7, [sp, #64]\n"
    "  ldp x29, x30, [sp], #80\n  br x16\n.size fake_send,.-fake_send\n");
#endif

const Runtime* Runtime::get() {
  static const Runtime runtime{class_of_name, selector_of, fake_send, begin_pool, end_pool, the_device};
  return &runtime;
}

FakeGpu& fake_gpu() { return gpu; }

void reset_fake_gpu(FakeGpu next) {
  add_methods();
  gpu = std::move(next);
  committed.clear();
  things.clear();
}

std::string living_objects() {
  std::map<std::string, int> living;
  for (const Thing& thing : things) {
    if (thing.references > 0) ++living[thing.kind];
  }
  std::string said;
  for (const auto& [kind, count] : living) said += fmt::format("{} {}\n", count, kind);
  return said;
}

}  // namespace ft::metal
