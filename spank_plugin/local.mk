# SPDX-License-Identifier: BSD-3-Clause
# parts of spank_plugin/ (see Makefile.am)
# What needs no Slurm lies in a library of its own, so that the unit tests run the same objects.
noinst_LIBRARIES += spank_plugin/libdpspank.a
spank_plugin_libdpspank_a_SOURCES = \
	spank_plugin/daemon_link.c spank_plugin/daemon_link.h \
	spank_plugin/site.c spank_plugin/site.h
spank_plugin_libdpspank_a_CFLAGS = $(AM_CFLAGS) -fPIC

# A "program" that is linked as a shared object: no libtool needed. Slurm gives it its symbols when
# it loads it; the version script keeps everything but SPANK's out of sight.
spank_lds = $(top_srcdir)/spank_plugin/spank_dynpipe.lds
spank_PROGRAMS = spank_plugin/spank_dynpipe.so
spank_plugin_spank_dynpipe_so_SOURCES = \
	spank_plugin/allocator.c \
	spank_plugin/plugin.h \
	spank_plugin/remote.c \
	spank_plugin/spank_dynpipe.c
spank_plugin_spank_dynpipe_so_CFLAGS = $(AM_CFLAGS) -fPIC
# Bound when called: not every program of Slurm has every call of SPANK, and `dynpipe check' has none.
spank_plugin_spank_dynpipe_so_LDFLAGS = $(SHARED_LINK) -Wl,-z,lazy -shared -Wl,--version-script=$(spank_lds)
spank_plugin_spank_dynpipe_so_LDADD = spank_plugin/libdpspank.a common/libdpcommon.a
EXTRA_spank_plugin_spank_dynpipe_so_DEPENDENCIES = $(spank_lds)
EXTRA_DIST += spank_plugin/spank_dynpipe.lds

if HAVE_CMOCKA
spank_tests = tests/unit/common/conf/test_options tests/unit/spank_plugin/test_daemon_link
check_PROGRAMS += $(spank_tests)
TESTS += $(spank_tests)
tests_unit_common_conf_test_options_SOURCES = tests/unit/common/conf/test_options.c tests/unit/unit.h
tests_unit_common_conf_test_options_LDADD = spank_plugin/libdpspank.a common/libdpcommon.a $(UNIT_LIBS)
tests_unit_spank_plugin_test_daemon_link_SOURCES = tests/unit/spank_plugin/test_daemon_link.c tests/unit/unit.h
tests_unit_spank_plugin_test_daemon_link_LDADD = spank_plugin/libdpspank.a common/libdpcommon.a $(UNIT_LIBS)
tests_unit_spank_plugin_test_daemon_link_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=clock_gettime,--wrap=nanosleep,--wrap=poll
endif

EXTRA_DIST += spank_plugin/README.md
