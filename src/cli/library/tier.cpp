#include "cli/library/tier.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "cli/library/heads.h"
#include "format/config_files.h"
#include "models/family.h"
#include "models/gguf/architecture.h"
#include "models/synthetic/shapes.h"

namespace ft::cli {
namespace {

/// The family that reads the configuration, or why none does.
Result<FamilyMatch> family_of(const hub::ModelSummary& summary) {
  FT_ASSIGN(const format::ConfigFiles files,
            format::ConfigFiles::parse(summary.config, summary.generation, summary.runtime,
                                       summary.directory + "/config.json"));
  return read_config(files);
}

/// The MTP head and the drafters that load without a flag.
std::string drafters_text(const hub::ModelSummary& summary, bool has_head) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"eagle3", "EAGLE-3"}, {"dflash", "DFlash"}, {"assistant", "assistant"}, {"model", "a smaller model"}};
  std::string text = has_head ? "MTP head" : "";
  const Result<std::vector<DraftFolder>> folders = found_drafters(summary.directory);
  if (!folders.ok()) return text;  // loading reports it
  for (const DraftFolder& folder : *folders) {
    const auto* named =
        std::ranges::find(kNames, folder.name, &std::pair<std::string_view, std::string_view>::first);
    if (named == std::end(kNames)) continue;
    text += (text.empty() ? "" : ", ") + std::string(named->second);
  }
  return text;
}

/// The tier of a complete model of a family: verified, compatible, or without the head of its family.
void assess_whole(const hub::ModelSummary& summary, const std::string& name, Assessment& found) {
  found.drafters = drafters_text(summary, found.has_head);
  if (found.verified = find_verified(summary.identity); found.verified) {
    found.tier = Tier::kVerified;
    found.reason =
        fmt::format("verify compared {} tokens on this machine, none differed", found.verified->compared);
  } else if (found.has_head || !may_have_head(found.family)) {
    found.tier = Tier::kCompatible;
    found.reason = found.has_head ? "the family and the format are supported, and it has an MTP head"
                                  : "the family and the format are supported";
    found.next = name.empty() ? "foretoken verify" : "foretoken verify --model " + name;
  } else {
    found.tier = Tier::kNoHead;
    found.reason = summary.head_in_config ? "the configuration names an MTP head whose tensors are absent"
                                          : "it has no MTP head";
    found.next = fmt::format("foretoken inspect {} lists models with a compatible MTP head",
                             name.empty() ? summary.directory : name);
  }
}

/// By its architecture alone; its tensors are read when it is loaded.
Assessment assess_gguf(const hub::ModelSummary& summary, const std::string& name, bool pulled) {
  Assessment found;
  if (!summary.complete()) {
    found.tier = Tier::kIncomplete, found.reason = summary.problem;
    if (pulled) found.next = "foretoken pull " + name;
    return found;
  }
  const Result<std::string> family = gguf::family_of(summary.architecture, summary.directory);
  if (!family.ok()) {
    found.reason = family.error().message;
    return found;
  }
  found.family = *family, found.has_head = !summary.head_file.empty();
  assess_whole(summary, name, found);
  return found;
}

}  // namespace

bool may_have_head(std::string_view family) {
  return std::ranges::any_of(families(), [&](const Family* each) {
    return each->name == family && each->synthetic->head != nullptr;
  });
}

std::string_view tier_name(Tier tier) {
  switch (tier) {
    case Tier::kVerified:
      return "verified";
    case Tier::kCompatible:
      return "compatible";
    case Tier::kNoHead:
      return "compatible, no head";
    case Tier::kConvertible:
      return "convertible";
    case Tier::kIncomplete:
      return "incomplete";
    case Tier::kIncompatible:
      break;
  }
  return "incompatible";
}

Assessment assess(const hub::ModelSummary& summary, const std::string& name, bool pulled) {
  Assessment found;
  if (summary.gguf) return assess_gguf(summary, name, pulled);
  if (summary.config.empty() || summary.model_type.empty()) {
    found.tier = Tier::kIncomplete;
    found.reason = summary.problem.empty() ? "config.json names no model_type" : summary.problem;
    if (pulled) found.next = "foretoken pull " + name;
    return found;
  }
  const Result<FamilyMatch> match = family_of(summary);
  if (!match.ok()) {
    found.tier = Tier::kIncompatible;
    found.reason = match.error().message;
    return found;
  }
  found.family = match->family->name;
  found.has_head = !summary.head_file.empty() || !kept_head(summary.directory).directory.empty();
  if (!summary.complete()) {
    found.tier = Tier::kIncomplete;
    found.reason = summary.problem;
    found.next = pulled ? "foretoken pull " + name : "fetch the folder again";
  } else if (summary.foreign) {
    found.tier = Tier::kConvertible;
    found.reason =
        fmt::format("its weights are {}, a format that does not run directly", summary.quantisation);
    found.next = fmt::format("foretoken convert {} OUT", name.empty() ? summary.directory : name);
  } else {
    assess_whole(summary, name, found);
  }
  return found;
}

}  // namespace ft::cli
