# The program, its data and the package files; libraries and headers are
# installed where they are defined.
include(CMakePackageConfigHelpers)

# The program looks for ../share/spillway next to its own folder, so these two
# are fixed and an installed tree may be moved as a whole.
install(TARGETS spillway RUNTIME DESTINATION bin)
foreach(folder IN ITEMS
    hw_models/calibrated
    hw_models/catalog
    hw_models/tables
    workloads/catalog
    workloads/frameworks
    workloads/scenarios
    results/reference
    results/trace_formats)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/${folder}/" DESTINATION "share/spillway/${folder}")
endforeach()

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Spillway")
configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/SpillwayConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/SpillwayConfig.cmake"
  INSTALL_DESTINATION "${package_dir}"
  NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may change interfaces.
write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/SpillwayConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/SpillwayConfig.cmake"
  "${PROJECT_BINARY_DIR}/SpillwayConfigVersion.cmake"
  DESTINATION "${package_dir}")
install(EXPORT SpillwayTargets NAMESPACE Spillway:: DESTINATION "${package_dir}")

install(FILES "${PROJECT_SOURCE_DIR}/README.md" DESTINATION share/doc/spillway)
if(EXISTS "${PROJECT_SOURCE_DIR}/LICENSE")
  install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION share/doc/spillway)
endif()
