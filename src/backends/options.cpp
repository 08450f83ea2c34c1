#include "backends/options.h"

#include <algorithm>

namespace ft {

BackendSettings::BackendSettings(std::initializer_list<BackendSetting> settings) {
  for (const BackendSetting& setting : settings) set(setting);
}

void BackendSettings::set(BackendSetting setting) {
  std::erase_if(settings_, [&](const BackendSetting& old) { return old.flag == setting.flag; });
  settings_.push_back(std::move(setting));
}

void BackendSettings::remove(std::string_view flag) {
  std::erase_if(settings_, [&](const BackendSetting& old) { return old.flag == flag; });
}

void BackendSettings::require(std::string_view flag) {
  for (BackendSetting& setting : settings_) setting.required |= setting.flag == flag;
}

BackendSettings BackendSettings::optional() const {
  BackendSettings copy = *this;
  for (BackendSetting& setting : copy.settings_) setting.required = false;
  return copy;
}

std::string BackendSettings::value(std::string_view flag, std::string_view usual) const {
  const auto found = std::ranges::find(settings_, flag, &BackendSetting::flag);
  return found == settings_.end() ? std::string(usual) : found->value;
}

}  // namespace ft
