// What is being served: the model's parts that requests are made with, and the facts that answers and
// listings name. Built once when the model is ready. Owner: server/app.h. Thread: immutable; any. Cost: none.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/openai/response_store.h"
#include "program/sample_row.h"
#include "speculation/decoder.h"
#include "text/chat_format.h"
#include "text/chat_template.h"
#include "text/grammar.h"
#include "text/tokenizer.h"

namespace ft::api {

struct ModelInfo {
  const Tokenizer* tokenizer = nullptr;
  const ChatTemplate* chat_template = nullptr;  // null: chat routes refuse with the problem
  std::string chat_template_problem;
  std::shared_ptr<const GrammarCompiler> grammars;  // null: nothing can be enforced
  const ChatFormat* chat_format = &kPlainFormat;    // the tags of reasoning, calls and fill-in-the-middle
  std::vector<std::int32_t> eos;
  int vocabulary = 0;           // columns of logits
  std::int64_t context = 0;     // tokens of prompt and answer together
  SamplingParams sampler;       // what a request that names nothing gets; its seed is not used
  std::vector<LogitBias> bias;  // the same
  DrafterKind default_drafter = DrafterKind::kAuto;  // where a request says auto
  int default_depth = -1;

  std::string id;                    // of the model, as clients name it
  std::vector<std::string> aliases;  // other names that it answers to
  bool any_model = false;            // every name is served by this model
  std::int64_t created_s = 0;        // seconds since 1970
  std::string family, quantisation, backend, drafter, drafter_problem, version;
  std::int64_t parameters = 0, bytes = 0, positions = 0;  // positions: what the model was made for
  int slots = 0;
  int draft_vocabulary = 0;  // tokens that the model's head drafts among at a time; 0: it has none
  std::shared_ptr<ResponseStore> responses;  // locks for itself; null: none is kept
};

}  // namespace ft::api
