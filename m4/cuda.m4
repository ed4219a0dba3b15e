dnl SPDX-License-Identifier: BSD-3-Clause
dnl The CUDA backend (kernels/cuda): a shared object of its own, built where NVIDIA's compiler is. Nothing else in the
dnl tree needs CUDA, and no program is linked with it.
AC_DEFUN([DP_WITH_CUDA], [
  AC_ARG_WITH([cuda],
    [AS_HELP_STRING([--with-cuda=DIR], [build backend cuda with DIR/bin/nvcc (default: where nvcc is in PATH or in /usr/local/cuda)])],
    [], [with_cuda=auto])
  AC_ARG_VAR([NVCC], [NVIDIA's compiler, for backend cuda])
  AC_ARG_VAR([CUDA_ARCHS], [what backend cuda has machine code for (default: "80 90a 100 120", as far as nvcc knows them)])
  dp_cuda=no
  dnl who names a compiler wants it
  AS_IF([test -n "$NVCC" && test "x$with_cuda" = xauto], [with_cuda=yes])
  AS_IF([test "x$with_cuda" != xno], [
    AS_CASE([$with_cuda],
      [auto | yes], [AS_IF([test -z "$NVCC"], [AC_PATH_PROG([NVCC], [nvcc], [], [$PATH$PATH_SEPARATOR/usr/local/cuda/bin])])],
      [/*], [AS_IF([test -z "$NVCC"], [NVCC=$with_cuda/bin/nvcc])],
      [AC_MSG_ERROR([--with-cuda=$with_cuda: the folder of a CUDA toolkit, like /usr/local/cuda])])
    dnl "ccache /usr/local/cuda/bin/nvcc" is fine
    AS_IF([test -n "$NVCC" && dp_cuda_version=`$NVCC --version 2>/dev/null | sed -n 's/.*release \(@<:@0-9@:>@*\.@<:@0-9@:>@*\).*/\1/p'` &&
           test -n "$dp_cuda_version"], [
      for dp_word in $NVCC; do :; done
      AS_CASE([$dp_word], [*/*], [], [dp_word=`command -v "$dp_word"`])
      dp_cuda_dir=`dirname "$dp_word"`/..
      AS_IF([test "x$with_cuda" != xauto && test "x$with_cuda" != xyes], [dp_cuda_dir=$with_cuda])
      dp_cuda_dir=`cd "$dp_cuda_dir" && pwd`
      for dp_lib in "$dp_cuda_dir/lib64" "$dp_cuda_dir/lib" "$dp_cuda_dir/targets/$host_cpu-linux/lib" "$dp_cuda_dir/targets/x86_64-linux/lib"; do
        AS_IF([test -f "$dp_lib/libcudart_static.a"], [CUDA_LIBS="$dp_lib/libcudart_static.a -ldl -lrt -lpthread"; dp_cuda=$dp_cuda_version; break])
      done
      AS_IF([test ! -f "$dp_cuda_dir/include/cuda_runtime_api.h"], [dp_cuda=no])
    ])
    AS_IF([test "$dp_cuda" = no && test "x$with_cuda" != xauto],
      [AC_MSG_ERROR([backend cuda: ${NVCC:-nvcc} does not run, or its libcudart_static.a or cuda_runtime_api.h is missing])])
  ])
  AS_IF([test "$dp_cuda" != no], [
    CUDA_CFLAGS="-isystem $dp_cuda_dir/include"
    dnl which names no variant: sm_90 stands for sm_90a, too
    dp_known=" `$NVCC --list-gpu-code | tr '\n' ' '` "
    AS_IF([test -z "$CUDA_ARCHS"], [
      for dp_arch in 80 90a 100 120; do
        AS_CASE([$dp_known], [*" sm_`echo "$dp_arch" | tr -dc 0-9` "*], [CUDA_ARCHS="$CUDA_ARCHS $dp_arch"])
      done])
    NVCC_ARCHS=
    for dp_arch in $CUDA_ARCHS; do
      AS_CASE([$dp_known], [*" sm_`echo "$dp_arch" | tr -dc 0-9` "*], [],
        [AC_MSG_ERROR([CUDA_ARCHS: this nvcc does not know sm_$dp_arch; it knows$dp_known])])
      NVCC_ARCHS="$NVCC_ARCHS -gencode=arch=compute_$dp_arch,code=sm_$dp_arch"
      AS_IF([test -z "$dp_ptx"], [dp_ptx=`echo "$dp_arch" | tr -dc 0-9`])
    done
    dnl PTX of the oldest: what is newer than all of them compiles it when the plugin is loaded
    NVCC_ARCHS="$NVCC_ARCHS -gencode=arch=compute_$dp_ptx,code=compute_$dp_ptx"
    dp_cuda="$dp_cuda (code for `echo $CUDA_ARCHS`)"
  ])
  AC_SUBST([CUDA_CFLAGS])
  AC_SUBST([CUDA_LIBS])
  AC_SUBST([NVCC_ARCHS])
  AM_CONDITIONAL([HAVE_NVCC], [test "$dp_cuda" != no])
])

dnl The CPU that stands in for a card (kernels/cuda/emu), for tests: kernels as C++, and calls at each of their accesses,
dnl which a C++ compiler makes for the thread sanitizer. Its library would be in the way of ours.
AC_DEFUN([DP_CHECK_CUDA_EMU], [
  dp_cuda_emu=no
  AS_IF([test "$enable_sanitizer" != thread && test "$enable_sanitizer" != fuzzer], [
    AC_MSG_CHECKING([whether $CXX makes calls at each access])
    AC_LANG_PUSH([C++])
    dp_saved_cxxflags=$CXXFLAGS
    CXXFLAGS="-std=c++17 -O2 -fPIC -fno-exceptions -fno-rtti -fsanitize=thread -Werror"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <utility>]], [[]])], [dp_cuda_emu=yes])
    CXXFLAGS=$dp_saved_cxxflags
    AC_LANG_POP([C++])
    AC_MSG_RESULT([$dp_cuda_emu])
  ])
  AM_CONDITIONAL([HAVE_CUDA_EMU], [test "$dp_cuda_emu" = yes])
])
