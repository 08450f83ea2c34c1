// A build without the page: see webui/CMakeLists.txt.
#include "server/ui_asset.h"

namespace ft {

const UiAsset* ui_asset() { return nullptr; }

}  // namespace ft
