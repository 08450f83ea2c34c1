// Replaces a small file in one step: others see the old one or the new one, never a part. It is not synced,
// so the content should have a checksum that detects a file torn by a crash.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace ft {

/// Makes the folder if it is absent; the file is readable by its owner alone. kIo with the path and the
/// cause.
Status replace_file(const std::string& path, std::string_view content);

}  // namespace ft
