# parts of worker/ (see Makefile.am)

# ---- engine: layers, stages, data, pruning, checkpoints of one worker ----
noinst_LIBRARIES += worker/libdpengine.a
worker_libdpengine_a_SOURCES = \
	worker/act.c worker/act.h \
	worker/block.c \
	worker/checkpoint.c worker/checkpoint.h \
	worker/ckpt_file.c worker/ckpt_file.h \
	worker/ckpt_lock.c worker/ckpt_lock.h \
	worker/ckpt_manifest.c worker/ckpt_manifest.h \
	worker/config.c worker/config.h \
	worker/data.c worker/data.h \
	worker/ends.c \
	worker/lap.h \
	worker/layer.c worker/layer.h \
	worker/layer_io.c \
	worker/layer_prune.c \
	worker/layer_tied.c \
	worker/model.c worker/model.h \
	worker/model_tune.c \
	worker/op.c worker/op.h \
	worker/optimizer.c \
	worker/param.c worker/param.h \
	worker/philox.c worker/philox.h \
	worker/prune.c worker/prune.h \
	worker/prune_select.c worker/prune_select.h \
	worker/stage.c worker/stage.h
ENGINE_LIBS = worker/libdpengine.a kernels/libdpkernels.a common/libdpcommon.a $(KERNELS_LIBS) \
	$(LIBCONFIG_LIBS) $(CRYPTO_LIBS) $(JANSSON_LIBS) -lm

if HAVE_CMOCKA
engine_tests = tests/unit/test_config tests/unit/test_data tests/unit/test_layer tests/unit/test_prune \
	tests/unit/test_checkpoint tests/unit/test_stage
check_PROGRAMS += $(engine_tests)
TESTS += $(engine_tests)
tests_unit_test_config_SOURCES = tests/unit/test_config.c tests/unit/unit.h
tests_unit_test_config_LDADD = $(ENGINE_LIBS) $(UNIT_LIBS)
tests_unit_test_data_SOURCES = tests/unit/test_data.c tests/unit/unit.h
tests_unit_test_data_LDADD = $(ENGINE_LIBS) $(UNIT_LIBS)
tests_unit_test_layer_SOURCES = tests/unit/test_layer.c tests/unit/engine.h tests/unit/unit.h
tests_unit_test_layer_LDADD = $(ENGINE_LIBS) $(UNIT_LIBS)
tests_unit_test_prune_SOURCES = tests/unit/test_prune.c tests/unit/engine.h tests/unit/unit.h
tests_unit_test_prune_LDADD = $(ENGINE_LIBS) $(UNIT_LIBS)
tests_unit_test_checkpoint_SOURCES = tests/unit/test_checkpoint.c tests/unit/engine.h tests/unit/unit.h
tests_unit_test_checkpoint_LDADD = $(ENGINE_LIBS) $(UNIT_LIBS)
tests_unit_test_stage_SOURCES = tests/unit/test_stage.c tests/unit/engine.h tests/unit/unit.h
tests_unit_test_stage_LDADD = $(ENGINE_LIBS) $(UNIT_LIBS)
endif

# make bench-train: training steps of the engine on this machine
noinst_PROGRAMS += worker/bench/bench_train
worker_bench_bench_train_SOURCES = worker/bench/bench_train.c \
	worker/bench/group.c worker/bench/group.h \
	worker/bench/masks.c worker/bench/masks.h \
	worker/bench/subject.c worker/bench/subject.h \
	worker/bench/table.c worker/bench/table.h \
	worker/bench/trace.c worker/bench/trace.h
worker_bench_bench_train_LDADD = kernels/bench/libbench.a $(ENGINE_LIBS)
.PHONY: bench-train
bench-train: worker/bench/bench_train
	worker/bench/bench_train $(BENCHFLAGS)
# make bench-peers: the same steps against those of PyTorch and llm.c
.PHONY: bench-peers
bench-peers: worker/bench/bench_train
	$(srcdir)/worker/bench/bench_peers --bench worker/bench/bench_train $(BENCHFLAGS)
# make bench-simulator: what dynpipe simulate predicts beside what runs of two workers measure
.PHONY: bench-simulator
bench-simulator: worker/dynpipe-worker cli/dynpipe
	$(srcdir)/worker/bench/bench_simulator --worker worker/dynpipe-worker --dynpipe cli/dynpipe $(BENCHFLAGS)
