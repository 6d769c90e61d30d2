# What `make install` puts in place: the command, the library (static and shared), its one header and a
# pkg-config file that finds itself, so that the prefix may be chosen at installation and moved later.
include(GNUInstallDirs)
if(TARGET ringtmp)
  install(TARGETS ringtmp RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(TARGETS ringtmp_lib ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET ringtmp_shared)
  install(TARGETS ringtmp_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(FILES include/ringtmp/ringtmp.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ringtmp)

file(RELATIVE_PATH RT_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(packaging/ringtmp.pc.in ${CMAKE_BINARY_DIR}/ringtmp.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/ringtmp.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
