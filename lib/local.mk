# SPDX-License-Identifier: BSD-3-Clause
# parts of lib/ (see Makefile.am)

# What makes a process a member of a run. The worker links it, and so does the shared object for other trainers: hence -fPIC.
noinst_LIBRARIES += lib/libdpmember.a
lib_libdpmember_a_SOURCES = \
	lib/control.c lib/control.h lib/control_receive.c lib/control_internal.h \
	lib/device_lock.c lib/device_lock.h \
	lib/expected.c lib/expected.h \
	lib/frame_socket.c lib/frame_socket.h \
	lib/job_step.c lib/job_step.h \
	lib/member.c lib/member.h \
	lib/sha256.c lib/sha256.h \
	lib/timeout.c lib/timeout.h \
	lib/window.c lib/window.h
lib_libdpmember_a_CFLAGS = $(AM_CFLAGS) -fPIC

# The library for other trainers: a "program" that is linked as a shared object, as the plugin is. It needs libc only, so what it
# takes of common/ may ask for nothing else: -z defs tells. Sanitizers' libraries are the program's.
dynpipe_lds = $(top_srcdir)/lib/libdynpipe.lds
solibdir = $(libdir)
solib_PROGRAMS = lib/libdynpipe.so.1.0.0
dynpipe_sources = \
	lib/dynpipe.c lib/dynpipe.h lib/dynpipe_internal.h \
	lib/dynpipe_args.c lib/dynpipe_handover.c lib/dynpipe_report.c
lib_libdynpipe_so_1_0_0_SOURCES = $(dynpipe_sources)
lib_libdynpipe_so_1_0_0_CFLAGS = $(AM_CFLAGS) -fPIC
lib_libdynpipe_so_1_0_0_LDFLAGS = $(SHARED_LINK) -shared -Wl,-soname,libdynpipe.so.1 -Wl,--version-script=$(dynpipe_lds)
if !SANITIZED
lib_libdynpipe_so_1_0_0_LDFLAGS += -Wl,-z,defs
endif
lib_libdynpipe_so_1_0_0_LDADD = lib/libdpmember.a common/libdpcommon.a
EXTRA_lib_libdynpipe_so_1_0_0_DEPENDENCIES = $(dynpipe_lds)
include_HEADERS = lib/dynpipe.h
pkgconfig_DATA += lib/dynpipe.pc
CLEANFILES += lib/libdynpipe.so lib/libdynpipe.so.1
# By these names programs find it, here and installed.
all-local: lib/libdynpipe.so
lib/libdynpipe.so: lib/libdynpipe.so.1.0.0
	$(AM_V_GEN)ln -sf libdynpipe.so.1.0.0 lib/libdynpipe.so.1 && ln -sf libdynpipe.so.1 $@
install-exec-hook:
	cd '$(DESTDIR)$(solibdir)' && ln -sf libdynpipe.so.1.0.0 libdynpipe.so.1 && ln -sf libdynpipe.so.1 libdynpipe.so
uninstall-hook:
	rm -f '$(DESTDIR)$(solibdir)/libdynpipe.so.1' '$(DESTDIR)$(solibdir)/libdynpipe.so'

# Not by -Wl, which takes a comma in the path (address,undefined) for its own.
dynpipe_link = $(AM_LDFLAGS) -Xlinker -rpath -Xlinker $(abs_top_builddir)/lib
if HAVE_CMOCKA
member_tests = tests/unit/lib/test_control tests/unit/lib/test_dynpipe_abi tests/unit/lib/test_dynpipe_calls \
	tests/unit/lib/test_dynpipe_handover tests/unit/lib/test_dynpipe_process tests/unit/lib/test_expected \
	tests/unit/lib/test_member tests/unit/lib/test_sha256 tests/unit/lib/test_window
