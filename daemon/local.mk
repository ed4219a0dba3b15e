# SPDX-License-Identifier: BSD-3-Clause
# parts of daemon/ (see Makefile.am)
noinst_LIBRARIES += daemon/libdpdaemon.a
daemon_libdpdaemon_a_SOURCES = \
	daemon/daemon.c daemon/daemon.h daemon/dispatch.c daemon/dispatch.h \
	daemon/query/ask.c daemon/query/ask.h daemon/query/name_check.c daemon/query/name_check.h \
	daemon/query/node_check.c daemon/query/node_check.h daemon/query/node_look.c daemon/query/node_look.h \
	daemon/query/query.c daemon/query/query.h daemon/query/slurmd_conf.c daemon/query/slurmd_conf.h \
	daemon/run/cards.c daemon/run/cards.h daemon/run/coordinate.c daemon/run/coordinate.h daemon/run/relay.c \
	daemon/run/relay.h daemon/run/run.c daemon/run/run.h daemon/run/run_life.c daemon/run/run_life.h daemon/run/runs.c \
	daemon/run/runs.h daemon/run/slot.c daemon/run/slot.h daemon/run/worker.c daemon/run/worker.h \
	daemon/run/job/read_job.c daemon/run/job/read_job.h daemon/run/job/seek.c daemon/run/job/seek.h daemon/run/job/step.c \
	daemon/run/job/step.h \
	daemon/run/slices/at_home.c daemon/run/slices/companions.c daemon/run/slices/companions.h daemon/run/slices/drain.c \
	daemon/run/slices/drain.h daemon/run/slices/find_home.c daemon/run/slices/group.c daemon/run/slices/group.h \
	daemon/run/slices/newcomers.c daemon/run/slices/newcomers.h daemon/run/slices/slice.c daemon/run/slices/slices.c \
	daemon/run/slices/slices.h daemon/run/slices/slices_read.c daemon/run/slices/slicing.h daemon/run/slices/take_over.c \
	daemon/run/slices/take_over.h daemon/run/slices/want.c \
	daemon/run/state/history.c daemon/run/state/history.h daemon/run/state/keep_clock.c daemon/run/state/keep_clock.h \
	daemon/run/state/node_journal.c daemon/run/state/node_journal.h \
	daemon/run/wireup/missing.c daemon/run/wireup/missing.h daemon/run/wireup/roster.c daemon/run/wireup/roster.h \
	daemon/run/wireup/tasks.c daemon/run/wireup/tasks.h daemon/run/wireup/wireup.c daemon/run/wireup/wireup.h \
	daemon/run/wireup/wireup_table.c daemon/run/wireup/wireup_tasks.c \
	daemon/net/conn.c daemon/net/conn.h daemon/net/conn_place.c daemon/net/conn_version.c daemon/net/daemon_state.h \
	daemon/net/events.c daemon/net/events.h \
	daemon/net/listen.c daemon/net/listen.h daemon/net/local_server.c daemon/net/local_server.h \
	daemon/net/peer_link.c daemon/net/peer_link.h daemon/net/peer_server.c daemon/net/peer_server.h \
	daemon/net/roles.c daemon/net/roles.h daemon/net/share.c daemon/net/share.h \
	daemon/release/as_owner.c daemon/release/as_owner.h daemon/release/ask_slices.c daemon/release/ask_slices.h daemon/release/batch_env.c daemon/release/batch_env.h daemon/release/cgroup.c daemon/release/cgroup.h \
	daemon/release/cgroup_v1.c daemon/release/cgroup_v1.h \
	daemon/release/device_files.c daemon/release/device_files.h \
	daemon/release/device_memory.c daemon/release/device_memory.h daemon/release/device_memory_job.c daemon/release/nvml.c daemon/release/nvml.h \
	daemon/release/empty_slot.c daemon/release/empty_slot.h daemon/release/empty_slot_job.c \
	daemon/release/privileged.c daemon/release/privileged.h daemon/release/procfd.c daemon/release/procfd.h \
	daemon/release/procread.c daemon/release/procread.h daemon/release/procscan.c daemon/release/procscan.h daemon/release/rights.c daemon/release/rights.h \
	daemon/release/slot_lock.c daemon/release/slot_lock.h \
	daemon/child/helper.c daemon/child/helper.h daemon/child/node_origin.c daemon/child/node_origin.h \
	daemon/child/job_time.c daemon/child/job_time.h daemon/child/node_state.c daemon/child/node_state.h daemon/child/slice_comment.c daemon/child/slice_comment.h \
	daemon/child/slurm_job.c daemon/child/slurm_job.h

