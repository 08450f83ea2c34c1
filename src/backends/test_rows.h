// A step of a program that takes or captures hidden rows, with floats as input and output; for tests.
#pragma once

#include <numeric>
#include <utility>
#include <vector>

#include "program/backend.h"

namespace ft {

struct RowRun {
  std::vector<float> captured;  // [rows, width of the capture]
  StepResult result;
};

/// `hidden` [rows, width of the input], or empty; `width`: of the captured rows, 0 to capture none.
inline RowRun run_rows(Backend& backend, Executable& executable, State& state, StepArgs args,
                       std::span<const float> hidden, int width) {
  std::vector<std::int32_t> places(args.tokens.size());
  std::iota(places.begin(), places.end(), 0);
  const auto rows = static_cast<int>(places.size());
  std::unique_ptr<RowStore> in, out;
  if (!hidden.empty()) {
    in = std::move(backend.make_rows(static_cast<int>(hidden.size()) / rows, rows).value());
    in->write(0, hidden);
    args.hidden = {in.get(), places};
  }
  RowRun run;
  run.captured.resize(places.size() * static_cast<std::size_t>(width));
  if (width > 0) {
    out = std::move(backend.make_rows(width, rows).value());
    args.capture = {out.get(), places};
  }
  run.result = executable.run(args, state);
  if (width > 0) out->read(0, run.captured);
  return run;
}

}  // namespace ft
