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
	lib/timeout.c lib/timeout.h \
	lib/window.c lib/window.h
lib_libdpmember_a_CFLAGS = $(AM_CFLAGS) -fPIC

if HAVE_CMOCKA
member_tests = tests/unit/lib/test_control tests/unit/lib/test_expected tests/unit/lib/test_member tests/unit/lib/test_window
check_PROGRAMS += $(member_tests)
TESTS += $(member_tests)
tests_unit_lib_test_control_SOURCES = tests/unit/lib/test_control.c tests/unit/worker/fakedaemon.c tests/unit/worker/fakedaemon.h tests/unit/unit.h
tests_unit_lib_test_control_LDADD = lib/libdpmember.a common/libdpcommon.a $(UNIT_LIBS)
tests_unit_lib_test_control_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=clock_gettime
tests_unit_lib_test_member_SOURCES = tests/unit/lib/test_member.c tests/unit/worker/fakedaemon.c tests/unit/worker/fakedaemon.h \
	tests/unit/random.h tests/unit/unit.h
tests_unit_lib_test_member_LDADD = lib/libdpmember.a common/libdpcommon.a $(UNIT_LIBS)
tests_unit_lib_test_member_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=clock_gettime
tests_unit_lib_test_window_SOURCES = tests/unit/lib/test_window.c tests/unit/random.h tests/unit/unit.h
tests_unit_lib_test_window_LDADD = lib/libdpmember.a common/libdpcommon.a $(UNIT_LIBS)
tests_unit_lib_test_expected_SOURCES = tests/unit/lib/test_expected.c tests/unit/random.h tests/unit/unit.h
tests_unit_lib_test_expected_LDADD = lib/libdpmember.a common/libdpcommon.a $(UNIT_LIBS)
endif

EXTRA_DIST += lib/README.md