sbin_PROGRAMS += daemon/dynpiped
daemon_dynpiped_SOURCES = daemon/main.c
daemon_dynpiped_LDADD = daemon/libdpdaemon.a daemon/libdpcoord.a common/site/libdpsite.a policies/libdppolicy.a \
	common/libdpcommon.a $(DAEMON_LIBS)
DAEMON_LIBS = $(LIBEVENT_LIBS) $(LIBCONFIG_LIBS) $(JANSSON_LIBS) $(SLURM_LIBS) $(MUNGE_LIBS) $(CRYPTO_LIBS) -lm

check_PROGRAMS += tests/lib/daemon_probe tests/lib/daemon_hostile
tests_lib_daemon_hostile_SOURCES = tests/lib/daemon_hostile.c
tests_lib_daemon_hostile_LDADD = common/libdpcommon.a $(MUNGE_LIBS) $(CRYPTO_LIBS)
tests_lib_daemon_probe_SOURCES = tests/lib/daemon_probe.c
tests_lib_daemon_probe_LDADD = common/libdpcommon.a $(MUNGE_LIBS) $(CRYPTO_LIBS)
check_PROGRAMS += tests/lib/told_loads
tests_lib_told_loads_SOURCES = tests/lib/told_loads.c
tests_lib_told_loads_LDADD = lib/libdpmember.a common/libdpcommon.a
check_PROGRAMS += tests/lib/slices_probe
tests_lib_slices_probe_SOURCES = tests/lib/slices_probe.c
tests_lib_slices_probe_LDADD = daemon/libdpdaemon.a common/libdpcommon.a $(SLURM_LIBS)
check_PROGRAMS += tests/lib/priv_probe
tests_lib_priv_probe_SOURCES = tests/lib/priv_probe.c
dist_check_SCRIPTS += tests/integration/0050-daemon.t tests/integration/0055-site-policy.t \
	tests/integration/0060-hostile.t tests/integration/0070-noise.t tests/cluster/0100-daemon.t
TESTS += tests/integration/0050-daemon.t tests/integration/0055-site-policy.t tests/integration/0060-hostile.t tests/integration/0070-noise.t tests/cluster/0100-daemon.t

# Site policies for the tests: the example, one that misbehaves, one of another interface, two that are none.
site_policies = tests/lib/headroom.so tests/lib/bad_policy.so tests/lib/old_policy.so tests/lib/no_decide.so tests/lib/no_symbol.so
check_PROGRAMS += $(site_policies)
site_policy_cflags = $(AM_CFLAGS) -fPIC
site_policy_ldflags = $(SHARED_LINK) -shared
tests_lib_headroom_so_SOURCES = etc/examples/headroom.c
tests_lib_headroom_so_CFLAGS = $(site_policy_cflags)
tests_lib_headroom_so_LDFLAGS = $(site_policy_ldflags)
tests_lib_headroom_so_LDADD = policies/libdynpipe-policy.a
tests_lib_bad_policy_so_SOURCES = tests/lib/bad_policy.c
tests_lib_bad_policy_so_CFLAGS = $(site_policy_cflags)
tests_lib_bad_policy_so_LDFLAGS = $(site_policy_ldflags)
tests_lib_bad_policy_so_LDADD = policies/libdynpipe-policy.a
tests_lib_old_policy_so_SOURCES = tests/lib/bad_policy.c
tests_lib_old_policy_so_CPPFLAGS = $(AM_CPPFLAGS) -DBAD_ABI=4711
tests_lib_old_policy_so_CFLAGS = $(site_policy_cflags)
tests_lib_old_policy_so_LDFLAGS = $(site_policy_ldflags)
tests_lib_old_policy_so_LDADD = policies/libdynpipe-policy.a
tests_lib_no_decide_so_SOURCES = tests/lib/no_policy.c
tests_lib_no_decide_so_CFLAGS = $(site_policy_cflags)
tests_lib_no_decide_so_LDFLAGS = $(site_policy_ldflags)
tests_lib_no_decide_so_LDADD =
tests_lib_no_symbol_so_SOURCES = tests/lib/no_policy.c
tests_lib_no_symbol_so_CPPFLAGS = $(AM_CPPFLAGS) -DNO_SYMBOL
tests_lib_no_symbol_so_CFLAGS = $(site_policy_cflags)
tests_lib_no_symbol_so_LDFLAGS = $(site_policy_ldflags)
tests_lib_no_symbol_so_LDADD =

