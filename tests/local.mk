# SPDX-License-Identifier: BSD-3-Clause
# parts of tests/ (see Makefile.am)
EXTRA_DIST += tests/distros/run tests/lib/cited.awk tests/lib/cited.sh tests/lib/tap.sh tests/lib/cluster-test.sh tests/lib/cluster.sh \
	tests/lib/build.sh tests/lib/cores.sh tests/lib/demo-lose.sh tests/lib/demo-nodes.sh tests/lib/demo-slices.sh tests/lib/deps.sh tests/lib/expected-skips tests/lib/fork_lock.c \
	tests/lib/lone-daemon.sh tests/lib/lose-node.sh tests/lib/observed-run.sh tests/lib/run-cmocka tests/lib/site-policy.sh tests/lib/timed tests/lib/training.sh tests/lib/valgrind.sh

check_PROGRAMS += tests/lib/pmix_probe
tests_lib_pmix_probe_SOURCES = tests/lib/pmix_probe.c
tests_lib_pmix_probe_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS)
tests_lib_pmix_probe_LDADD = $(PMIX_LIBS)

check_PROGRAMS += tests/lib/step_listener
tests_lib_step_listener_SOURCES = tests/lib/step_listener.c
tests_lib_step_listener_LDADD = common/libdpcommon.a

check_PROGRAMS += tests/lib/hold_exit
tests_lib_hold_exit_SOURCES = tests/lib/hold_exit.c

# The fault campaign, started by hand (tests/campaign --help) or by tests/e2e/0400-campaign.t.
check_PROGRAMS += tests/campaign.d/watch tests/campaign.d/read_journal
tests_campaign_d_watch_SOURCES = tests/campaign.d/watch.c
tests_campaign_d_read_journal_SOURCES = tests/campaign.d/read_journal.c
tests_campaign_d_read_journal_LDADD = daemon/libdpdaemon.a $(COORD_WORLD_LIBS)
# Loaded before a daemon or a worker (LD_PRELOAD).
check_PROGRAMS += tests/campaign.d/shift_clock.so tests/campaign.d/odd_answers.so
tests_campaign_d_shift_clock_so_SOURCES = tests/campaign.d/shift_clock.c
tests_campaign_d_shift_clock_so_CFLAGS = $(AM_CFLAGS) -fPIC
tests_campaign_d_shift_clock_so_LDFLAGS = $(SHARED_LINK) -shared
tests_campaign_d_shift_clock_so_LDADD =
tests_campaign_d_odd_answers_so_SOURCES = tests/campaign.d/odd_answers.c
tests_campaign_d_odd_answers_so_CFLAGS = $(AM_CFLAGS) -fPIC
tests_campaign_d_odd_answers_so_LDFLAGS = $(SHARED_LINK) -shared
tests_campaign_d_odd_answers_so_LDADD = $(SLURM_LIBS)
EXTRA_DIST += tests/campaign tests/campaign.d/README.md tests/campaign.d/by_slurm.pl tests/campaign.d/faults.sh tests/campaign.d/judge \
	tests/campaign.d/kinds/copied.sh tests/campaign.d/kinds/hot_copies.sh tests/campaign.d/kinds/node_shrink.sh \
	tests/campaign.d/kinds/returns.sh tests/campaign.d/kinds/slices.sh tests/campaign.d/moments.sh tests/campaign.d/plan.sh tests/campaign.d/run \
	tests/campaign.d/where_died
dist_check_SCRIPTS += tests/campaign.d/judge.t
TESTS += tests/campaign.d/judge.t

# Each starts a Slurm of its own, so they may run at the same time.
cluster_tests = tests/cluster/0000-harness.t tests/cluster/0001-accounting.t tests/cluster/0010-plugin.t tests/cluster/0015-slices.t tests/cluster/0120-diagnosis.t \
	tests/cluster/0125-firewall.t tests/cluster/0900-demo.t
# The longest one first: others train beside it.
e2e_tests = tests/e2e/0400-campaign.t tests/e2e/0200-release.t tests/e2e/0203-freezing.t tests/e2e/0205-release-twice.t tests/e2e/0206-promise.t tests/e2e/0207-slices.t tests/e2e/0208-newcomers.t tests/e2e/0209-whole-nodes.t tests/e2e/0209-home-leaves.t tests/e2e/0210-faults.t tests/e2e/0211-companions.t tests/e2e/0212-companions-rights.t tests/e2e/0213-growth.t tests/e2e/0214-coordinator-lost.t tests/e2e/0215-journal-faults.t tests/e2e/0216-array-growth.t tests/e2e/0217-home-again.t tests/e2e/0218-home-requeued.t tests/e2e/0219-all-gone.t \
	tests/e2e/0220-worker-killed.t tests/e2e/0221-worker-lost.t tests/e2e/0222-copied-layers.t tests/e2e/0225-frozen.t tests/e2e/0226-copies.t tests/e2e/0230-worker-stopped.t tests/e2e/0235-node-death.t tests/e2e/0236-node-drain.t \
	tests/e2e/0240-site-policy.t tests/e2e/0250-time-limit.t tests/e2e/0255-signal-inside.t tests/e2e/0260-parted-rights.t \
	tests/e2e/0270-late-daemon.t tests/e2e/0280-wireup.t tests/e2e/0285-memory.t \
	tests/e2e/0290-own-tmp.t tests/e2e/0295-container.t tests/e2e/0300-rolling-upgrade.t tests/e2e/0305-upgrade-user.t tests/e2e/0310-torch.t tests/e2e/0311-odd-trainers.t tests/e2e/0312-own-loop.t
EXTRA_DIST += tests/e2e/companions.sh tests/e2e/build_release_before tests/e2e/release_before.sh tests/e2e/own_users.sh tests/e2e/lib.sh tests/e2e/observe.sh tests/e2e/records.sh tests/e2e/slices.sh tests/e2e/foreign.sh tests/e2e/odd_trainer.py tests/e2e/torch.sh
dist_check_SCRIPTS += $(cluster_tests) $(e2e_tests)
TESTS += $(cluster_tests) $(e2e_tests)

dist_check_SCRIPTS += tests/unit/citations.t tests/unit/cores.t tests/unit/style.t tests/unit/hardening.t tests/unit/systemd-unit.t
TESTS += tests/unit/citations.t tests/unit/cores.t tests/unit/style.t tests/unit/hardening.t tests/unit/systemd-unit.t

package_tests = tests/packages/deb.t tests/packages/rpm.t
EXTRA_DIST += tests/packages/lib.sh
dist_check_SCRIPTS += $(package_tests)
TESTS += $(package_tests)

# For ./check, which runs them in groups.
print-tests:
	@echo $(TESTS)

include tests/fuzz/local.mk
