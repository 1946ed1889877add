# What the build writes as the commit: of a repository as it is, with changes, and of
# sources that have none, even inside the repository of something else.
include("${CMAKE_CURRENT_LIST_DIR}/use_tree.cmake")

set(work "${BUILD_DIR}/package-test/commit")
file(REMOVE_RECURSE "${work}")
file(MAKE_DIRECTORY "${work}/repository/unpacked")

function(expect folder pattern)
  run("${CMAKE_COMMAND}" "-DSOURCE_DIR=${folder}" "-DOUTPUT=${work}/commit.cpp"
    -P "${SOURCE_DIR}/cmake/WriteCommit.cmake")
  file(READ "${work}/commit.cpp" written)
  if(NOT written MATCHES "source_commit = \"${pattern}\";")
    message(SEND_ERROR "expected ${pattern} in ${folder}, not: ${written}")
  endif()
endfunction()

find_program(GIT git)
if(GIT)
  set(git "${GIT}" -C "${work}/repository" -c user.name=test -c user.email=test@example.org)
  run(${git} init --quiet)
  file(WRITE "${work}/repository/file" "one")
  run(${git} add file)
  run(${git} commit --quiet --no-verify --no-gpg-sign -m one)
  run(${git} rev-parse --short=12 HEAD)
  string(STRIP "${output}" head)
  expect("${work}/repository" "${head}")

  # Where nothing has changed, nothing is compiled anew.
  file(TIMESTAMP "${work}/commit.cpp" before "%s" UTC)
  run("${CMAKE_COMMAND}" -E sleep 1.1)
  expect("${work}/repository" "${head}")
  file(TIMESTAMP "${work}/commit.cpp" after "%s" UTC)
  if(NOT before STREQUAL after)
    message(SEND_ERROR "the same commit was written again")
  endif()

  file(WRITE "${work}/repository/file" "two")
  expect("${work}/repository" "${head}, modified")
endif()
expect("${work}/repository/unpacked" "unknown")
