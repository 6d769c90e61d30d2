# Cross-compiling for 64-bit ARM with Debian's compiler; programs run here under qemu-user. The libraries come
# from tools/arm64-sysroot.sh, which unpacks them under build/ and leaves the machine's own packages alone.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)

set(RT_SYSROOT "${CMAKE_CURRENT_LIST_DIR}/../build/arm64-sysroot" CACHE PATH "Where tools/arm64-sysroot.sh unpacked")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES RT_SYSROOT)
get_filename_component(RT_SYSROOT "${RT_SYSROOT}" ABSOLUTE)
set(CMAKE_FIND_ROOT_PATH ${RT_SYSROOT} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${RT_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${RT_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig)
set(ENV{PKG_CONFIG_ALLOW_SYSTEM_CFLAGS} 1)
set(ENV{PKG_CONFIG_ALLOW_SYSTEM_LIBS} 1)
