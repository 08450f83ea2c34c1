#include "backends/ref/backend.h"

#include <new>

#include "backends/ref/executable.h"

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
    try {
      return std::unique_ptr<State>(std::make_unique<ref::RefState>(layout, options));
    } catch (const std::bad_alloc&) {
      return Error{Code::kExhausted,
                   "ref backend: no memory for the key/value cache; ask for a smaller --context"};
    }
  }
};

}  // namespace

std::unique_ptr<Backend> make_ref_backend() { return std::make_unique<RefBackend>(); }

}  // namespace ft
