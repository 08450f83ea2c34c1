#include "cli/commands/start_choice.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text_layout.h"
#include "cli/commands/model_path.h"
#include "cli/library/catalogue.h"

namespace ft::cli {
namespace {

constexpr std::size_t kMaxToFetch = 8;  // with the other rows, a screen of 24 lines

/// Memory that the model of this offer takes.
std::int64_t needed(const ModelOffer& offer) {
  return offer.memory > 0 ? offer.memory : memory_for(offer.bytes);
}

bool fits(const ModelOffer& offer, std::int64_t free_bytes) { return needed(offer) <= free_bytes; }

/// Nothing if the model fits the memory.
std::string fit_text(const ModelOffer& offer, std::int64_t free_bytes) {
  const std::int64_t lacking = needed(offer) - free_bytes;
  if (lacking <= 0) return "";
  return fmt::format("needs {} more memory, ", bytes_text(static_cast<double>(lacking)));
}

/// The speed over plain decoding that `graft` and conversions with the head have reached; the catalogue has a
/// figure for each of its models.
constexpr double kHeadDrafts = 1.5, kLookupDrafts = 1.1;

std::string rate_text(double rate) {
  return rate < 10 ? fmt::format("{:.1f}", rate) : fmt::format("{:.0f}", rate);
}

/// "61 tokens/s, 92 drafted, "; empty if nothing is known.
std::string speed_text(double plain, double drafted) {
  if (plain <= 0) return "";
  if (drafted < 1) return "under 1 token/s, ";
  return fmt::format("{} tokens/s, {} drafted, ", rate_text(plain), rate_text(drafted));
}

ModelOffer offer_here(const KnownModel& model, std::int64_t free_bytes, double read_gb_per_s) {
  const Assessment& found = model.assessment;
  ModelOffer offer{ModelOffer::Kind::kHere, model.found.name, model.summary.bytes, ""};
  const double plain = expected_speed(model.summary.bytes, read_gb_per_s);
  offer.speed = plain * (found.has_head ? kHeadDrafts : kLookupDrafts);
  offer.text = fmt::format("{:>8}  {}{}{}{}  {}", bytes_text(static_cast<double>(model.summary.bytes)),
                           fit_text(offer, free_bytes), speed_text(plain, offer.speed),
                           found.verified ? "verified, " : "",
                           found.has_head ? "includes MTP head" : "n-gram lookup", model.found.place);
  return offer;
}

ModelOffer offer_to_fetch(const CatalogueEntry& entry, double read_gb_per_s) {
  ModelOffer offer{ModelOffer::Kind::kPull, entry.repository, entry.bytes, ""};
  offer.label = entry.name, offer.memory = entry.memory_8k;
  const double plain = expected_speed(entry.token_bytes, read_gb_per_s);
  offer.speed = plain * entry.drafted;
  offer.text = fmt::format(
      "{:>8}  {}{}{}", entry.bytes > 0 ? bytes_text(static_cast<double>(entry.bytes)) : "?",
      speed_text(plain, offer.speed), entry.drafter, entry.licence.empty() ? "" : ", " + entry.licence);
  return offer;
}

/// The models that fit. With a measured speed, the largest models at a comfortable speed come first, since
/// the fastest of all is always the smallest; then the others, the fastest first. One that would take nearly
/// all of the free memory is among the others.
std::vector<ModelOffer> offers_to_fetch(const std::vector<const KnownModel*>& here, std::int64_t free_bytes,
                                        double read_gb_per_s) {
  constexpr double kComfortable = 10;       // tokens/s: faster than most people read
  constexpr std::int64_t kSpareShare = 10;  // a tenth of the free memory for other programs
  std::vector<ModelOffer> offers;
  for (const CatalogueEntry& entry : catalogue()) {
    const bool is_here = std::ranges::any_of(
        here, [&](const KnownModel* model) { return model->found.name == entry.repository; });
    if (!is_here && entry.memory_8k <= free_bytes) offers.push_back(offer_to_fetch(entry, read_gb_per_s));
  }
  if (read_gb_per_s <= 0) return offers;
  const auto is_comfortable = [&](const ModelOffer& offer) {
    return offer.speed >= kComfortable && offer.memory <= free_bytes - free_bytes / kSpareShare;
  };
  std::ranges::stable_sort(offers, [&](const ModelOffer& a, const ModelOffer& b) {
    const bool comfortable_a = is_comfortable(a), comfortable_b = is_comfortable(b);
    if (comfortable_a != comfortable_b) return comfortable_a;
    return comfortable_a ? a.bytes > b.bytes : a.speed > b.speed;
  });
  return offers;
}

}  // namespace

Room room_for_models(std::int64_t free_bytes, std::string_view gpu, std::int64_t gpu_bytes) {
  if (gpu != "metal") return {free_bytes, ""};
  if (gpu_bytes <= 0)
    return {free_bytes, "The GPU is not used; `foretoken doctor --backend metal` shows why. "};
  return {
      std::min(free_bytes, gpu_bytes),
      fmt::format("The GPU may use {}. Metal has not been measured; `foretoken verify` checks this machine. ",
                  bytes_text(static_cast<double>(gpu_bytes)))};
}

std::int64_t memory_for(std::int64_t bytes) {
  constexpr std::int64_t kState = 500'000'000;  // keys, values, activations at a few thousand tokens
  return bytes + bytes / 10 + std::min(bytes, kState);
}

double expected_speed(std::int64_t token_bytes, double read_gb_per_s) {
  constexpr double kShare = 0.75;
  return token_bytes > 0 ? kShare * read_gb_per_s * 1e9 / static_cast<double>(token_bytes) : 0;
}

std::vector<ModelOffer> offer_models(const Library& library, std::int64_t free_bytes, double read_gb_per_s) {
  std::vector<const KnownModel*> models;
  for (const KnownModel& model : library.models) {
    const bool shipped = model.found.place == kShippedPlace;  // it has a separate row
    if (model.assessment.runs() && !shipped) models.push_back(&model);
  }
  std::ranges::stable_sort(models, [&](const KnownModel* a, const KnownModel* b) {
    const bool fits_a = memory_for(a->summary.bytes) <= free_bytes,
               fits_b = memory_for(b->summary.bytes) <= free_bytes;
    if (fits_a != fits_b) return fits_a;
    if (a->assessment.tier != b->assessment.tier) return a->assessment.tier < b->assessment.tier;
    return a->summary.bytes > b->summary.bytes;
  });
  std::vector<ModelOffer> offers;
  for (const KnownModel* model : models) offers.push_back(offer_here(*model, free_bytes, read_gb_per_s));
  std::ranges::stable_sort(offers, [&](const ModelOffer& a, const ModelOffer& b) {
    const bool fits_a = fits(a, free_bytes), fits_b = fits(b, free_bytes);
    return fits_a != fits_b ? fits_a : a.speed > b.speed;
  });
  std::vector<ModelOffer> fetched = offers_to_fetch(models, free_bytes, read_gb_per_s);
  if (fetched.size() > kMaxToFetch) fetched.resize(kMaxToFetch);
  offers.insert(offers.end(), fetched.begin(), fetched.end());
  offers.push_back({ModelOffer::Kind::kShipped, "", 0, "the shipped demo model, 33 million parameters"});
  offers.push_back({ModelOffer::Kind::kOther, "", 0, "another: a folder, a repository ORG/NAME or a name"});
  return offers;
}

std::vector<MenuRow> offer_rows(const std::vector<ModelOffer>& offers) {
  std::vector<MenuRow> rows;
  std::string heading;
  for (const ModelOffer& offer : offers) {
    std::string kind = offer.kind == ModelOffer::Kind::kHere   ? "here"
                       : offer.kind == ModelOffer::Kind::kPull ? "to fetch"
                                                               : "or";
    if (offer.speed > 0) kind += "  (estimated speed, plain and drafted)";
    if (kind != heading) rows.push_back({heading = kind, true});
    rows.push_back({offer.text, false, offer.label.empty() ? offer.name : offer.label});
  }
  return rows;
}

std::string not_offered(const std::vector<ModelOffer>& offers, std::int64_t free_bytes) {
  std::vector<std::string> fitting, larger;
  for (const CatalogueEntry& entry : catalogue()) {
    if (std::ranges::find(offers, entry.repository, &ModelOffer::name) != offers.end()) continue;
    const std::int64_t lacking = entry.memory_8k - free_bytes;
    if (lacking <= 0) {
      fitting.push_back(entry.name);
    } else {
      larger.push_back(fmt::format("{} ({} more)", entry.name, bytes_text(static_cast<double>(lacking))));
    }
  }
  std::string text;
  if (!fitting.empty()) text += fmt::format(" By name under \"another\": {}.", fmt::join(fitting, ", "));
  if (!larger.empty()) text += fmt::format(" Not enough memory: {}.", fmt::join(larger, ", "));
  return text;
}

std::string where_text(const LastStart& choice) {
  if (choice.where == "chat") return "chat here";
  std::string text = choice.where == "page"  ? "the page in the browser"
                     : choice.client.empty() ? "serve"
                                             : "serve for " + choice.client;
  return choice.max ? text + ", Max mode" : text;
}

std::string model_text(const std::string& model) {
  return model.empty() ? std::string(kShippedModel) : with_tilde(model);
}

const ModelOffer* usual_offer(const std::vector<ModelOffer>& offers, std::int64_t free_bytes,
                              bool may_fetch) {
  for (const ModelOffer::Kind kind : {ModelOffer::Kind::kHere, ModelOffer::Kind::kPull}) {
    if (kind == ModelOffer::Kind::kPull && !may_fetch) continue;
    const auto found = std::ranges::find_if(
        offers, [&](const ModelOffer& offer) { return offer.kind == kind && fits(offer, free_bytes); });
    if (found != offers.end()) return &*found;
  }
  return nullptr;
}

}  // namespace ft::cli
