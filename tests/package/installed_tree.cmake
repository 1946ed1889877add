# Installs the build tree, moves the installed tree, and uses it from its new place.
include("${CMAKE_CURRENT_LIST_DIR}/use_tree.cmake")

set(work "${BUILD_DIR}/package-test/tree")
file(REMOVE_RECURSE "${work}")
run("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --config "${CONFIG}" --prefix "${work}/first")
file(RENAME "${work}/first" "${work}/moved")
use_tree("${work}/moved" "${work}")
file(REMOVE_RECURSE "${work}") # large with debug information
