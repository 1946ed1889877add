# How Spillway itself is compiled. Both targets are linked only inside the build
# (PRIVATE $<BUILD_INTERFACE:...>), so that users of the package choose their own.

set(CMAKE_CXX_EXTENSIONS OFF)

# The program and the tests side by side, whatever folder they come from.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")

# Results must not depend on the compiler's freedom with floating point.
string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type)
if("${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${build_type}}" MATCHES
   "-ffast-math|-Ofast|-funsafe-math-optimizations|-fassociative-math")
  message(FATAL_ERROR "Spillway promises reproducible results and is not built with ${CMAKE_MATCH_0}")
endif()

find_program(SPILLWAY_CCACHE ccache)
mark_as_advanced(SPILLWAY_CCACHE)
if(SPILLWAY_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${SPILLWAY_CCACHE}")
endif()

add_library(spillway_settings INTERFACE)
target_compile_features(spillway_settings INTERFACE cxx_std_20)
target_compile_options(spillway_settings INTERFACE
  # No fused multiply-add: the same bytes out on every machine.
  -ffp-contract=off
  # Assertions and debug information name files from the repository root, so no
  # path of the building machine ends up in what is installed.
  "-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=")

add_library(spillway_warnings INTERFACE)
target_compile_options(spillway_warnings INTERFACE
  -Wall
  -Wextra
  -Wpedantic
  -Wconversion
  -Wsign-conversion
  -Wshadow
  -Wold-style-cast
  # g++ 12 reports overlapping copies inside std::string's own operator+.
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
  $<$<BOOL:${SPILLWAY_WERROR}>:-Werror>)
