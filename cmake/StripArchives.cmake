# Run by CPack on what it is about to pack. CMake itself strips programs, but no static
# libraries, whose debug information would be most of a package.
file(GLOB_RECURSE archives "${CPACK_TEMPORARY_DIRECTORY}/*.a")
execute_process(
  COMMAND "${CPACK_SPILLWAY_STRIP}" --strip-debug ${archives}
  COMMAND_ERROR_IS_FATAL ANY)
