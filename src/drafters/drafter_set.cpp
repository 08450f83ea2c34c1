#include "drafters/drafter_set.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "drafters/guarded.h"

namespace ft {

DrafterSet::DrafterSet(std::vector<Drafter*> members, int slots, bool round_robin)
    : members_(std::move(members)),
      round_robin_(round_robin),
      turns_(static_cast<std::size_t>(slots)),
      open_(static_cast<std::size_t>(slots)) {
  if (round_robin) name_ = kRoundRobin;
  for (const Drafter* member : members_) {
    if (round_robin) break;
    name_ += name_.empty() ? "" : "+";
    name_ += member->name();
  }
  for (auto& list : open_) list.reserve(members_.size());
}

Status DrafterSet::open(int slot, std::int64_t position) {
  close(slot);
  for (Drafter* member : members_) {
    FT_TRY(member->open(slot, position));
    of(slot).push_back(member);
  }
  return {};
}

void DrafterSet::close(int slot) {
  for (Drafter* member : of(slot)) member->close(slot);
  of(slot).clear();
}

void DrafterSet::set_positions(int slot, const PositionMap& positions) {
  for (Drafter* member : of(slot)) member->set_positions(slot, positions);
}

bool DrafterSet::reads_rows() const {
  return std::ranges::any_of(members_, [](const Drafter* member) { return member->reads_rows(); });
}

/// An error only if no member is left.
Status DrafterSet::observe(int slot, std::span<const std::int32_t> tokens, bool prompt) {
  std::vector<Drafter*>& list = of(slot);
  for (std::size_t i = 0; i < list.size();) {
    Drafter* const member = list[i];
    const Status seen = guarded([&] { return member->observe(slot, tokens, prompt); });
    if (seen.ok()) {
      ++i;
    } else if (!drop_member(slot, *member)) {
      return seen;
    }
  }
  return {};
}

std::span<Drafter* const> DrafterSet::members(int slot) const {
  const std::span<Drafter* const> all = of(slot);
  if (!round_robin_ || all.empty()) return all;
  return all.subspan(turns_[static_cast<std::size_t>(slot)]++ / 2 % all.size(), 1);
}

int DrafterSet::plan(const DraftSlot& slot) {
  int most = 0;
  for (Drafter* member : of(slot.id)) most = std::max(most, member->plan(slot));
  return most;
}

int DrafterSet::draft_cost(int depth) const {
  int most = 0;
  for (const Drafter* member : members_) most = std::max(most, member->draft_cost(depth));
  return most;
}

Status DrafterSet::propose(std::span<DraftSlot*> slots, std::span<std::int32_t> round_tokens) {
  if (slots.empty()) return {};
  return members_.front()->propose(slots, round_tokens);
}

bool DrafterSet::drop_member(int slot, Drafter& member) {
  member.close(slot);
  std::erase(of(slot), &member);
  return !of(slot).empty();
}

void DrafterSet::learn(std::span<const std::int32_t> tokens, std::uint64_t owner) {
  for (Drafter* member : members_) member->learn(tokens, owner);
}

Drafter* DrafterSet::member(int number) const {
  const auto found = std::ranges::find(members_, number, &Drafter::number);
  return found != members_.end() ? *found : nullptr;
}

/// The memories of all members; blocks() belong to the first.
struct DrafterSet::Memory final : DraftMemory {
  explicit Memory(int own) : number(own) {}
  int drafter() const override { return number; }
  std::int64_t low() const override {
    std::int64_t low = 1;
    for (const auto& part : parts) low = std::max(low, part->low());
    return low;
  }
  std::int64_t bytes() const override {
    std::int64_t bytes = 0;
    for (const auto& part : parts) bytes += part->bytes();
    return bytes;
  }
  std::span<const std::int32_t> blocks() const override { return parts.front()->blocks(); }
  const DraftMemory* part(int of_drafter) const override {
    const auto made = [&](const auto& part) { return part->drafter() == of_drafter; };
    const auto found = std::ranges::find_if(parts, made);
    return found != parts.end() ? found->get() : nullptr;
  }
  bool write_to(ByteSink& sink) const override {
    if (!put_value(sink, static_cast<std::uint8_t>(parts.size()))) return false;
    return std::ranges::all_of(parts, [&](const auto& part) {
      return put_value(sink, static_cast<std::uint8_t>(part->drafter())) && part->write_to(sink);
    });
  }

  int number;
  std::vector<std::unique_ptr<DraftMemory>> parts;  // at least one
};

bool DrafterSet::remembers() const {
  return std::ranges::any_of(members_, [](const Drafter* member) { return member->remembers(); });
}

bool DrafterSet::restores(const DraftMemory& memory) const {
  return std::ranges::any_of(members_, [&](const Drafter* member) { return member->restores(memory); });
}

Result<std::unique_ptr<DraftMemory>> DrafterSet::save(int slot) {
  auto memory = std::make_unique<Memory>(number());
  for (Drafter* member : of(slot)) {
    if (!member->remembers()) continue;
    FT_ASSIGN(std::unique_ptr<DraftMemory> part, member->save(slot));
    if (part) memory->parts.push_back(std::move(part));
  }
  if (memory->parts.empty()) return std::unique_ptr<DraftMemory>();
  if (memory->parts.size() == 1) return std::move(memory->parts.front());
  return std::unique_ptr<DraftMemory>(std::move(memory));
}

/// Members without a memory begin anew.
Status DrafterSet::restore(int slot, const DraftMemory& memory, std::int64_t length) {
  close(slot);
  for (Drafter* member : members_) {
    const bool known = member->restores(memory);
    FT_TRY(known ? member->restore(slot, memory, length) : member->open(slot, length));
    of(slot).push_back(member);
  }
  return {};
}

Result<std::unique_ptr<DraftMemory>> DrafterSet::read_memory(ByteSource& source, std::int64_t length) {
  const Error unfit{Code::kCorrupt, "its bytes are not the state of several drafters"};
  std::uint8_t parts = 0;
  if (!get_value(source, parts) || parts == 0 || parts > members_.size()) return unfit;
  auto memory = std::make_unique<Memory>(number());
  for (int i = 0; i < parts; ++i) {
    std::uint8_t of_member = 0;
    if (!get_value(source, of_member)) return unfit;
    Drafter* const found = member(of_member);
    if (found == nullptr || !found->remembers()) return unfit;
    FT_ASSIGN(std::unique_ptr<DraftMemory> part, found->read_memory(source, length));
    memory->parts.push_back(std::move(part));
  }
  return std::unique_ptr<DraftMemory>(std::move(memory));
}

}  // namespace ft
