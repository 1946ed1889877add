# spillway_add_library(<name>
#   SOURCES <file>...     .cpp files of the current folder
#   HEADERS <file>...     .hpp files of the current folder, installed with the library
#   [PUBLIC <target>...]  libraries that the headers use
#   [PRIVATE <target>...] libraries that only the .cpp files use
# )
#
# Makes the static library spillway_<name>, known as Spillway::<name> here and
# to users of the installed package. Its only include directory is the root of
# the repository.
function(spillway_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;HEADERS;PUBLIC;PRIVATE")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "spillway_add_library(${name}): unexpected ${arg_UNPARSED_ARGUMENTS}")
  endif()

  set(target spillway_${name})
  add_library(${target} STATIC ${arg_SOURCES})
  add_library(Spillway::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_sources(${target} PUBLIC
    FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}" FILES ${arg_HEADERS})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_link_libraries(${target}
    PUBLIC ${arg_PUBLIC}
    PRIVATE ${arg_PRIVATE}
            $<BUILD_INTERFACE:spillway_settings>
            $<BUILD_INTERFACE:spillway_warnings>)

  # Headers under include/spillway keep their folders: #include "sim/base/units.hpp"
  # reads the same in the repository and with the installed package.
  install(TARGETS ${target}
    EXPORT SpillwayTargets
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/spillway")
endfunction()
