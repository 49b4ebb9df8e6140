// The status page as it is served: one file, with everything in it. The build makes the text of status_page.html.
#include <status_page.inc>
#include <string_view>

#include "weft/server/stats_collector.h"

namespace weft {

const std::string_view kStatusPage = kStatusPageText;

}  // namespace weft
