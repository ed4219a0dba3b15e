dnl SPDX-License-Identifier: BSD-3-Clause
dnl Options and library checks of configure.ac, one macro each.

AC_ARG_ENABLE([sanitizer],
  [AS_HELP_STRING([--enable-sanitizer=KIND],
    [build with the address, undefined or thread sanitizer, with the first two (address,undefined), or for clang's libFuzzer (fuzzer)])],
  [], [enable_sanitizer=no])
AS_CASE([$enable_sanitizer],
  [no], [],
  [address|undefined|thread|address,undefined],
    [SANITIZER_CFLAGS="-fsanitize=$enable_sanitizer -fno-omit-frame-pointer -fno-sanitize-recover=all"],
  [fuzzer],
    [SANITIZER_CFLAGS="-fsanitize=fuzzer-no-link,address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=all"],
  [AC_MSG_ERROR([--enable-sanitizer=$enable_sanitizer: allowed are address, undefined, thread, address,undefined, fuzzer])])
dnl A shared object of the tests takes kernels that programs take, too, and sanitized code reaches variables of the
dnl sanitizer's library, which needs -fPIC there.
AS_IF([test "$enable_sanitizer" != no],
  [SANITIZER_CFLAGS="$SANITIZER_CFLAGS -fPIC"
   AC_DEFINE([DP_SANITIZED], [1], [built with a sanitizer: several times slower])])
AM_CONDITIONAL([FUZZER], [test "$enable_sanitizer" = fuzzer])
AM_CONDITIONAL([SANITIZED], [test "$enable_sanitizer" != no])
AC_SUBST([SANITIZER_CFLAGS])

AC_ARG_ENABLE([werror],
  [AS_HELP_STRING([--enable-werror], [make every warning an error])], [], [enable_werror=no])
WARN_CFLAGS="-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wpointer-arith -Wwrite-strings"
AS_IF([test "x$enable_werror" = xyes], [WARN_CFLAGS="$WARN_CFLAGS -Werror"])
AC_SUBST([WARN_CFLAGS])

dnl Compiler and linker flags that make a fault of ours harder to use; each only where a program builds with it
dnl and without a warning: FORTIFY needs -O, and some compilers set it themselves. Sanitizers look closer than
dnl FORTIFY and bring a memory layout of their own: none of it with them.
AC_DEFUN([DP_TRY_FLAG], [
  dp_saved_cflags=$CFLAGS; dp_saved_ldflags=$LDFLAGS
  AC_MSG_CHECKING([whether $CC takes $2 $3])
  CFLAGS="$CFLAGS $2 -Werror"; LDFLAGS="$LDFLAGS $3"
  AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <stdio.h>
#include <string.h>]], [[char text[16]; memset(text, 'x', sizeof text - 1); text[15] = 0; return puts(text) < 0;]])],
    [dp_takes=yes; $1_CFLAGS="$$1_CFLAGS $2"; $1_LDFLAGS="$$1_LDFLAGS $3"], [dp_takes=no])
  AC_MSG_RESULT([$dp_takes])
  CFLAGS=$dp_saved_cflags; LDFLAGS=$dp_saved_ldflags
])
AC_DEFUN([DP_HARDEN], [
  AC_ARG_ENABLE([hardening],
    [AS_HELP_STRING([--disable-hardening], [no stack protector, FORTIFY, RELRO and PIE])], [], [enable_hardening=yes])
  AS_IF([test "$enable_sanitizer" != no], [enable_hardening=no])
  AS_IF([test "$enable_hardening" = yes], [
    DP_TRY_FLAG([HARDEN], [-fstack-protector-strong], [])
    DP_TRY_FLAG([HARDEN], [-fstack-clash-protection], [])
    DP_TRY_FLAG([HARDEN], [-fcf-protection], [])
    DP_TRY_FLAG([HARDEN], [-D_FORTIFY_SOURCE=3], [])
    AS_IF([test "$dp_takes" = no], [DP_TRY_FLAG([HARDEN], [-D_FORTIFY_SOURCE=2], [])])
    DP_TRY_FLAG([HARDEN], [], [-Wl,-z,relro,-z,now])
    DP_TRY_FLAG([HARDEN], [], [-Wl,-z,noexecstack])
    DP_TRY_FLAG([PIE], [-fPIE], [-pie])
  ])
  AC_SUBST([HARDEN_CFLAGS])
  AC_SUBST([HARDEN_LDFLAGS])
  AC_SUBST([PIE_CFLAGS])
  AC_SUBST([PIE_LDFLAGS])
])

dnl PMIx: pkg-config where it knows it, else header and library.
AC_DEFUN([DP_CHECK_PMIX], [
  PKG_CHECK_MODULES([PMIX], [pmix >= 4.2], [dp_pmix_version=`$PKG_CONFIG --modversion pmix`], [
    AC_CHECK_HEADER([pmix.h], [], [AC_MSG_ERROR([PMIx >= 4.2 is missing (Debian: libpmix-dev)])])
    PMIX_LIBS=-lpmix
    dp_pmix_version=found
  ])
])

dnl Slurm: headers for the plugin, libslurm for the daemon and the command. What differs between its releases is looked
dnl for in the headers, never concluded from the version (common/slurm/libslurm.c); the version is only said.
AC_DEFUN([DP_CHECK_SLURM], [
  AC_CHECK_HEADERS([slurm/spank.h slurm/slurm.h], [],
    [AC_MSG_ERROR([Slurm's headers are missing (Debian: libslurm-dev)])])
  AC_CHECK_LIB([slurm], [slurm_update_job], [SLURM_LIBS=-lslurm],
    [AC_MSG_ERROR([libslurm is missing (Debian: libslurm-dev)])])
  AC_CHECK_DECLS([slurm_init, slurm_load_job, slurm_requeue], [],
    [AC_MSG_ERROR([these headers of Slurm lack a function that DynPipe uses; it needs Slurm 22.05 or later])], [@%:@include <slurm/slurm.h>])
  AC_CHECK_DECLS([slurm_free_conf], [], [], [@%:@include <slurm/slurm.h>])
  AC_CHECK_MEMBERS([job_info_t.step_id, job_info_t.mem_update_delay, job_desc_msg_t.step_id, slurm_conf_t.namespace_plugin], [], [], [@%:@include <slurm/slurm.h>])
  AC_CACHE_CHECK([whether slurm_load_job takes a slurm_step_id_t], [dp_cv_slurm_job_by_step_id], [
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <slurm/slurm.h>]],
      [[slurm_step_id_t id = {0}; job_info_msg_t *jobs; return slurm_load_job(&jobs, id, 0);]])],
      [dp_cv_slurm_job_by_step_id=yes], [dp_cv_slurm_job_by_step_id=no])])
  AS_IF([test "$dp_cv_slurm_job_by_step_id" = yes],
    [AC_DEFINE([HAVE_SLURM_JOB_BY_STEP_ID], [1], [libslurm wants a job as slurm_step_id_t])])
  AC_SUBST([SLURM_LIBS])
  AC_COMPUTE_INT([dp_slurm_major], [SLURM_VERSION_MAJOR(SLURM_VERSION_NUMBER)], [@%:@include <slurm/slurm.h>], [dp_slurm_major=0])
  AC_COMPUTE_INT([dp_slurm_minor], [SLURM_VERSION_MINOR(SLURM_VERSION_NUMBER)], [@%:@include <slurm/slurm.h>], [dp_slurm_minor=0])
  dp_slurm_version=`printf %u.%02u "$dp_slurm_major" "$dp_slurm_minor"`
])

dnl Dense single-precision GEMM: oneDNN first, OpenBLAS where it is missing.
AC_DEFUN([DP_CHECK_GEMM], [
  dp_gemm=none
  AC_CHECK_HEADER([dnnl.h], [AC_CHECK_LIB([dnnl], [dnnl_sgemm], [dp_gemm=oneDNN])])
  AS_IF([test "$dp_gemm" = oneDNN], [
    AC_DEFINE([HAVE_ONEDNN], [1], [oneDNN gives the dense GEMM])
    GEMM_LIBS="-ldnnl"
  ], [
    PKG_CHECK_MODULES([OPENBLAS], [openblas], [dp_gemm=OpenBLAS],
      [AC_MSG_ERROR([no GEMM library: install oneDNN (libdnnl-dev) or OpenBLAS (libopenblas-dev)])])
    GEMM_CFLAGS="$OPENBLAS_CFLAGS"
    GEMM_LIBS="$OPENBLAS_LIBS"
  ])
  AC_SUBST([GEMM_CFLAGS])
  AC_SUBST([GEMM_LIBS])
])

dnl Threads of the CPU kernels. The thread sanitizer does not know OpenMP's barriers and sees races where none are.
AC_DEFUN([DP_CHECK_OPENMP], [
  dp_openmp="one a worker"
  AS_IF([test "$enable_sanitizer" != thread], [AC_OPENMP
    AS_IF([test -n "$OPENMP_CFLAGS"], [dp_openmp="OpenMP ($OPENMP_CFLAGS)"])])
  AC_SUBST([OPENMP_CFLAGS])
])

dnl Versions of the CPU kernels for wider vectors (kernels/cpu/vec.h): x86-64 and a compiler that knows them.
AC_DEFUN([DP_CHECK_X86_VERSIONS], [
  dp_saved_cflags=$CFLAGS
  CFLAGS="$CFLAGS -mavx2 -mfma -mavx512f -mavx512vl -mavx512bw -mavx512dq"
  AC_MSG_CHECKING([for AVX2 and AVX-512 versions of the kernels])
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#ifndef __x86_64__
#error not x86-64
#endif
#include <immintrin.h>]], [[return __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("fma");]])],
    [dp_x86_versions=yes], [dp_x86_versions=no])
  AC_MSG_RESULT([$dp_x86_versions])
  CFLAGS=$dp_saved_cflags
  AM_CONDITIONAL([HAVE_X86_VERSIONS], [test "$dp_x86_versions" = yes])
])

