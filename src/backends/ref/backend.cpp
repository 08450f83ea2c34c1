#include "backends/ref/backend.h"

#include "backends/host_rows.h"
#include "backends/ref/executable.h"
#include "format/out_of_memory.h"

namespace ft {
namespace {

class RefBackend final : public Backend {
 public:
  std::string_view name() const override { return "ref"; }
  std::string describe() const override { return "reference float32, 1 thread"; }
  Limits limits(const StateLayout& layout) const override { return ref::RefState::limits(layout); }
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
  Result<std::unique_ptr<RowStore>> make_rows(int width, int capacity) override {
    return HostRows::make(width, capacity, "ref backend");
  }
  Result<std::unique_ptr<RowBorder>> make_border(int width, int capacity) override {
    return HostBorder::make(width, capacity, "ref backend");
  }
};

}  // namespace

BackendKind ref_backend() {
  return {"ref", {}, [](const BackendOptions&) -> Result<std::unique_ptr<Backend>> {
            return make_ref_backend();
          }};
}

std::unique_ptr<Backend> make_ref_backend() { return std::make_unique<RefBackend>(); }

}  // namespace ft
