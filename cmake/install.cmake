# What `cmake --install` puts where: the public headers, the library, the command, a CMake package, a pkg-config file,
# the licence and the pages.

include(CMakePackageConfigHelpers)

# Only what the archive needs at link time; header-only libraries do not show in our public headers.
set(WEFT_FIND_DEPENDENCIES "")
set(WEFT_PC_REQUIRES "libxxhash")
target_link_libraries(weft PUBLIC $<INSTALL_INTERFACE:PkgConfig::XXHASH>)
get_property(libraries GLOBAL PROPERTY WEFT_LIBRARIES)
if("fmt::fmt" IN_LIST libraries)
  set(WEFT_FIND_DEPENDENCIES "find_dependency(fmt)")
  string(APPEND WEFT_PC_REQUIRES ", fmt")
  target_link_libraries(weft PUBLIC $<INSTALL_INTERFACE:fmt::fmt>)
endif()

if("OpenSSL::SSL" IN_LIST libraries)
  string(APPEND WEFT_FIND_DEPENDENCIES "\nfind_dependency(OpenSSL)")
  string(APPEND WEFT_PC_REQUIRES ", openssl")
  target_link_libraries(weft PUBLIC $<INSTALL_INTERFACE:OpenSSL::SSL> $<INSTALL_INTERFACE:OpenSSL::Crypto>)
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
# The way back from the pkg-config file to the prefix, so that an installed tree can be moved.
file(RELATIVE_PATH WEFT_PC_TO_PREFIX /prefix/${pc_dir} /prefix)

configure_package_config_file(cmake/weft-config.cmake.in ${PROJECT_BINARY_DIR}/weft-config.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/weft-config-version.cmake COMPATIBILITY SameMinorVersion)
configure_file(cmake/weft.pc.in ${PROJECT_BINARY_DIR}/weft.pc @ONLY)

install(TARGETS weft EXPORT weft ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT weft NAMESPACE weft:: FILE weft-targets.cmake DESTINATION ${package_dir})
install(FILES ${PROJECT_BINARY_DIR}/weft-config.cmake ${PROJECT_BINARY_DIR}/weft-config-version.cmake
  DESTINATION ${package_dir})
install(FILES ${PROJECT_BINARY_DIR}/weft.pc DESTINATION ${pc_dir})
install(DIRECTORY include/weft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")
if(TARGET weft_cli)
  install(TARGETS weft_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