check_PROGRAMS += $(member_tests)
TESTS += $(member_tests)
tests_unit_lib_test_control_SOURCES = tests/unit/lib/test_control.c tests/unit/worker/fakedaemon.c tests/unit/worker/fakedaemon.h tests/unit/unit.h
tests_unit_lib_test_control_LDADD = lib/libdpmember.a common/libdpcommon.a $(UNIT_LIBS)
tests_unit_lib_test_control_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=clock_gettime
tests_unit_lib_test_member_SOURCES = tests/unit/lib/test_member.c tests/unit/worker/fakedaemon.c tests/unit/worker/fakedaemon.h \
	tests/unit/random.h tests/unit/unit.h
tests_unit_lib_test_member_LDADD = lib/libdpmember.a common/libdpcommon.a $(UNIT_LIBS)
tests_unit_lib_test_member_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=clock_gettime
tests_unit_lib_test_sha256_SOURCES = tests/unit/lib/test_sha256.c tests/unit/unit.h
tests_unit_lib_test_sha256_LDADD = lib/libdpmember.a $(CRYPTO_LIBS) $(UNIT_LIBS)
tests_unit_lib_test_window_SOURCES = tests/unit/lib/test_window.c tests/unit/random.h tests/unit/unit.h
tests_unit_lib_test_window_LDADD = lib/libdpmember.a common/libdpcommon.a $(UNIT_LIBS)
# They have the shared object, and of our own what their daemon needs.
dynpipe_world = tests/unit/lib/dynpipe_world.c tests/unit/lib/dynpipe_world.h tests/unit/worker/fakedaemon.c tests/unit/worker/fakedaemon.h \
	tests/unit/unit.h
tests_unit_lib_test_dynpipe_abi_SOURCES = tests/unit/lib/test_dynpipe_abi.c tests/unit/unit.h
tests_unit_lib_test_dynpipe_abi_LDADD = lib/libdynpipe.so $(UNIT_LIBS)
tests_unit_lib_test_dynpipe_abi_LDFLAGS = $(dynpipe_link)
tests_unit_lib_test_dynpipe_calls_SOURCES = tests/unit/lib/test_dynpipe_calls.c $(dynpipe_world)
tests_unit_lib_test_dynpipe_calls_LDADD = lib/libdynpipe.so common/libdpcommon.a $(UNIT_LIBS)
tests_unit_lib_test_dynpipe_calls_LDFLAGS = $(dynpipe_link)
tests_unit_lib_test_dynpipe_handover_SOURCES = tests/unit/lib/test_dynpipe_handover.c $(dynpipe_world)
tests_unit_lib_test_dynpipe_handover_LDADD = lib/libdynpipe.so common/libdpcommon.a $(UNIT_LIBS)
tests_unit_lib_test_dynpipe_handover_LDFLAGS = $(dynpipe_link)
tests_unit_lib_test_dynpipe_process_SOURCES = tests/unit/lib/test_dynpipe_process.c $(dynpipe_world)
tests_unit_lib_test_dynpipe_process_LDADD = lib/libdynpipe.so common/libdpcommon.a $(UNIT_LIBS) -lpthread
tests_unit_lib_test_dynpipe_process_LDFLAGS = $(dynpipe_link)
tests_unit_lib_test_expected_SOURCES = tests/unit/lib/test_expected.c tests/unit/random.h tests/unit/unit.h
tests_unit_lib_test_expected_LDADD = lib/libdpmember.a common/libdpcommon.a $(UNIT_LIBS)
endif

dist_check_SCRIPTS += tests/unit/lib/abi.t tests/integration/0075-libdynpipe.t
TESTS += tests/unit/lib/abi.t tests/integration/0075-libdynpipe.t
# A trainer that has nothing else of ours, with a real daemon.
check_PROGRAMS += tests/lib/dynpipe_trainer
tests_lib_dynpipe_trainer_SOURCES = tests/lib/dynpipe_trainer.c
tests_lib_dynpipe_trainer_LDADD = lib/libdynpipe.so
tests_lib_dynpipe_trainer_LDFLAGS = $(dynpipe_link)
EXTRA_DIST += lib/README.md lib/libdynpipe.lds
