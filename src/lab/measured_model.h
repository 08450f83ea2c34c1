// The parts of a loaded model that a measurement needs; the caller owns it.
#pragma once

#include "models/model.h"
#include "program/backend.h"
#include "text/chat_format.h"
#include "text/tokenizer.h"

namespace ft {

struct MeasuredModel {
  Backend& backend;
  const Model& model;
  const Tokenizer* tokenizer = nullptr;  // null: tokens are not decoded
  const ChatFormat* chat_format = &kPlainFormat;
  int threads = 0;  // of the backend and the bandwidth probe
};

}  // namespace ft
