#include "hub/transport.h"

namespace ft::hub {

std::string_view ResponseHeader::header(std::string_view name) const {
  std::string_view value;
  for (const auto& [key, text] : headers) {
    if (key == name) value = text;
  }
  return value;
}

}  // namespace ft::hub
