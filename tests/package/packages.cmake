# Makes the packages of the build tree, unpacks them, and uses what was in them. Not
# compressed, which takes longer than all else.
include("${CMAKE_CURRENT_LIST_DIR}/use_tree.cmake")

set(work "${BUILD_DIR}/package-test/packages")
file(REMOVE_RECURSE "${work}")

function(make_package generator)
  run("${CMAKE_CPACK_COMMAND}"
    -G "${generator}"
    -C "${CONFIG}"
    -B "${work}"
    -D CPACK_DEBIAN_COMPRESSION_TYPE=none
    --config "${BUILD_DIR}/CPackConfig.cmake")
endfunction()

function(check_archive)
  make_package(TGZ)
  file(GLOB archives "${work}/*.tar.gz")
  file(MAKE_DIRECTORY "${work}/archive")
  run("${CMAKE_COMMAND}" -E chdir "${work}/archive" "${CMAKE_COMMAND}" -E tar xf "${archives}")
  # One folder, named as the archive is.
  cmake_path(GET archives FILENAME name)
  string(REPLACE ".tar.gz" "" name "${name}")
  if(NOT name MATCHES "^spillway-${VERSION}-linux-")
    message(SEND_ERROR "the archive is called ${name}")
  endif()
  use_tree("${work}/archive/${name}" "${work}/archive-use")
endfunction()

function(check_field deb field pattern)
  run("${DPKG_DEB}" --field "${deb}" "${field}")
  if(NOT output MATCHES "${pattern}")
    message(SEND_ERROR "${field} of ${deb} is: ${output}")
  endif()
endfunction()

function(check_control deb)
  check_field("${deb}" Package "^spillway\n$")
  check_field("${deb}" Version "^${VERSION}\n$")
  check_field("${deb}" Section "^science\n$")
  check_field("${deb}" Maintainer "<.+@.+>\n$")
  check_field("${deb}" Description "^.+\n .+")
  foreach(library IN ITEMS libboost-program-options libfmt libyaml-cpp libc6 "libstdc[+][+]6")
    check_field("${deb}" Depends "${library}")
  endforeach()
endfunction()

# Everything below /usr, of root, and readable by all.
function(check_contents deb)
  run("${DPKG_DEB}" --contents "${deb}")
  foreach(path IN ITEMS
      bin/spillway
      lib/cmake/Spillway/SpillwayConfig.cmake
      include/spillway/sim/engine/engine.hpp
      share/bash-completion/completions/spillway
      share/doc/spillway/README.md
      share/fish/vendor_completions.d/spillway.fish
      share/man/man1/spillway.1
      share/spillway/workloads/scenarios/deepseek-v3-gb200.yaml
      share/zsh/site-functions/_spillway)
    if(NOT output MATCHES " ./usr/${path}\n")
      message(SEND_ERROR "${deb} has no /usr/${path}")
    endif()
  endforeach()
  string(REGEX REPLACE "\n$" "" output "${output}")
  string(REPLACE "\n" ";" lines "${output}")
  foreach(line IN LISTS lines)
    if(NOT line MATCHES "^(drwxr-xr-x|-rw-r--r--|-rwxr-xr-x) root/root .* [.]/usr/")
      message(SEND_ERROR "unexpected in ${deb}: ${line}")
    endif()
  endforeach()
endfunction()

function(check_deb)
  make_package(DEB)
  file(GLOB deb "${work}/*.deb")
  if(NOT deb MATCHES "/spillway_${VERSION}_[a-z0-9]+[.]deb$")
    message(SEND_ERROR "the package is called ${deb}")
  endif()
  check_control("${deb}")
  check_contents("${deb}")
  run("${DPKG_DEB}" -x "${deb}" "${work}/unpacked")
  use_tree("${work}/unpacked/usr" "${work}/deb-use")
endfunction()

check_archive()
find_program(DPKG_DEB dpkg-deb)
if(DPKG_DEB) # a Debian system, where ./dev test installs what the rest needs
  check_deb()
endif()
file(REMOVE_RECURSE "${work}") # a copy of everything, several times
