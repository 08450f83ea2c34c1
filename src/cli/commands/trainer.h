// The training program of `tune`: the Python package that this program carries, an interpreter with PyTorch,
// and the child process, whose standard output is one JSON object a line. Errors: kNotFound without an
// interpreter or PyTorch, kIo if it fails, kCancelled if it was stopped.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "base/result.h"
#include "cli/terminal/terminal.h"

namespace ft::cli {

/// A file of the package foretoken_tune.
struct PackageFile {
  const char *name, *text;
};
std::span<const PackageFile> tune_package();

struct Trainer {
  std::string python;   // an interpreter that imports torch
  std::string package;  // the folder that holds foretoken_tune
  std::string log;      // of its standard error
};

struct TrainerChoice {
  std::string python;  // --python; empty: the first that has PyTorch
  std::string folder;  // where the package and an environment go
  bool yes = false;    // may make an environment without a question
};

/// Writes the package, and finds an interpreter or, after a yes, makes an environment.
Result<Trainer> find_trainer(const TrainerChoice& choice, Terminal& terminal);

/// Runs `task` on a job file. `line` sees every object; the last one is returned. `stopped` ends the child,
/// which saves its work.
Result<nlohmann::json> run_trainer(const Trainer& trainer, const std::string& task, const std::string& job,
                                   const std::function<void(const nlohmann::json&)>& line,
                                   const std::function<bool()>& stopped);

}  // namespace ft::cli
