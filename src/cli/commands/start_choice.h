// The questions of `start`: which model, and where to talk to it. Pure lists and sentences here; the
// command asks them and acts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/library/last_start.h"
#include "cli/library/library.h"
#include "cli/terminal/menu.h"

namespace ft::cli {

/// Memory that a model may use, and the first question's note on the GPU; may be empty.
struct Room {
  std::int64_t bytes = 0;
  std::string sentence;
};
/// `gpu`: the backend for GPUs of this system. A Mac's GPU may use less than the machine's memory
/// (`gpu_bytes`; 0: it cannot be used), and its backend is unmeasured.
Room room_for_models(std::int64_t free_bytes, std::string_view gpu, std::int64_t gpu_bytes);

/// A row of the first question and its meaning.
struct ModelOffer {
  enum class Kind { kHere, kShipped, kPull, kOther };
  Kind kind = Kind::kHere;
  std::string name;        // as --model or pull takes it
  std::int64_t bytes = 0;  // of its files; 0: unknown
  std::string text;
  double speed = 0;         // tokens/s, drafted, an estimate
  std::string label = {};   // shown instead of the name
  std::int64_t memory = 0;  // with a conversation of 8K tokens; 0: memory_for(bytes)
};

/// Tokens/s that a model may reach on this machine, an estimate: decoding reads `token_bytes` for a token at
/// about three quarters of the memory's read speed (bench/results). 0: the read speed is unknown.
double expected_speed(std::int64_t token_bytes, double read_gb_per_s);

/// The models on this machine that run, fitting ones first and the fastest of them first; the first eight of
/// the catalogue that fit; the shipped model; "another one". `free_bytes`, `read_gb_per_s`: of memory; a read
/// speed of 0 is unknown, so tiers and the catalogue give the order.
std::vector<ModelOffer> offer_models(const Library& library, std::int64_t free_bytes,
                                     double read_gb_per_s = 0);
/// With headings before the kinds.
std::vector<MenuRow> offer_rows(const std::vector<ModelOffer>& offers);
/// Sentences that name the rest of the catalogue, and how much memory the larger ones lack; may be empty.
std::string not_offered(const std::vector<ModelOffer>& offers, std::int64_t free_bytes);
/// Approximate memory of a running model of this size.
std::int64_t memory_for(std::int64_t bytes);

/// "the page in the browser" and the like, for the last choice and the second question.
std::string where_text(const LastStart& choice);
/// The name of the model as users read it.
std::string model_text(const std::string& model);

/// The choice of --yes: the first of the offers that runs here and fits; else, if `may_fetch`, the first that
/// can be fetched. Null: none.
const ModelOffer* usual_offer(const std::vector<ModelOffer>& offers, std::int64_t free_bytes, bool may_fetch);

}  // namespace ft::cli