# make bench-saving: the saving that a run reports beside the one that it makes
.PHONY: bench-saving
bench-saving: worker/dynpipe-worker cli/dynpipe daemon/dynpiped spank_plugin/spank_dynpipe.so
	$(srcdir)/worker/bench/bench_saving --build . $(BENCHFLAGS)
EXTRA_DIST += worker/bench/bench_saving worker/bench/bench_simulator tests/bench/lib.sh tests/bench/fake_llmc.c worker/bench/bench_peers worker/bench/peer_llmc.c worker/bench/peer_torch.py \
	worker/bench/train_pruned
dist_check_SCRIPTS += tests/bench/bench_linear.t tests/bench/bench_messages.t tests/bench/bench_peers.t tests/bench/bench_saving.t tests/bench/bench_simulator.t tests/bench/bench_train.t
TESTS += tests/bench/bench_linear.t tests/bench/bench_messages.t tests/bench/bench_peers.t tests/bench/bench_saving.t tests/bench/bench_simulator.t tests/bench/bench_train.t

check_PROGRAMS += tests/torch/dump_gpt
tests_torch_dump_gpt_SOURCES = tests/torch/dump_gpt.c
tests_torch_dump_gpt_LDADD = $(ENGINE_LIBS)
dist_check_SCRIPTS += tests/torch/gpt_vs_torch.t
EXTRA_DIST += tests/torch/gpt_vs_torch.py
TESTS += tests/torch/gpt_vs_torch.t
# ---- end of engine ----

# ---- runtime: everything that makes several workers train one model ----
noinst_LIBRARIES += worker/libdpruntime.a
worker_libdpruntime_a_SOURCES = \
	worker/boundary.c \
	worker/hello.c worker/hello.h \
	worker/linkprobe.c worker/linkprobe.h \
	worker/initial.c worker/initial.h \
	worker/memory.c worker/memory.h \
	worker/muster.c worker/muster.h \
	worker/orders.c worker/orders.h \
	worker/patience.c worker/patience.h \
	worker/pin.c worker/pin.h \
	worker/pipeline.c worker/pipeline.h \
	worker/preflight.c worker/preflight.h \
	worker/save_clock.c worker/save_clock.h \
	worker/saving.c worker/saving.h \
	worker/schedule.c worker/schedule.h \
	worker/siphash.c worker/siphash.h \
	worker/steplog.c worker/steplog.h \
	worker/sums.c worker/sums.h \
	worker/tied.c worker/tied.h \
	worker/tracelog.c worker/tracelog.h \
	worker/trainer.c worker/trainer.h worker/trainer_parts.h worker/trainer_start.c \
	worker/transport.c worker/transport.h worker/transport_ucx.h \
	worker/wireup.c worker/wireup.h worker/wireup_daemon.c worker/wireup_pmix.c worker/wireup_ways.h \
	worker/wishes.c worker/wishes.h \
	worker/xfer.c
worker_libdpruntime_a_CFLAGS = $(AM_CFLAGS) $(UCX_CFLAGS) $(PMIX_CFLAGS)
RUNTIME_LIBS = worker/libdpruntime.a common/libdpcommon.a $(UCX_LIBS) $(PMIX_LIBS)
bin_PROGRAMS += worker/dynpipe-worker
worker_dynpipe_worker_SOURCES = worker/main.c
worker_dynpipe_worker_LDADD = worker/libdpruntime.a worker/libdphandover.a worker/libdpruntime.a \
	worker/libdpengine.a $(ENGINE_LIBS) $(UCX_LIBS) $(PMIX_LIBS) $(JANSSON_LIBS) $(CRYPTO_LIBS) -lm
# make bench-messages: what workers of one node pay for messages
noinst_PROGRAMS += worker/bench/bench_messages
worker_bench_bench_messages_SOURCES = worker/bench/bench_messages.c worker/bench/messages.c worker/bench/messages.h
worker_bench_bench_messages_LDADD = kernels/bench/libbench.a $(RUNTIME_LIBS) $(ENGINE_LIBS)
.PHONY: bench-messages
bench-messages: worker/bench/bench_messages
	worker/bench/bench_messages $(BENCHFLAGS)

if HAVE_CMOCKA
runtime_tests = tests/unit/test_initial tests/unit/test_memory tests/unit/test_orders tests/unit/test_save_clock tests/unit/test_schedule tests/unit/test_sums tests/unit/test_transport \
	tests/unit/test_wishes
