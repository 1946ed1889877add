# cmake -DSOURCE_DIR=... -DOUTPUT=... -P WriteCommit.cmake
#
# Writes a source file with the commit that SOURCE_DIR is at, if that has changed:
# run at every build, it makes the compiler work only after a commit. Without git, or
# of sources without their repository, the commit is unknown.

# A folder of an unpacked archive may lie in the repository of something else.
set(commit "")
find_program(GIT git)
if(GIT AND EXISTS "${SOURCE_DIR}/.git")
  execute_process(
    COMMAND "${GIT}" --no-optional-locks describe --always --abbrev=12 --dirty --exclude=*
    WORKING_DIRECTORY "${SOURCE_DIR}"
    OUTPUT_VARIABLE commit
    OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_QUIET)
endif()
if(NOT commit)
  set(commit "unknown")
endif()
string(REPLACE "-dirty" ", modified" commit "${commit}")

configure_file("${CMAKE_CURRENT_LIST_DIR}/commit.cpp.in" "${OUTPUT}" @ONLY)
