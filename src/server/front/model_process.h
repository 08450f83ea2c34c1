// ModelProcess: the process that holds one model, as the front sees it: a server on a loopback port that
// accepts only the front. Its output is a line for each piece of news; the end of the output is the end of
// the process. cli/commands/model_processes.h starts it; tests may provide their own. Thread: the I/O thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ft::server {

struct ModelNews {
  enum class Kind { kNone, kPlanned, kReady, kFailed };
  Kind kind = Kind::kNone;
  std::int64_t bytes = 0,
               limit_bytes = 0;  // kPlanned: of this model, and the limit of all models; 0: unknown
  bool on_device = false;        // kPlanned: these bytes are a GPU's
  int port = 0;                  // kReady
  std::string facts;             // kReady: the model's entry of the process's /v1/models
  Error error;                   // kFailed
};

class ModelProcess {
 public:
  /// Ends it, at once if it has not ended.
  virtual ~ModelProcess() = default;
  /// The descriptor of its output.
  virtual int output() const = 0;
  virtual ModelNews read(std::string_view line) = 0;
  /// Lets a planned process load its model.
  virtual void go() = 0;
  /// Asks it to end; again: at once.
  virtual void stop() = 0;
  /// Whether nothing of it is left. Does not wait.
  virtual bool has_ended() = 0;
};

class ModelStarter {
 public:
  virtual ~ModelStarter() = default;
  /// The limits of the machine's memory and a GPU's for all models; 0: unknown.
  virtual Result<std::unique_ptr<ModelProcess>> start(const std::string& id, std::int64_t machine_bytes,
                                                      std::int64_t device_bytes) = 0;
};

}  // namespace ft::server
