# What the tests of installed trees and packages share. Each is started with
#   BUILD_DIR SOURCE_DIR CONFIG VERSION GENERATOR CXX_COMPILER CXX_FLAGS

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "exit ${result} from: ${command}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# Nothing that is installed may remember the tree it was built from. (Sanitizers
# record full paths whatever they are told; their builds are not for installing.)
function(check_forgets_its_origin prefix)
  if(CXX_FLAGS MATCHES "-fsanitize")
    return()
  endif()
  file(GLOB_RECURSE installed LIST_DIRECTORIES false "${prefix}/*")
  foreach(path IN LISTS installed)
    execute_process(COMMAND grep -qwF "${SOURCE_DIR}" "${path}" RESULT_VARIABLE result)
    if(result EQUAL 0)
      message(SEND_ERROR "${path} contains ${SOURCE_DIR}")
    elseif(NOT result EQUAL 1)
      message(SEND_ERROR "cannot search ${path}: ${result}")
    endif()
  endforeach()
endfunction()

# What shells and man look for is there, and is what the program says.
function(check_pages prefix)
  foreach(page IN ITEMS
      "bash-completion/completions/spillway=completion\;bash"
      "zsh/site-functions/_spillway=completion\;zsh"
      "fish/vendor_completions.d/spillway.fish=completion\;fish"
      "man/man1/spillway.1=man")
    string(REGEX MATCH "(.*)=(.*)" page "${page}")
    set(arguments "${CMAKE_MATCH_2}")
    file(READ "${prefix}/share/${CMAKE_MATCH_1}" written)
    run("${prefix}/bin/spillway" ${arguments})
    if(NOT written STREQUAL output)
      message(SEND_ERROR "${prefix}/share/${CMAKE_MATCH_1} is not: spillway ${arguments}")
    endif()
  endforeach()
endfunction()

# From another folder, and through a link as in /usr/local/bin.
function(check_program prefix work)
  file(MAKE_DIRECTORY "${work}/elsewhere")
  file(CREATE_LINK "${prefix}/bin/spillway" "${work}/elsewhere/spillway" SYMBOLIC)
  foreach(program IN ITEMS "${prefix}/bin/spillway" "./spillway")
    run("${CMAKE_COMMAND}" -E chdir "${work}/elsewhere" "${program}" compare deepseek-v3-gb200)
    # A hardware file that extends another.
    run("${CMAKE_COMMAND}" -E chdir "${work}/elsewhere" "${program}" catalog h200)
  endforeach()
  run("${prefix}/bin/spillway" --version)
  if(NOT output MATCHES "^spillway ${VERSION} [(]commit ")
    message(SEND_ERROR "--version says: ${output}")
  endif()
endfunction()

# A project of someone else that finds the package below `prefix`.
function(check_libraries prefix work)
  run("${CMAKE_COMMAND}"
    -S "${SOURCE_DIR}/tests/consumer"
    -B "${work}/build"
    -G "${GENERATOR}"
    "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}"
    "-DCMAKE_CXX_FLAGS=${CXX_FLAGS}"
    "-DCMAKE_BUILD_TYPE=${CONFIG}"
    "-DCMAKE_PREFIX_PATH=${prefix}"
    "-DEXPECTED_VERSION=${VERSION}")
  file(STRINGS "${work}/build/CMakeCache.txt" found REGEX "^Spillway_DIR:")
  string(FIND "${found}" "=${prefix}/" position)
  if(position EQUAL -1)
    message(FATAL_ERROR "another package was found: ${found}")
  endif()
  run("${CMAKE_COMMAND}" --build "${work}/build" --config "${CONFIG}")
  run("${work}/build/consumer")
  run("${work}/build/predict" "${prefix}/share/spillway" deepseek-v3-gb200)
endfunction()

function(use_tree prefix work)
  check_forgets_its_origin("${prefix}")
  check_program("${prefix}" "${work}")
  check_pages("${prefix}")
  check_libraries("${prefix}" "${work}")
endfunction()
