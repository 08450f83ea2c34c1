#include "cli/library/head_donors.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>

#include "base/text_file.h"
#include "cli/library/library.h"
#include "cli/library/shipped_model.h"
#include "hub/repository.h"
#include "models/family.h"

namespace ft::cli {
namespace {

constexpr std::size_t kMaxCardBytes = std::size_t{4} << 20;

bool same_sizes(const ModelFacts& a, const ModelFacts& b) {
  return a.family == b.family && a.vocabulary == b.vocabulary && a.width == b.width && a.layers == b.layers &&
         a.heads == b.heads && a.kv_heads == b.kv_heads && a.head_dim == b.head_dim &&
         a.intermediate == b.intermediate && a.experts == b.experts;
}

bool could_give(const KnownModel& known, const Model& model) {
  std::error_code ignored;
  if (known.summary.head_file.empty() || !known.assessment.runs() ||
      std::filesystem::equivalent(known.found.directory, model.directory, ignored)) {
    return false;
  }
  const Result<format::ConfigFiles> files =
      format::ConfigFiles::parse(known.summary.config, known.summary.generation, known.summary.runtime,
                                 known.summary.directory + "/config.json");
  if (!files.ok()) return false;
  const Result<FamilyMatch> match = read_config(*files);
  if (!match.ok()) return false;
  ModelFacts facts = match->config->facts();
  facts.family = match->family->name;
  return same_sizes(facts, model.facts);
}

std::string trimmed(std::string_view text) {
  const auto end = text.find_last_not_of(" \t\r\"'");
  const auto begin = text.find_first_not_of(" \t-\"'[");
  if (begin == std::string_view::npos || end < begin) return {};
  std::string word(text.substr(begin, end - begin + 1));
  return word.substr(0, word.find_first_of(",]\"'"));
}

}  // namespace

std::string base_model_of(const std::string& card) {
  constexpr std::string_view kKey = "base_model:";
  if (!card.starts_with("---\n")) return {};
  const std::string head = card.substr(0, card.find("\n---", 4));
  const std::size_t at = head.find("\n" + std::string(kKey));
  if (at == std::string::npos) return {};
  const std::size_t value = at + 1 + kKey.size();
  std::string named = trimmed(std::string_view(head).substr(value, head.find('\n', value) - value));
  // A list has its first entry in the next line.
  if (const std::size_t next = head.find('\n', value); named.empty() && next != std::string::npos)
    named = trimmed(std::string_view(head).substr(next + 1, head.find('\n', next + 1) - next - 1));
  return hub::looks_like_repository(named) ? named : std::string();
}

std::vector<std::string> head_donors(const Model& model, const std::string& name) {
  std::vector<std::string> donors;
  if (!may_have_head(model.facts.family)) return donors;
  const std::string onto = name.empty() ? model.directory : name;
  if (const Result<Library> library = read_library(); library.ok()) {
    for (const KnownModel& known : library->models) {
      if (known.found.place != kShippedPlace && could_give(known, model))  // the shipped model gives none
        donors.push_back(fmt::format("foretoken graft --head {} --onto {}", known.found.name, onto));
    }
  }
  if (!donors.empty()) return donors;
  const Result<std::string> card =
      read_text_file((std::filesystem::path(model.directory) / "README.md").string(), kMaxCardBytes);
  const std::string base = card.ok() ? base_model_of(*card) : "";
  if (!base.empty()) donors.push_back(fmt::format("foretoken graft --head {} --onto {}", base, onto));
  return donors;
}

}  // namespace ft::cli
