// ModelInfo: the parts of the model that build requests, and the facts that answers and listings show. Built
// once when the model is ready, then immutable; server/app.h owns it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/openai/response_store.h"
#include "sched/image_prompt.h"
#include "sched/request_builder.h"
#include "text/chat_format.h"
#include "text/chat_template.h"
#include "text/grammar.h"
#include "text/tokenizer.h"

namespace ft::api {

struct ModelInfo : RequestModel {
  const Tokenizer* tokenizer = nullptr;
  const ChatTemplate* chat_template = nullptr;  // null: chat routes return chat_template_problem
  std::string chat_template_problem;
  std::shared_ptr<const GrammarCompiler> grammars;  // null: nothing can be enforced
  const ChatFormat* chat_format = &kPlainFormat;    // the tags of reasoning, calls and fill-in-the-middle
  ImageInput images;                                // in prompts

  std::string id;                    // the model's name for clients
  std::vector<std::string> aliases;  // additional names of the model
  bool any_model = false;            // accept every model name
  bool strict_fields = false;        // refuse unknown members of a body
  std::int64_t created_s = 0;        // seconds since 1970
  std::string family, quantisation, backend, drafter, drafter_problem, version;
  std::string backend_problem;  // why --backend auto did not use the GPU; empty: it did, or there is none
  std::int64_t parameters = 0, bytes = 0, positions = 0;  // positions: the trained context length
  int slots = 0;
  int draft_vocabulary = 0;                  // size of the MTP head's draft vocabulary; 0: no MTP head
  std::shared_ptr<ResponseStore> responses;  // has its own lock; null: responses are not stored
};

}  // namespace ft::api
