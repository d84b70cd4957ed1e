// Without CRIA_WITH_LIBEDIT.
#include "platforms/hosted/cli/line_editor.h"

namespace cria::hosted {

const char* line_editor_name() { return "none"; }

std::unique_ptr<LineEditor> make_line_editor() { return nullptr; }

}  // namespace cria::hosted
