# SPDX-License-Identifier: BSD-3-Clause
# Fuzz targets: with any compiler tests that try a fixed series of mutations, with
# --enable-sanitizer=fuzzer libFuzzer programs (tests/fuzz/run).
fuzz_targets = tests/fuzz/fuzz_balance tests/fuzz/fuzz_cluster tests/fuzz/fuzz_conf tests/fuzz/fuzz_costs tests/fuzz/fuzz_daemons tests/fuzz/fuzz_graph \
	tests/fuzz/fuzz_handover tests/fuzz/fuzz_journal tests/fuzz/fuzz_layer tests/fuzz/fuzz_layout \
	tests/fuzz/fuzz_manifest tests/fuzz/fuzz_mask tests/fuzz/fuzz_msg tests/fuzz/fuzz_note tests/fuzz/fuzz_options tests/fuzz/fuzz_simulate \
	tests/fuzz/fuzz_trainer tests/fuzz/fuzz_tune tests/fuzz/fuzz_weights
check_PROGRAMS += $(fuzz_targets)
EXTRA_DIST += tests/fuzz/run
FUZZ_LINK = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free
if FUZZER
FUZZ_MAIN = tests/fuzz/libfuzzer.c
FUZZ_LINK += -fsanitize=fuzzer
else
FUZZ_MAIN = tests/fuzz/driver.c
TESTS += $(fuzz_targets)
endif
EXTRA_DIST += tests/fuzz/libfuzzer.c tests/fuzz/driver.c
fuzz_common = tests/fuzz/fuzz.h tests/fuzz/support.c $(FUZZ_MAIN)
FUZZ_DAEMON_LIBS = daemon/libdpdaemon.a common/site/libdpsite.a policies/libdppolicy.a common/libdpcommon.a $(DAEMON_LIBS)

tests_fuzz_fuzz_cluster_SOURCES = tests/fuzz/fuzz_cluster.c $(fuzz_common)
tests_fuzz_fuzz_cluster_LDADD = policies/libdpcluster.a policies/libdppolicy.a policies/libdpgraph.a common/libdpcommon.a $(JANSSON_LIBS) -lm
tests_fuzz_fuzz_cluster_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_balance_SOURCES = tests/fuzz/fuzz_balance.c $(fuzz_common)
tests_fuzz_fuzz_balance_LDADD = policies/libdppolicy.a common/libdpcommon.a -lm
tests_fuzz_fuzz_balance_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_conf_SOURCES = tests/fuzz/fuzz_conf.c $(fuzz_common)
tests_fuzz_fuzz_conf_LDADD = common/site/libdpsite.a policies/libdppolicy.a $(MODEL_LIBS)
tests_fuzz_fuzz_conf_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_costs_SOURCES = tests/fuzz/fuzz_costs.c $(fuzz_common)
tests_fuzz_fuzz_costs_LDADD = policies/libdpgraph.a common/libdpcommon.a $(JANSSON_LIBS) -lm
tests_fuzz_fuzz_costs_LDFLAGS = $(FUZZ_LINK)
# Two daemons in one process: what they have of the kernel, their children, munge and Slurm is not real.
daemon_world = tests/unit/daemon/daemon_world.c tests/unit/daemon/daemon_world.h tests/unit/daemon/daemon_worker.c \
	tests/unit/daemon/daemon_kernel.c tests/unit/daemon/daemon_children.c tests/unit/daemon/daemon_slurm.c tests/unit/daemon/daemon_disk.c
DAEMON_WORLD_LINK = -Wl,--wrap=syscall,--wrap=nanosleep,--wrap=getsockopt,--wrap=setsockopt,--wrap=signal,--wrap=unlink,--wrap=rename \
	-Wl,--wrap=fdatasync,--wrap=dp_log,--wrap=dp_journal_open,--wrap=dp_journal_destroy,--wrap=dp_journal_append \
	-Wl,--wrap=dp_coord_replay,--wrap=dp_coord_report,--wrap=dp_handshake_seal,--wrap=dp_handshake_open,--wrap=dp_origin_work \
	-Wl,--wrap=dp_slurm_job_shrink,--wrap=dp_slurm_job_kill,--wrap=dp_slurm_job_requeue,--wrap=dp_slurm_each_node
DAEMON_WORLD_LIBS = daemon/libdpdaemon.a daemon/libdpcoord.a common/site/libdpsite.a policies/libdppolicy.a \
	common/libdpcommon.a $(DAEMON_LIBS)