check_PROGRAMS += $(runtime_tests)
TESTS += $(runtime_tests)
tests_unit_test_initial_SOURCES = tests/unit/test_initial.c tests/unit/unit.h
tests_unit_test_initial_LDADD = worker/libdpruntime.a $(ENGINE_LIBS) $(UNIT_LIBS)
tests_unit_test_memory_SOURCES = tests/unit/test_memory.c tests/unit/unit.h
tests_unit_test_memory_LDADD = worker/libdpruntime.a $(UNIT_LIBS)
tests_unit_test_save_clock_SOURCES = tests/unit/test_save_clock.c tests/unit/unit.h
tests_unit_test_save_clock_LDADD = worker/libdpruntime.a $(UNIT_LIBS)
tests_unit_test_orders_SOURCES = tests/unit/test_orders.c tests/unit/procs.c tests/unit/procs.h tests/unit/unit.h
tests_unit_test_orders_LDADD = worker/libdpruntime.a $(ENGINE_LIBS) $(UCX_LIBS) $(UNIT_LIBS)
tests_unit_test_schedule_SOURCES = tests/unit/test_schedule.c tests/unit/unit.h
tests_unit_test_schedule_LDADD = policies/libdppolicy.a $(RUNTIME_LIBS) $(UNIT_LIBS) -lm
tests_unit_test_sums_SOURCES = tests/unit/test_sums.c tests/unit/procs.c tests/unit/procs.h tests/unit/unit.h
tests_unit_test_sums_LDADD = $(RUNTIME_LIBS) $(UNIT_LIBS)
tests_unit_test_transport_SOURCES = tests/unit/test_transport.c tests/unit/procs.c tests/unit/procs.h tests/unit/unit.h
tests_unit_test_transport_LDADD = $(RUNTIME_LIBS) $(UNIT_LIBS)
tests_unit_test_wishes_SOURCES = tests/unit/test_wishes.c tests/unit/unit.h
tests_unit_test_wishes_LDADD = worker/libdpruntime.a $(ENGINE_LIBS) $(UNIT_LIBS)
endif
dist_check_SCRIPTS += tests/e2e/0100-layouts.t tests/e2e/0110-worker-guards.t
TESTS += tests/e2e/0100-layouts.t tests/e2e/0110-worker-guards.t
# ---- end of runtime ----

# control line, metrics, hand-over
noinst_LIBRARIES += worker/libdphandover.a
worker_libdphandover_a_SOURCES = \
	worker/control.c worker/control.h worker/control_in.c worker/control_parts.h \
	worker/device_lock.c worker/device_lock.h \
	worker/handover.c worker/handover.h \
	worker/line.c worker/line.h \
	worker/metrics.c worker/metrics.h \
	worker/need.c worker/need.h \
	worker/moves.c worker/moves.h \
	worker/passage.h worker/passage_ready.c worker/passage_ship.c \
	worker/round.c worker/round.h \
	worker/ship.c worker/ship.h worker/ship_stream.h \
	worker/ship_in.c worker/ship_out.c

if HAVE_CMOCKA
handover_tests = tests/unit/test_control tests/unit/test_metrics tests/unit/test_moves tests/unit/test_handover
check_PROGRAMS += $(handover_tests)
TESTS += $(handover_tests)
tests_unit_test_control_SOURCES = tests/unit/test_control.c tests/unit/fakedaemon.c \
	tests/unit/fakedaemon.h tests/unit/unit.h
tests_unit_test_control_LDADD = worker/libdphandover.a common/libdpcommon.a $(UNIT_LIBS)
tests_unit_test_metrics_SOURCES = tests/unit/test_metrics.c tests/unit/unit.h
tests_unit_test_metrics_LDADD = worker/libdphandover.a common/libdpcommon.a $(UNIT_LIBS)
tests_unit_test_moves_SOURCES = tests/unit/test_moves.c tests/unit/unit.h
tests_unit_test_moves_LDADD = worker/libdphandover.a common/libdpcommon.a $(UNIT_LIBS)
tests_unit_test_handover_SOURCES = tests/unit/test_handover.c tests/unit/fakedaemon.c tests/unit/fakedaemon.h \
	tests/unit/procs.c tests/unit/procs.h tests/unit/unit.h
tests_unit_test_handover_LDADD = worker/libdphandover.a $(ENGINE_LIBS) $(RUNTIME_LIBS) $(UNIT_LIBS)
endif
# end: control line, metrics, hand-over
