// A process that serves one of several models, as `serve --models` starts it: the same command line, the
// variable FORETOKEN_FRONT=1, and on stdin a line that names the model. It writes its memory plan to stdout,
// waits for "go" on stdin, and writes a line once it serves; an error is the object of --json. It listens on
// a loopback port and accepts only the front. It ends when stdin does, so no process outlives its front.
// cli/commands/model_processes.cpp has the other end.
#pragma once

#include <memory>
#include <string>

#include "api/model_info.h"
#include "cli/commands/serving.h"

namespace ft::cli {

inline constexpr const char* kFrontVariable = "FORETOKEN_FRONT";

class BehindFront {
 public:
  /// Null: this process serves no front. kIo if the front's line cannot be read.
  static Result<std::unique_ptr<BehindFront>> from_environment();

  /// Sets the options that the front decides: the model, the address, names and limits.
  void apply(ServeOptions& serve, ModelOptions& model) const;
  const std::string& name() const { return name_; }
  const std::string& secret() const { return secret_; }
  /// Sends the plan, and returns once the memory is free.
  Status plan(const MemoryReport& needed, const MemoryPlan& plan) const;
  void serves(const api::ModelInfo& model_info, int port) const;

 private:
  std::string name_, directory_, secret_;
  SharedMemory shared_;
};

}  // namespace ft::cli