tests_fuzz_fuzz_daemons_SOURCES = tests/fuzz/fuzz_daemons.c $(daemon_world) $(fuzz_common)
tests_fuzz_fuzz_daemons_LDADD = $(DAEMON_WORLD_LIBS)
tests_fuzz_fuzz_daemons_LDFLAGS = $(FUZZ_LINK) $(DAEMON_WORLD_LINK)
tests_fuzz_fuzz_graph_SOURCES = tests/fuzz/fuzz_graph.c $(fuzz_common)
tests_fuzz_fuzz_graph_LDADD = policies/libdplearn.a policies/libdpgraph.a common/libdpcommon.a $(JANSSON_LIBS) -lm -lpthread
tests_fuzz_fuzz_graph_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_handover_SOURCES = tests/fuzz/fuzz_handover.c tests/unit/daemon/coord_world.c tests/unit/daemon/coord_world.h $(fuzz_common)
tests_fuzz_fuzz_handover_LDADD = daemon/libdpcoord.a $(FUZZ_DAEMON_LIBS)
tests_fuzz_fuzz_handover_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_journal_SOURCES = tests/fuzz/fuzz_journal.c tests/unit/daemon/coord_world.c tests/unit/daemon/coord_world.h $(fuzz_common)
tests_fuzz_fuzz_journal_LDADD = daemon/libdpcoord.a $(FUZZ_DAEMON_LIBS)
tests_fuzz_fuzz_journal_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_layer_SOURCES = tests/fuzz/fuzz_layer.c tests/unit/worker/tiny_model.h $(fuzz_common)
tests_fuzz_fuzz_layer_LDADD = $(MODEL_LIBS)
tests_fuzz_fuzz_layer_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_layout_SOURCES = tests/fuzz/fuzz_layout.c $(fuzz_common)
tests_fuzz_fuzz_layout_LDADD = common/libdpcommon.a
tests_fuzz_fuzz_layout_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_manifest_SOURCES = tests/fuzz/fuzz_manifest.c $(fuzz_common)
tests_fuzz_fuzz_manifest_LDADD = $(MODEL_LIBS)
tests_fuzz_fuzz_manifest_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_mask_SOURCES = tests/fuzz/fuzz_mask.c $(fuzz_common)
tests_fuzz_fuzz_mask_LDADD = $(BENCH_LIBS)
tests_fuzz_fuzz_mask_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_msg_SOURCES = tests/fuzz/fuzz_msg.c $(fuzz_common)
tests_fuzz_fuzz_msg_LDADD = common/libdpcommon.a
tests_fuzz_fuzz_msg_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_note_SOURCES = tests/fuzz/fuzz_note.c $(fuzz_common)
tests_fuzz_fuzz_note_LDADD = $(WORKER_LIBS)
tests_fuzz_fuzz_note_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_options_SOURCES = tests/fuzz/fuzz_options.c $(fuzz_common)
tests_fuzz_fuzz_options_LDADD = spank_plugin/libdpspank.a common/libdpcommon.a
tests_fuzz_fuzz_options_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_simulate_SOURCES = tests/fuzz/fuzz_simulate.c $(fuzz_common)
tests_fuzz_fuzz_simulate_LDADD = policies/libdppolicy.a policies/libdpgraph.a common/libdpcommon.a $(JANSSON_LIBS) -lm
tests_fuzz_fuzz_simulate_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_trainer_SOURCES = tests/fuzz/fuzz_trainer.c $(dynpipe_sources) tests/unit/worker/fakedaemon.c \
	tests/unit/worker/fakedaemon.h $(fuzz_common)
tests_fuzz_fuzz_trainer_LDADD = lib/libdpmember.a common/libdpcommon.a
tests_fuzz_fuzz_trainer_LDFLAGS = $(FUZZ_LINK) -Wl,--wrap=clock_gettime
tests_fuzz_fuzz_tune_SOURCES = tests/fuzz/fuzz_tune.c $(fuzz_common)
tests_fuzz_fuzz_tune_LDADD = kernels/libdpkernels.a common/libdpcommon.a $(KERNELS_LIBS)
tests_fuzz_fuzz_tune_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_fuzz_weights_SOURCES = tests/fuzz/fuzz_weights.c $(fuzz_common)
tests_fuzz_fuzz_weights_LDADD = policies/libdplearn.a policies/libdpgraph.a common/libdpcommon.a $(JANSSON_LIBS) -lm
tests_fuzz_fuzz_weights_LDFLAGS = $(FUZZ_LINK)