# NVIDIA's management library for the tests: what it answers is written by them; an old one; one that lacks a function.
nvml_stand_ins = tests/lib/nvml.so tests/lib/nvml_old.so tests/lib/nvml_bare.so
check_PROGRAMS += $(nvml_stand_ins)
tests_lib_nvml_so_SOURCES = tests/lib/nvml.c tests/lib/nvml_script.h
tests_lib_nvml_so_CFLAGS = $(site_policy_cflags)
tests_lib_nvml_so_LDFLAGS = $(site_policy_ldflags)
tests_lib_nvml_so_LDADD =
tests_lib_nvml_old_so_SOURCES = $(tests_lib_nvml_so_SOURCES)
tests_lib_nvml_old_so_CPPFLAGS = $(AM_CPPFLAGS) -DNVML_OLD
tests_lib_nvml_old_so_CFLAGS = $(site_policy_cflags)
tests_lib_nvml_old_so_LDFLAGS = $(site_policy_ldflags)
tests_lib_nvml_old_so_LDADD =
tests_lib_nvml_bare_so_SOURCES = $(tests_lib_nvml_so_SOURCES)
tests_lib_nvml_bare_so_CPPFLAGS = $(AM_CPPFLAGS) -DNVML_BARE
tests_lib_nvml_bare_so_CFLAGS = $(site_policy_cflags)
tests_lib_nvml_bare_so_LDFLAGS = $(site_policy_ldflags)
tests_lib_nvml_bare_so_LDADD =

if HAVE_CMOCKA
daemon_tests = tests/unit/common/message/test_session tests/unit/common/site/test_daemon_config \
	tests/unit/daemon/test_daemons tests/unit/daemon/test_slices tests/unit/daemon/test_wireup tests/unit/daemon/test_empty_slot tests/unit/daemon/test_proof tests/unit/daemon/test_device_memory tests/unit/daemon/test_group tests/unit/daemon/test_slice_comment tests/unit/daemon/test_batch_env tests/unit/daemon/test_clocks tests/unit/daemon/test_helper tests/unit/daemon/test_node_journal tests/unit/common/site/test_site_policy
check_PROGRAMS += $(daemon_tests)
TESTS += $(daemon_tests)
tests_unit_common_message_test_session_SOURCES = tests/unit/common/message/test_session.c tests/unit/unit.h
tests_unit_common_message_test_session_LDADD = common/libdpcommon.a $(MUNGE_LIBS) $(CRYPTO_LIBS) $(UNIT_LIBS)
tests_unit_common_site_test_daemon_config_SOURCES = tests/unit/common/site/test_daemon_config.c tests/unit/unit.h
tests_unit_common_site_test_daemon_config_LDADD = common/site/libdpsite.a policies/libdppolicy.a common/libdpcommon.a \
	$(LIBCONFIG_LIBS) $(UNIT_LIBS) -lm
