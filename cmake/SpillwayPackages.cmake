# Packages by CPack: spillway_<version>_<architecture>.deb, and an archive that can be
# unpacked anywhere. `./dev package` makes both.
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_NAME spillway)
set(CPACK_PACKAGE_VENDOR "Spillway")
set(CPACK_PACKAGE_CONTACT "Spillway maintainers <maintainers@spillway.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_DESCRIPTION
  "Predicts step time, memory and out-of-memory verdicts of training steps of
large language models that keep, recompute or offload saved activations, and
says why. With the catalogue of models, hardware and scenarios, and the static
libraries and headers of the simulator.")
string(TOLOWER
  "spillway-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}"
  CPACK_PACKAGE_FILE_NAME)
set(CPACK_VERBATIM_VARIABLES TRUE)
set(CPACK_STRIP_FILES TRUE)
set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_CURRENT_LIST_DIR}/StripArchives.cmake")
set(CPACK_SPILLWAY_STRIP "${CMAKE_STRIP}")
# Whatever the umask of whoever makes the package.
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# The libraries that the program loads; those that users of the headers compile with
# are only suggested.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS TRUE)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS
  "cmake, libboost-iostreams-dev, libfmt-dev, libyaml-cpp-dev, bash-completion")
if(EXISTS "${PROJECT_SOURCE_DIR}/LICENSE")
  set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
endif()

include(CPack)
