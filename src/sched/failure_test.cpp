// An exception of a backend ends its requests; the code distinguishes a lack of memory from other failures.
#include <new>
#include <stdexcept>

#include "backends/ref/backend.h"
#include "program/forwarding_backend.h"
#include "sched/scheduler.h"
#include "tests/toy_decoder.h"
#include "text/chat_format.h"

namespace ft::test::failure_test {
namespace {

using Fault = std::function<void()>;  // throws, or is empty

class ThrowingExecutable final : public ForwardingExecutable {
 public:
  ThrowingExecutable(std::unique_ptr<Executable> inner, const Fault& fault)
      : ForwardingExecutable(std::move(inner)), fault_(fault) {}
  void submit(const StepArgs& args, State& state) override {
    if (fault_) fault_();
    inner().submit(args, state);
  }

 private:
  const Fault& fault_;
};

class ThrowingBackend final : public ForwardingBackend {
 public:
  explicit ThrowingBackend(const Fault& fault) : ForwardingBackend(make_ref_backend()), fault_(fault) {}
  Result<std::unique_ptr<Executable>> compile(const Program& program,
                                              const CompileOptions& options) override {
    FT_ASSIGN(std::unique_ptr<Executable> made, inner().compile(program, options));
    return std::unique_ptr<Executable>(std::make_unique<ThrowingExecutable>(std::move(made), fault_));
  }

 private:
  const Fault& fault_;
};

/// The end of a request whose first step fails in this way.
Event end_after(const Fault& thrown) {
  const Tokenizer tokenizer = std::move(*Tokenizer::load("assets/qwen3.5-tiny"));
  Fault fault;
  ToyDecoder decoder(std::make_unique<ThrowingBackend>(fault), 1);
  Scheduler scheduler(*decoder, tokenizer, *find_chat_format("qwen3_5 without a grammar of calls"), {});
  RequestFields fields;
  fields.prompt = {1, 2, 3};
  fields.slot.max_tokens = 4;
  fields.parse = false;
  const auto mailbox = std::make_shared<Mailbox>();
  scheduler.admit(std::make_unique<Job>(std::move(*Request::make(fields, 101)), mailbox, 0.0));
  fault = thrown;
  scheduler.step();
  EXPECT_TRUE(scheduler.idle());
  while (std::optional<Event> event = mailbox->try_next()) {
    if (event->kind == Event::Kind::kEnd) return std::move(*event);
  }
  ADD_FAILURE() << "there is no end";
  return {};
}

TEST(SchedulerFailure, ABackendThatThrowsIsAnInternalFailure) {
  const Event end = end_after([] { throw std::runtime_error("the device is gone"); });
  EXPECT_EQ(end.finish, Finish::kError);
  EXPECT_EQ(end.error.code, Code::kIo);
  EXPECT_EQ(end.error.message, "the backend failed: the device is gone");
}

TEST(SchedulerFailure, MemoryThatRanOutIsToldApart) {
  const Event end = end_after([] { throw std::bad_alloc(); });
  EXPECT_EQ(end.finish, Finish::kError);
  EXPECT_EQ(end.error.code, Code::kExhausted);
}

}  // namespace
}  // namespace ft::test::failure_test
