# SPDX-License-Identifier: BSD-3-Clause
schedule_sources = \
	common/schedule/1f1b.c common/schedule/gpipe.c common/schedule/interleaved.c common/schedule/list.h \
	common/schedule/schedule.c common/schedule/schedule.h common/schedule/zb_h1.c
noinst_LIBRARIES += common/libdpcommon.a
common_libdpcommon_a_SOURCES = \
	common/bits.h \
	common/child.c common/child.h \
	common/clock.h \
	common/crc32c.c common/crc32c.h \
	common/err.c common/err.h \
	common/log.c common/log.h \
	common/numbers.h \
	common/stdout.c common/stdout.h \
	common/wire.c common/wire.h \
	common/conf/conf.c common/conf/conf.h \
	common/conf/conf_scan.c common/conf/conf_scan.h \
	common/conf/conf_text.c common/conf/conf_text.h \
	common/conf/conf_value.c common/conf/conf_value.h \
	common/conf/options.c common/conf/options.h \
	common/conf/plugin_args.c common/conf/plugin_args.h \
	common/conf/plugstack.c common/conf/plugstack.h \
	common/conf/site_defaults.h \
	common/file/journal.c common/file/journal.h \
	common/file/journal_record.c common/file/journal_record.h \
	common/file/slurp.c common/file/slurp.h \
	common/file/trust.c common/file/trust.h \
	common/file/trusted_file.c common/file/trusted_file.h \
	common/message/client.c common/message/client.h \
	common/message/msg.c common/message/msg.h common/message/msg_recode.c \
	common/message/munge_trip.c common/message/munge_trip.h \
	common/message/session.c common/message/session.h \
	common/run/change.c common/run/change.h \
	common/run/copy_place.c common/run/copy_place.h \
	common/run/layout.c common/run/layout.h \
	common/run/load.h \
	common/run/megatron.c common/run/megatron.h \
	common/run/run_limits.h \
	$(schedule_sources) \
	common/slurm/job.h \
	common/slurm/libslurm.c common/slurm/libslurm.h \
	common/slurm/node_name.c common/slurm/node_name.h
# The plugin links these objects into a shared object.
common_libdpcommon_a_CFLAGS = $(AM_CFLAGS) -fPIC
# What an administrator sets up knows the policies: above them.
noinst_LIBRARIES += common/site/libdpsite.a
common_site_libdpsite_a_SOURCES = \
	common/site/config_salvage.c common/site/daemon_config.c common/site/daemon_config.h \
	common/site/site_policy.c common/site/site_policy.h

if HAVE_CMOCKA
UNIT_LIBS = $(CMOCKA_LIBS) -lm
common_tests = tests/unit/common/test_err tests/unit/common/test_log tests/unit/common/test_wire tests/unit/common/message/test_msg tests/unit/common/message/test_msg_golden tests/unit/common/run/test_change tests/unit/common/run/test_layout tests/unit/common/run/test_copy_place tests/unit/common/run/test_moves tests/unit/common/run/test_megatron tests/unit/common/test_crc32c \
	tests/unit/common/conf/test_conf tests/unit/common/file/test_journal tests/unit/common/file/test_journal_faults tests/unit/common/slurm/test_node_name
check_PROGRAMS += $(common_tests)
TESTS += $(common_tests)
tests_unit_common_test_err_SOURCES = tests/unit/common/test_err.c tests/unit/unit.h
tests_unit_common_test_err_LDADD = common/libdpcommon.a $(UNIT_LIBS)
tests_unit_common_test_log_SOURCES = tests/unit/common/test_log.c tests/unit/unit.h
tests_unit_common_test_log_LDADD = common/libdpcommon.a $(UNIT_LIBS)
tests_unit_common_test_wire_SOURCES = tests/unit/common/test_wire.c tests/unit/unit.h
tests_unit_common_test_wire_LDADD = common/libdpcommon.a $(UNIT_LIBS)
tests_unit_common_message_test_msg_SOURCES = tests/unit/common/message/test_msg.c tests/unit/common/message/messages_v1.h tests/unit/unit.h
tests_unit_common_message_test_msg_LDADD = common/libdpcommon.a $(UNIT_LIBS)
tests_unit_common_message_test_msg_golden_SOURCES = tests/unit/common/message/test_msg_golden.c tests/unit/common/message/messages_golden.h tests/unit/golden.h tests/unit/unit.h
tests_unit_common_message_test_msg_golden_LDADD = common/libdpcommon.a $(UNIT_LIBS)
tests_unit_common_run_test_change_SOURCES = tests/unit/common/run/test_change.c tests/unit/unit.h
tests_unit_common_run_test_change_LDADD = common/libdpcommon.a $(UNIT_LIBS)
tests_unit_common_run_test_copy_place_SOURCES = tests/unit/common/run/test_copy_place.c tests/unit/unit.h
tests_unit_common_run_test_copy_place_LDADD = common/libdpcommon.a $(UNIT_LIBS)
tests_unit_common_run_test_moves_SOURCES = tests/unit/common/run/test_moves.c tests/unit/unit.h
tests_unit_common_run_test_moves_LDADD = common/libdpcommon.a $(UNIT_LIBS)
tests_unit_common_run_test_layout_SOURCES = tests/unit/common/run/test_layout.c tests/unit/unit.h
tests_unit_common_run_test_megatron_SOURCES = tests/unit/common/run/test_megatron.c tests/unit/random.h tests/unit/unit.h
tests_unit_common_run_test_megatron_LDADD = common/libdpcommon.a $(UNIT_LIBS)
tests_unit_common_run_test_layout_LDADD = common/libdpcommon.a $(UNIT_LIBS)
tests_unit_common_test_crc32c_SOURCES = tests/unit/common/test_crc32c.c tests/unit/unit.h
tests_unit_common_test_crc32c_LDADD = common/libdpcommon.a $(UNIT_LIBS)
tests_unit_common_conf_test_conf_SOURCES = tests/unit/common/conf/test_conf.c tests/unit/unit.h
tests_unit_common_conf_test_conf_LDADD = common/libdpcommon.a $(LIBCONFIG_LIBS) $(UNIT_LIBS)
tests_unit_common_slurm_test_node_name_SOURCES = tests/unit/common/slurm/test_node_name.c tests/unit/unit.h
tests_unit_common_slurm_test_node_name_LDADD = common/libdpcommon.a $(UNIT_LIBS)
tests_unit_common_file_test_journal_SOURCES = tests/unit/common/file/test_journal.c tests/unit/unit.h
tests_unit_common_file_test_journal_LDADD = common/libdpcommon.a $(UNIT_LIBS)
tests_unit_common_file_test_journal_faults_SOURCES = tests/unit/common/file/test_journal_faults.c tests/unit/random.h tests/unit/unit.h
tests_unit_common_file_test_journal_faults_LDADD = common/libdpcommon.a $(UNIT_LIBS)
tests_unit_common_file_test_journal_faults_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=pwrite,--wrap=fdatasync,--wrap=fsync,--wrap=rename,--wrap=ftruncate \
	-Wl,--wrap=fallocate,--wrap=clock_gettime
endif

EXTRA_DIST += common/README.md common/conf/README.md common/file/README.md common/message/README.md \
	common/run/README.md common/schedule/README.md common/site/README.md common/slurm/README.md
