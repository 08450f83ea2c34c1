// Whether this model runs here: its tier, from its summary and the table of families. No weights are read. A
// tier does not describe answers: a head can change the speed of an answer, never the answer.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/library/verified.h"
#include "hub/summary.h"

namespace ft::cli {

enum class Tier {
  kVerified,      // `verify` passed for these weights, by this version, on this machine
  kCompatible,    // runs, drafted by its MTP head
  kNoHead,        // runs, but lacks the MTP head that its family has
  kConvertible,   // weights in a format that does not run as it is
  kIncomplete,    // files are missing, short or in a cloud
  kIncompatible,  // an architecture of no family
};

/// "verified", "compatible", "compatible, no head", "convertible", "incomplete", "incompatible".
std::string_view tier_name(Tier tier);

struct Assessment {
  Tier tier = Tier::kIncompatible;
  std::string family;
  std::string reason;  // a sentence
  std::string next;    // a command or a sentence; empty: nothing to do
  std::optional<Verified> verified;
  bool has_head = false;
  std::string drafters;  // "MTP head", "EAGLE-3", or both with a comma; empty: none

  bool runs() const { return tier <= Tier::kNoHead; }
  std::string_view drafted_by() const {
    if (!runs()) return "";
    return drafters.empty() ? std::string_view("n-gram lookup") : drafters;
  }
};

/// Models of the family have an MTP head, unless a conversion dropped it.
bool may_have_head(std::string_view family);

/// `name`: its name for --model. `pulled`: it is in the hub's cache, so `pull` repairs it.
Assessment assess(const hub::ModelSummary& summary, const std::string& name, bool pulled);

}  // namespace ft::cli
