# Installs the build tree, moves the installed tree, and uses it from its new
# place: first the program, then the libraries through the consumer project.

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "exit ${result} from: ${command}\n${output}")
  endif()
endfunction()

set(work "${BUILD_DIR}/package-test")
set(prefix "${work}/moved")
file(REMOVE_RECURSE "${work}")
run("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --config "${CONFIG}" --prefix "${work}/first")
file(RENAME "${work}/first" "${prefix}")

# Nothing that is installed may remember the tree it was built from. (Sanitizers
# record full paths whatever they are told; their builds are not for installing.)
if(NOT CXX_FLAGS MATCHES "-fsanitize")
  file(GLOB_RECURSE installed LIST_DIRECTORIES false "${prefix}/*")
  foreach(path IN LISTS installed)
    execute_process(COMMAND grep -qwF "${SOURCE_DIR}" "${path}" RESULT_VARIABLE result)
    if(result EQUAL 0)
      message(SEND_ERROR "${path} contains ${SOURCE_DIR}")
    elseif(NOT result EQUAL 1)
      message(SEND_ERROR "cannot search ${path}: ${result}")
    endif()
  endforeach()
endif()

run("${CMAKE_COMMAND}" -E chdir "${work}" "${prefix}/bin/spillway" compare deepseek-v3-gb200)
# A hardware file that extends another.
run("${CMAKE_COMMAND}" -E chdir "${work}" "${prefix}/bin/spillway" catalog h200)

run("${CMAKE_COMMAND}"
  -S "${SOURCE_DIR}/tests/consumer"
  -B "${work}/build"
  -G "${GENERATOR}"
  "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}"
  "-DCMAKE_CXX_FLAGS=${CXX_FLAGS}"
  "-DCMAKE_BUILD_TYPE=${CONFIG}"
  "-DCMAKE_PREFIX_PATH=${prefix}"
  "-DEXPECTED_VERSION=${VERSION}")
run("${CMAKE_COMMAND}" --build "${work}/build" --config "${CONFIG}")
run("${work}/build/consumer")
