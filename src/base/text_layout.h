// Text that fits the width of a terminal, tables, and figures with units. Widths are in columns, one for each
// character of UTF-8 and none for a colour ("ESC [ ... m").
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ft {

std::size_t text_width(std::string_view text);

/// Lines longer than `columns` are broken between words. The rest of a line begins below its description,
/// which two spaces or more precede, or below its first word. A word that is too long stays whole.
std::string wrapped_text(std::string_view text, std::size_t columns);

/// The beginning of a name, "..." and its last eighth in `columns`, or the whole name if it fits: a model's
/// name begins with its maker and size and ends with its quantisation.
std::string shortened(const std::string& text, std::size_t columns);

/// Columns padded to their widest cell; the first row is the heading.
std::string table_text(const std::vector<std::vector<std::string>>& rows);

/// The same in at most `columns`: the columns of `spare` are left out in that order until the table fits;
/// then the cells of the first column are shortened, to at least 12 characters.
std::string fitted_table(std::vector<std::vector<std::string>> rows, std::vector<std::size_t> spare,
                         std::size_t columns);

/// "1.5 GB"; decimal units.
std::string bytes_text(double bytes);

/// Text that is safe in HTML and in attributes.
std::string escaped(std::string_view text);

}  // namespace ft
