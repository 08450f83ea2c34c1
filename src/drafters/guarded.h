// Calls into a drafter, which must not harm a round: its exceptions become errors, except BackendLost, which
// is not the drafter's fault.
#pragma once

#include <exception>

#include "base/result.h"
#include "program/backend.h"

namespace ft {

template <class Call>
Status guarded(Call call) {
  try {
    return call();
  } catch (const BackendLost&) {
    throw;
  } catch (const std::exception& failure) {
    return Error{Code::kExhausted, failure.what()};
  }
}

}  // namespace ft
