#include "cli/commands/doctor_drafters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands/inspection.h"
#include "cli/commands/loading.h"
#include "cli/commands/model_texts.h"
#include "cli/library/heads.h"
#include "drafters/registry.h"

namespace ft::cli {
namespace {

using Kind = Finding::Kind;

/// A loader's error, which ends with the next step.
Finding problem(const DraftFolder& folder, const Error& error) {
  const std::string about = fmt::format("drafter {}: ", folder.name);
  const std::string sentence = error.message.starts_with("drafter ") ? error.message : about + error.message;
  const std::size_t cut = sentence.rfind("; ");
  if (cut == std::string::npos) return {Kind::kProblem, sentence, "name another folder with --drafter"};
  return {Kind::kProblem, sentence.substr(0, cut), sentence.substr(cut + 2)};
}

/// "1771 of 5312 tokens".
std::string vocabulary_text(const DraftNetwork& network, const Model& target) {
  std::int64_t columns = target.facts.vocabulary;
  for (const Instruction& instruction : network.programs.back().instructions()) {
    if (const auto* logits = std::get_if<Logits>(&instruction)) columns = logits->columns();
  }
  return columns == target.facts.vocabulary
             ? fmt::format("all {} tokens", columns)
             : fmt::format("{} of {} tokens", columns, target.facts.vocabulary);
}

/// "DFlash2, 7 drafts a pass, " of a block drafter.
std::string design_text(const DraftNetwork& network) {
  if (network.design.empty()) return "";
  if (network.most_drafts == 0) return network.design + ", ";
  return fmt::format("{}, {} drafts a pass, ", network.design, network.most_drafts);
}

Finding check_drafter(const std::string& directory, const DraftFolder& folder) {
  LoadOptions options;
  options.drafters = {folder};
  const Result<Model> model = load_model(directory, options);
  if (!model.ok()) return problem(folder, model.error());
  if (folder.name == DrafterKind::kModel.name()) {
    const Result<Tokenizer> own = read_tokenizer(directory);
    if (!own.ok()) return problem(folder, own.error());
    if (const Status same = check_tokens(folder.directory, *own); !same.ok())
      return problem(folder, same.error());
  }
  const DraftNetwork& network = model->drafters.front();
  const std::string reads = network.captures.layers.empty()
                                ? ""
                                : fmt::format(", reads layers {} of the model, counted from 0",
                                              fmt::join(network.captures.layers, ", "));
  return {Kind::kGood,
          fmt::format("the drafter {} of {} can draft from {} ({}{} parameters, {}{})", folder.name,
                      folder.directory, vocabulary_text(network, *model), design_text(network),
                      count_text(network.parameters), network.quantisation, reads),
          ""};
}

}  // namespace

void check_drafters(const std::string& directory, std::span<const DraftFolder> named,
                    std::vector<Finding>& findings) {
  std::vector<DraftFolder> folders(named.begin(), named.end());
  if (folders.empty()) {
    Result<std::vector<DraftFolder>> found = found_drafters(directory);
    if (!found.ok()) return findings.push_back({Kind::kProblem, found.error().message, ""});
    folders = std::move(*found);
  }
  for (const DraftFolder& folder : folders) findings.push_back(check_drafter(directory, folder));
}

}  // namespace ft::cli