tests_unit_daemon_test_wireup_SOURCES = tests/unit/daemon/test_wireup.c tests/unit/daemon/daemon_check.h tests/unit/unit.h $(daemon_world)
tests_unit_daemon_test_wireup_LDADD = $(DAEMON_WORLD_LIBS) $(CMOCKA_LIBS)
tests_unit_daemon_test_wireup_LDFLAGS = $(AM_LDFLAGS) $(DAEMON_WORLD_LINK)
tests_unit_daemon_test_daemons_SOURCES = tests/unit/daemon/test_daemons.c tests/unit/daemon/daemon_check.h tests/lib/nvml_script.h tests/unit/unit.h $(daemon_world)
tests_unit_daemon_test_daemons_LDADD = $(DAEMON_WORLD_LIBS) $(CMOCKA_LIBS)
tests_unit_daemon_test_daemons_LDFLAGS = $(AM_LDFLAGS) $(DAEMON_WORLD_LINK)
tests_unit_daemon_test_slices_SOURCES = tests/unit/daemon/test_slices.c tests/unit/daemon/daemon_check.h tests/unit/unit.h $(daemon_world)
tests_unit_daemon_test_slices_LDADD = $(DAEMON_WORLD_LIBS) $(CMOCKA_LIBS)
tests_unit_daemon_test_slices_LDFLAGS = $(AM_LDFLAGS) $(DAEMON_WORLD_LINK)
tests_unit_daemon_test_group_SOURCES = tests/unit/daemon/test_group.c tests/unit/unit.h
tests_unit_daemon_test_group_LDADD = daemon/libdpdaemon.a common/libdpcommon.a $(UNIT_LIBS)
tests_unit_daemon_test_slice_comment_SOURCES = tests/unit/daemon/test_slice_comment.c tests/unit/unit.h
tests_unit_daemon_test_slice_comment_LDADD = daemon/libdpdaemon.a common/libdpcommon.a $(UNIT_LIBS)
tests_unit_daemon_test_batch_env_SOURCES = tests/unit/daemon/test_batch_env.c tests/unit/unit.h
tests_unit_daemon_test_batch_env_LDADD = daemon/libdpdaemon.a common/libdpcommon.a $(UNIT_LIBS)
tests_unit_daemon_test_helper_SOURCES = tests/unit/daemon/test_helper.c tests/unit/unit.h
tests_unit_daemon_test_helper_LDADD = daemon/libdpdaemon.a common/libdpcommon.a $(LIBEVENT_LIBS) $(UNIT_LIBS) -lm
tests_unit_daemon_test_node_journal_SOURCES = tests/unit/daemon/test_node_journal.c tests/unit/unit.h
tests_unit_daemon_test_node_journal_LDADD = daemon/libdpdaemon.a common/libdpcommon.a $(UNIT_LIBS)
tests_unit_common_site_test_site_policy_SOURCES = tests/unit/common/site/test_site_policy.c tests/unit/unit.h
tests_unit_common_site_test_site_policy_LDADD = common/site/libdpsite.a policies/libdppolicy.a common/libdpcommon.a $(UNIT_LIBS) -lm
tests_unit_daemon_test_empty_slot_SOURCES = tests/unit/daemon/test_empty_slot.c tests/unit/unit.h
tests_unit_daemon_test_empty_slot_LDADD = daemon/libdpdaemon.a common/libdpcommon.a $(UNIT_LIBS)
tests_unit_daemon_test_clocks_SOURCES = tests/unit/daemon/test_clocks.c tests/unit/unit.h
tests_unit_daemon_test_clocks_LDADD = daemon/libdpdaemon.a common/libdpcommon.a $(UNIT_LIBS)
tests_unit_daemon_test_proof_SOURCES = tests/unit/daemon/test_proof.c tests/unit/unit.h
tests_unit_daemon_test_device_memory_SOURCES = tests/unit/daemon/test_device_memory.c tests/lib/nvml_script.h tests/unit/unit.h
tests_unit_daemon_test_device_memory_LDADD = daemon/libdpdaemon.a common/libdpcommon.a $(DAEMON_LIBS) $(UNIT_LIBS)
tests_unit_daemon_test_proof_LDADD = daemon/libdpdaemon.a common/libdpcommon.a $(UNIT_LIBS)
endif

