#include "models/head_doctor.h"

#include <algorithm>
#include <fmt/format.h>

#include "program/row_source.h"

namespace ft {
namespace {

using HeadState = HeadReport::State;
using HeadKind = HeadTensor::Kind;

bool all_zero(const std::byte* data, std::size_t size) {
  return data == nullptr || std::all_of(data, data + size, [](std::byte b) { return b == std::byte{0}; });
}

/// True if all values are zero: no code and no bias differs from 0, or no plain value does.
bool zeroed(const Weight& weight) {
  if (weight.from != nullptr) {
    std::vector<float> row(static_cast<std::size_t>(weight.cols));
    for (std::int64_t r = 0; r < weight.rows; ++r) {
      weight.from->read(weight.from_row + r, 1, row.data());
      if (!std::ranges::all_of(row, [](float value) { return value == 0; })) return false;
    }
    return true;
  }
  if (!weight.quantised()) {
    return all_zero(weight.data,
                    static_cast<std::size_t>(weight.rows * weight.cols * element_bytes(weight.format)));
  }
  const auto scales = static_cast<std::size_t>(weight.rows * (weight.cols / weight.group) *
                                               element_bytes(weight.scale_format));
  const auto codes = static_cast<std::size_t>(weight.rows * weight.cols * weight.bits / 8);
  if (is_block_float(weight.format)) return all_zero(weight.data, codes);
  return all_zero(weight.biases, scales) && (all_zero(weight.scales, scales) || all_zero(weight.data, codes));
}

std::string where(const Model& model) {
  return model.checkpoint->mtp_file().empty() ? model.directory : model.checkpoint->mtp_file();
}

}  // namespace

HeadReport::State state_after(const Error& error) {
  return error.code == Code::kExhausted ? HeadState::kNoMemory : HeadState::kWrongShape;
}

HeadReport examine_head(const Model& model, const HeadPlan& plan, WeightSource& source) {
  HeadReport report;
  report.file = model.checkpoint->mtp_file();
  std::vector<std::string> present, absent;
  for (const HeadKind kind : {HeadKind::kMatrix, HeadKind::kNorm}) {
    for (const HeadTensor& tensor : plan.tensors) {
      if (tensor.kind != kind) continue;
      const bool there = source.has(tensor.name) || (tensor.stack > 0 && source.index().has(tensor.name));
      (there ? present : absent).push_back(tensor.name);
    }
  }
  const auto found = [&](HeadState state, std::string sentence) {
    report.state = state;
    report.sentence = "MTP head: " + std::move(sentence);
    return report;
  };
  if (plan.layers == 0) return found(HeadState::kNone, "the configuration names none");
  if (present.empty() && plan.by_tensors) {
    return found(
        HeadState::kNone,
        fmt::format("no file of {} holds mtp.* tensors; conversions often drop them", model.directory));
  }
  if (present.empty()) {
    return found(HeadState::kMissing,
                 fmt::format("missing: config.json names {} layer(s), no file of {} holds mtp.* tensors "
                             "(conversions often drop them); add the MTP head as mtp.safetensors",
                             plan.layers, model.directory));
  }
  if (!absent.empty()) {
    return found(HeadState::kIncomplete,
                 fmt::format("incomplete: {} lacks {} ({} tensors absent); convert the model again",
                             where(model), absent.front(), absent.size()));
  }
  for (const HeadTensor& shape : plan.tensors) {
    if (shape.kind != HeadKind::kMatrix) continue;
    const std::vector<Weight> weights = shape.stack > 0
                                            ? source.stack(shape.name, shape.stack, shape.rows, shape.cols)
                                            : std::vector{source.matrix(shape.name, shape.rows, shape.cols)};
    if (const Status status = source.status(); !status.ok()) {
      const HeadState state = state_after(status.error());
      return found(state, fmt::format("{}: {}", head_state_name(state), status.error().message));
    }
    if (std::ranges::all_of(weights, zeroed)) {
      return found(HeadState::kZeroed,
                   fmt::format("zeroed: all values of {} in {} are zero; get the MTP head again from the "
                               "original model",
                               shape.name, where(model)));
    }
  }
  const Result<std::string> repaired = plan.settle_norms();
  if (!repaired.ok()) return found(state_after(repaired.error()), "its norms: " + repaired.error().message);
  if (!repaired->empty())
    return found(HeadState::kRepaired, "raw norms where shifted ones were declared: " + *repaired);
  report.state = HeadState::kReady;
  return report;
}

}  // namespace ft
