#include "backends/ref/backend.h"

#include "backends/ref/executable.h"
#include "format/out_of_memory.h"

namespace ft {
namespace {

class RefBackend final : public Backend {
 public:
  std::string_view name() const override { return "ref"; }
  std::string describe() const override { return "reference float32, 1 thread"; }
  Result<std::unique_ptr<Executable>> compile(const Program& program,
                                              const CompileOptions& options) override {
    return ref::compile(program, options);
  }
  Result<std::unique_ptr<State>> make_state(const StateLayout& layout, const StateOptions& options) override {
    using Made = Result<std::unique_ptr<State>>;
    return format::with_memory_guard("hold the key/value cache", "ref backend", [&]() -> Made {
      return std::unique_ptr<State>(std::make_unique<ref::RefState>(layout, options));
    });
  }
};

}  // namespace

std::unique_ptr<Backend> make_ref_backend() { return std::make_unique<RefBackend>(); }

}  // namespace ft