# --- coordinator (daemon/coord/): a state machine without sockets, files or clocks ---
noinst_LIBRARIES += daemon/libdpcoord.a
daemon_libdpcoord_a_SOURCES = daemon/coord/coordinator.c daemon/coord/coordinator.h daemon/coord/internal.h daemon/coord/limit.c \
	daemon/coord/members/member.c daemon/coord/members/trait.c daemon/coord/members/seat.c daemon/coord/members/join.c \
	daemon/coord/members/leave.c daemon/coord/members/regroup.c daemon/coord/members/take_over.c \
	daemon/coord/members/missing.c daemon/coord/members/stall.c \
	daemon/coord/records/journal.c daemon/coord/records/replay.c daemon/coord/records/rewrite.c \
	daemon/coord/loads/report.c daemon/coord/loads/snapshot.c daemon/coord/loads/expect.c daemon/coord/loads/ahead.c \
	daemon/coord/loads/noise.c daemon/coord/loads/link.c daemon/coord/loads/correct.c daemon/coord/loads/memory_need.c \
	daemon/coord/decide/decide.c daemon/coord/decide/plan.c daemon/coord/decide/balance.c daemon/coord/decide/promise.c \
	daemon/coord/decide/trade.c daemon/coord/decide/proposal.c daemon/coord/decide/grow.c daemon/coord/decide/grow_plan.c \
	daemon/coord/carry_out/migrate.c daemon/coord/carry_out/release.c daemon/coord/carry_out/memory.c \
	daemon/coord/show/json.c daemon/coord/show/promise_json.c daemon/coord/show/saving.c \
	daemon/coord/show/copies_json.c
# Tests of it in a world of their own, whose clock, network and disk are tables.
coord_world = tests/unit/daemon/coord_world.c tests/unit/daemon/coord_world.h tests/unit/daemon/coord_check.h tests/unit/random.h policies/bench/recorded_loads.h tests/unit/unit.h
COORD_WORLD_LIBS = daemon/libdpcoord.a common/site/libdpsite.a policies/libdppolicy.a common/libdpcommon.a \
	$(LIBEVENT_LIBS) $(JANSSON_LIBS) $(CMOCKA_LIBS) -lm
if HAVE_CMOCKA
coord_tests = tests/unit/daemon/test_coord_balance tests/unit/daemon/test_coord_journal tests/unit/daemon/test_coord_memory tests/unit/daemon/test_coord_packing \
	tests/unit/daemon/test_coord_copies tests/unit/daemon/test_coord_freeze tests/unit/daemon/test_coord_grow tests/unit/daemon/test_coord_join tests/unit/daemon/test_coord_promise tests/unit/daemon/test_coord_regroup tests/unit/daemon/test_coord_release tests/unit/daemon/test_coord_silence tests/unit/daemon/test_coord_slices \
	tests/unit/daemon/test_coord_steps tests/unit/daemon/test_coord_trainer tests/unit/daemon/test_old_journals tests/unit/daemon/test_records tests/unit/daemon/test_release_journal