dnl Where systemd's units go; default: nowhere, they lie with the examples.
AC_DEFUN([DP_WITH_SYSTEMD], [
  AC_ARG_WITH([systemdsystemunitdir],
    [AS_HELP_STRING([--with-systemdsystemunitdir=DIR], [install dynpiped.service there, and the sysusers.d and tmpfiles.d snippets under PREFIX/lib (default: no)])],
    [], [with_systemdsystemunitdir=no])
  AS_IF([test "x$with_systemdsystemunitdir" = xyes],
    [with_systemdsystemunitdir=`$PKG_CONFIG --variable=systemdsystemunitdir systemd`
     AS_IF([test -z "$with_systemdsystemunitdir"], [AC_MSG_ERROR([pkg-config does not know systemd: name the folder])])])
  AS_IF([test "x$with_systemdsystemunitdir" != xno], [systemdsystemunitdir=$with_systemdsystemunitdir])
  AC_SUBST([systemdsystemunitdir])
  AM_CONDITIONAL([SYSTEMD], [test "x$with_systemdsystemunitdir" != xno])
])

dnl Where module dynpipe goes. Debian's python3 looks in lib/python3/dist-packages of its prefix and of /usr/local; PYTHONPATH does elsewhere.
AC_DEFUN([DP_WITH_PYTHON], [
  AC_ARG_WITH([pythondir],
    [AS_HELP_STRING([--with-pythondir=DIR], [install Python's module dynpipe there (default: PREFIX/lib/python3/dist-packages; no: nowhere)])],
    [], [with_pythondir=yes])
  AS_CASE([$with_pythondir], [yes], [pythondir='${prefix}/lib/python3/dist-packages'], [pythondir=$with_pythondir])
  AC_SUBST([pythondir])
  AM_CONDITIONAL([PYTHON_MODULE], [test "x$with_pythondir" != xno])
])
