# What `make install` puts in place: the command, the library, its one header and a pkg-config file.
include(GNUInstallDirs)
if(TARGET ringtmp)
  install(TARGETS ringtmp RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(TARGETS ringtmp_lib ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES include/ringtmp/ringtmp.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ringtmp)