check_PROGRAMS += $(coord_tests)
TESTS += $(coord_tests)
tests_unit_daemon_test_coord_balance_SOURCES = tests/unit/daemon/test_coord_balance.c $(coord_world)
tests_unit_daemon_test_coord_balance_LDADD = $(COORD_WORLD_LIBS)
tests_unit_daemon_test_coord_memory_SOURCES = tests/unit/daemon/test_coord_memory.c $(coord_world)
tests_unit_daemon_test_coord_memory_LDADD = $(COORD_WORLD_LIBS)
tests_unit_daemon_test_coord_journal_SOURCES = tests/unit/daemon/test_coord_journal.c $(coord_world)
tests_unit_daemon_test_coord_journal_LDADD = $(COORD_WORLD_LIBS)
tests_unit_daemon_test_coord_packing_SOURCES = tests/unit/daemon/test_coord_packing.c $(coord_world)
tests_unit_daemon_test_coord_packing_LDADD = $(COORD_WORLD_LIBS)
tests_unit_daemon_test_coord_promise_SOURCES = tests/unit/daemon/test_coord_promise.c $(coord_world)
tests_unit_daemon_test_coord_promise_LDADD = $(COORD_WORLD_LIBS)
tests_unit_daemon_test_coord_release_SOURCES = tests/unit/daemon/test_coord_release.c $(coord_world)
tests_unit_daemon_test_coord_release_LDADD = $(COORD_WORLD_LIBS)
tests_unit_daemon_test_coord_silence_SOURCES = tests/unit/daemon/test_coord_silence.c $(coord_world)
tests_unit_daemon_test_coord_silence_LDADD = $(COORD_WORLD_LIBS)
tests_unit_daemon_test_coord_copies_SOURCES = tests/unit/daemon/test_coord_copies.c $(coord_world)
tests_unit_daemon_test_coord_copies_LDADD = $(COORD_WORLD_LIBS)
tests_unit_daemon_test_coord_freeze_SOURCES = tests/unit/daemon/test_coord_freeze.c $(coord_world)
tests_unit_daemon_test_coord_freeze_LDADD = $(COORD_WORLD_LIBS)
tests_unit_daemon_test_coord_trainer_SOURCES = tests/unit/daemon/test_coord_trainer.c $(coord_world)
tests_unit_daemon_test_coord_trainer_LDADD = $(COORD_WORLD_LIBS)
tests_unit_daemon_test_coord_grow_SOURCES = tests/unit/daemon/test_coord_grow.c $(coord_world)
tests_unit_daemon_test_coord_grow_LDADD = $(COORD_WORLD_LIBS)
tests_unit_daemon_test_coord_join_SOURCES = tests/unit/daemon/test_coord_join.c $(coord_world)
tests_unit_daemon_test_coord_join_LDADD = $(COORD_WORLD_LIBS)
tests_unit_daemon_test_coord_slices_SOURCES = tests/unit/daemon/test_coord_slices.c $(coord_world)
tests_unit_daemon_test_coord_slices_LDADD = $(COORD_WORLD_LIBS)
tests_unit_daemon_test_coord_regroup_SOURCES = tests/unit/daemon/test_coord_regroup.c $(coord_world)
tests_unit_daemon_test_coord_regroup_LDADD = $(COORD_WORLD_LIBS)
tests_unit_daemon_test_coord_steps_SOURCES = tests/unit/daemon/test_coord_steps.c $(coord_world)
tests_unit_daemon_test_coord_steps_LDADD = $(COORD_WORLD_LIBS)
tests_unit_daemon_test_old_journals_SOURCES = tests/unit/daemon/test_old_journals.c tests/unit/daemon/journals_v1.h tests/unit/unit.h
tests_unit_daemon_test_old_journals_LDADD = daemon/libdpdaemon.a $(COORD_WORLD_LIBS)
tests_unit_daemon_test_records_SOURCES = tests/unit/daemon/test_records.c tests/unit/daemon/records_golden.h \
	tests/unit/common/message/messages_golden.h tests/unit/golden.h tests/unit/unit.h
tests_unit_daemon_test_records_LDADD = daemon/libdpdaemon.a $(COORD_WORLD_LIBS)
tests_unit_daemon_test_release_journal_SOURCES = tests/unit/daemon/test_release_journal.c $(coord_world)
tests_unit_daemon_test_release_journal_LDADD = $(COORD_WORLD_LIBS)
endif
# The same protocol as a model, checked by spin.
dist_check_SCRIPTS += tests/model/handover_check.t
TESTS += tests/model/handover_check.t
EXTRA_DIST += tests/model/copies.pml tests/model/growth.pml tests/model/handover.pml tests/model/layouts.pml tests/model/shadow.pml doc/json.md
# --- end of coordinator ---

EXTRA_DIST += daemon/README.md daemon/child/README.md daemon/coord/README.md daemon/coord/members/README.md daemon/coord/records/README.md daemon/coord/loads/README.md daemon/coord/decide/README.md daemon/coord/carry_out/README.md daemon/coord/show/README.md daemon/net/README.md daemon/query/README.md daemon/release/README.md daemon/run/README.md \
	daemon/run/job/README.md daemon/run/slices/README.md daemon/run/state/README.md daemon/run/wireup/README.md
