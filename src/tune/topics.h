// Built-in prompts: forms of questions and tasks, filled with topics. Held-out prompts have topics and tasks
// of their own. A prompt follows from seed and number alone.
#pragma once

#include <cstdint>
#include <string>

namespace ft::tune {

std::string template_prompt(std::uint64_t seed, std::int64_t index, bool held_out);
/// Changes with the lists.
std::string topics_identity();

}  // namespace ft::tune
