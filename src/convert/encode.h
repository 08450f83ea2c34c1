// Writes the tensors of one file of a plan, by blocks of rows on all workers. Memory: a few blocks a worker,
// whatever the tensor. The bytes do not depend on the number of workers. Errors: kCorrupt for a source with
// an infinity or a NaN, with the tensor's name; kCancelled; as SafetensorsWriter.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "base/thread_pool.h"
#include "convert/plan.h"

namespace ft::convert {

/// Receives the finished bytes of the source and the total; false stops. Called by one thread at a time.
using ProgressCall = std::function<bool(std::uint64_t done, std::uint64_t all)>;

struct EncodeProgress {
  std::uint64_t done = 0, all = 0;
  ProgressCall call;
  std::function<void()> drop_pages;  // frees pages that were read
  std::uint64_t since_drop = 0;
};

/// Writes the tensors of `file`; `path` appears once the caller has finished the writer.
Result<format::SafetensorsWriter> write_tensors(const OutputFile& file, const std::string& path,
                                                ThreadPool& pool, EncodeProgress& progress);

}  // namespace ft::convert
