// Merges equal rules of a Lark grammar into one: tools of one server have the same parameters, and
// a grammar's size and compile time depend on its rules. Pure; at most 16 passes over the text.
#pragma once

#include <string>
#include <string_view>

namespace ft {

/// `lark` has one rule or terminal per line, `name: expression`. Of rules with the same expression the first
/// one stays, and its name replaces the others'. A rule that refers to itself is compared as such. Lines with
/// attributes, `name[...]: expression`, stay.
std::string shared_lark_rules(std::string_view lark);

/// A grammar's source as llguidance reads it: DEL, which texts of a schema may hold, is escaped.
std::string readable_lark(std::string source);

}  // namespace ft
