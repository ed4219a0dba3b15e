# SPDX-License-Identifier: BSD-3-Clause
# parts of worker/ (see Makefile.am)

# A library for each folder; whoever is named first uses those behind it, never the other way round.
noinst_LIBRARIES += worker/train/libdptrain.a worker/step/libdpstep.a worker/handover/libdphandover.a worker/copies/libdpcopies.a worker/shadow/libdpshadow.a worker/checkpoint/libdpcheckpoint.a \
	worker/net/libdpnet.a worker/scheme/libdpscheme.a worker/model/libdpmodel.a
worker_train_libdptrain_a_SOURCES = \
	worker/train/background.c \
	worker/train/stock.c \
	worker/train/boundary.c \
	worker/train/copying.c \
	worker/train/start/hello.c worker/train/start/hello.h \
	worker/train/start/initial_layout.c worker/train/start/initial_layout.h \
	worker/train/start/memory_limit.c worker/train/start/memory_limit.h \
	worker/train/start/memory_need.c worker/train/start/memory_need.h \
	worker/train/log/metrics.c worker/train/log/metrics.h \
	worker/train/start/preflight.c worker/train/start/preflight.h \
	worker/train/lost/regroup.c \
	worker/train/lost/rescue.c worker/train/lost/rescue_plan.c worker/train/lost/rescue_plan.h \
	worker/train/save_clock.c worker/train/save_clock.h \
	worker/train/log/steplog.c worker/train/log/steplog.h \
	worker/train/log/tracelog.c worker/train/log/tracelog.h \
	worker/train/trainer.c worker/train/trainer.h worker/train/trainer_internal.h worker/train/trainer_start.c worker/train/join.c \
	worker/train/signals.c worker/train/signals.h
worker_step_libdpstep_a_SOURCES = \
	worker/step/device_link.c worker/step/device_link.h \
	worker/step/device_wait.c worker/step/device_wait.h \
	worker/step/neighbours.c worker/step/neighbours.h \
	worker/step/pipeline.c worker/step/pipeline.h \
	worker/step/step_order.c worker/step/step_order.h \
	worker/step/step_sync.c worker/step/step_sync.h \
	worker/step/tied_head.c worker/step/tied_head.h
worker_handover_libdphandover_a_SOURCES = \
	worker/handover/handover.c worker/handover/handover.h \
	worker/handover/attempt.h worker/handover/attempt_prepare.c worker/handover/attempt_transfer.c \
	worker/handover/stocking.c worker/handover/stocking.h \
	worker/handover/voting.c worker/handover/voting.h \
	worker/handover/transfer.c worker/handover/transfer.h worker/handover/transfer_internal.h \
	worker/handover/transfer_receive.c worker/handover/transfer_send.c worker/handover/transfer_way.c
worker_copies_libdpcopies_a_SOURCES = \
	worker/copies/copies.c worker/copies/copies.h worker/copies/copies_internal.h \
	worker/copies/check.c worker/copies/held.c worker/copies/streams.c
worker_shadow_libdpshadow_a_SOURCES = \
	worker/shadow/pace.c worker/shadow/pace.h \
	worker/shadow/shadowing.c worker/shadow/shadowing.h worker/shadow/shadowing_internal.h \
	worker/shadow/source.c worker/shadow/destination.c worker/shadow/change.c worker/shadow/unit.c
worker_checkpoint_libdpcheckpoint_a_SOURCES = \
	worker/checkpoint/checkpoint.c worker/checkpoint/checkpoint.h \
	worker/checkpoint/ckpt_file.c worker/checkpoint/ckpt_file.h \
	worker/checkpoint/ckpt_lock.c worker/checkpoint/ckpt_lock.h \
	worker/checkpoint/ckpt_manifest.c worker/checkpoint/ckpt_manifest.h \
	worker/checkpoint/distributed.c worker/checkpoint/distributed.h
worker_net_libdpnet_a_SOURCES = \
	worker/net/link_times.c worker/net/link_times.h \
	worker/net/pmix_rendezvous.c worker/net/pmix_rendezvous.h \
	worker/net/pin.c worker/net/pin.h \
	worker/net/siphash.c worker/net/siphash.h \
	worker/net/collectives.c worker/net/collectives.h \
	worker/net/transport.c worker/net/transport.h worker/net/transport_internal.h \
	worker/net/wireup.c worker/net/wireup.h worker/net/wireup_daemon.c worker/net/wireup_pmix.c worker/net/wireup_internal.h \
	worker/net/transport_messages.c
worker_net_libdpnet_a_CFLAGS = $(AM_CFLAGS) $(UCX_CFLAGS) $(PMIX_CFLAGS)
worker_scheme_libdpscheme_a_SOURCES = \
	worker/scheme/drop.c \
	worker/scheme/events.c worker/scheme/events.h \
	worker/scheme/freeze.c \
	worker/scheme/list.h \
	worker/scheme/prune.c \
	worker/scheme/scheme.c worker/scheme/scheme.h \
	worker/scheme/prune_run.c worker/scheme/prune_run.h \
	worker/scheme/prune_select.c worker/scheme/prune_select.h
worker_model_libdpmodel_a_SOURCES = \
	worker/model/activations.c worker/model/activations.h \
	worker/model/block.c \
	worker/model/train_config.c worker/model/train_config.h \
	worker/model/data.c worker/model/data.h \
	worker/model/embedding.c \
	worker/model/head.c \
	worker/model/layer.c worker/model/layer.h worker/model/layer_head.c worker/model/layer_head.h worker/model/layer_io.c \
	worker/model/layer_parts.c worker/model/layer_parts.h worker/model/layer_prune.c \
	worker/model/layer_run.h worker/model/layer_tied.c \
	worker/model/model.c worker/model/model.h worker/model/model_tune.c \
	worker/model/layer_ops.c worker/model/layer_ops.h \
	worker/model/optimizer.c \
	worker/model/param.c worker/model/param.h \
	worker/model/philox.c worker/model/philox.h \
	worker/model/stage.c worker/model/stage.h

# For programs of one worker, which need no network.
MODEL_LIBS = worker/checkpoint/libdpcheckpoint.a worker/scheme/libdpscheme.a worker/model/libdpmodel.a kernels/libdpkernels.a common/libdpcommon.a \
	$(KERNELS_LIBS) $(LIBCONFIG_LIBS) $(CRYPTO_LIBS) $(JANSSON_LIBS) -lm
WORKER_LIBS = worker/train/libdptrain.a worker/step/libdpstep.a worker/handover/libdphandover.a worker/copies/libdpcopies.a worker/shadow/libdpshadow.a worker/checkpoint/libdpcheckpoint.a \
	worker/net/libdpnet.a lib/libdpmember.a worker/scheme/libdpscheme.a worker/model/libdpmodel.a kernels/libdpkernels.a common/libdpcommon.a \
	$(KERNELS_LIBS) $(LIBCONFIG_LIBS) $(UCX_LIBS) $(PMIX_LIBS) $(CRYPTO_LIBS) $(JANSSON_LIBS) -lm

bin_PROGRAMS += worker/dynpipe-worker
worker_dynpipe_worker_SOURCES = worker/main.c
worker_dynpipe_worker_LDADD = $(WORKER_LIBS)

# ---- tests and benchmarks of one worker ----
if HAVE_CMOCKA
engine_tests = tests/unit/worker/test_config tests/unit/worker/test_data tests/unit/worker/test_layer tests/unit/worker/test_prune \
	tests/unit/worker/test_checkpoint tests/unit/worker/test_stage tests/unit/worker/test_freeze tests/unit/worker/test_drop
check_PROGRAMS += $(engine_tests)
TESTS += $(engine_tests)
staged_model = tests/unit/worker/staged_model.c tests/unit/worker/staged_model.h
tests_unit_worker_test_config_SOURCES = tests/unit/worker/test_config.c tests/unit/unit.h
tests_unit_worker_test_config_LDADD = $(MODEL_LIBS) $(UNIT_LIBS)
tests_unit_worker_test_data_SOURCES = tests/unit/worker/test_data.c tests/unit/unit.h
tests_unit_worker_test_data_LDADD = $(MODEL_LIBS) $(UNIT_LIBS)
tests_unit_worker_test_layer_SOURCES = tests/unit/worker/test_layer.c tests/unit/worker/engine.h tests/unit/worker/tiny_model.h tests/unit/unit.h
tests_unit_worker_test_layer_LDADD = $(MODEL_LIBS) $(UNIT_LIBS)
tests_unit_worker_test_prune_SOURCES = tests/unit/worker/test_prune.c tests/unit/worker/engine.h tests/unit/worker/tiny_model.h tests/unit/unit.h
tests_unit_worker_test_prune_LDADD = $(MODEL_LIBS) $(UNIT_LIBS)
tests_unit_worker_test_checkpoint_SOURCES = tests/unit/worker/test_checkpoint.c tests/unit/worker/engine.h tests/unit/worker/tiny_model.h tests/unit/unit.h
tests_unit_worker_test_checkpoint_LDADD = $(MODEL_LIBS) $(UNIT_LIBS)
tests_unit_worker_test_stage_SOURCES = tests/unit/worker/test_stage.c $(staged_model) tests/unit/worker/engine.h tests/unit/worker/tiny_model.h tests/unit/unit.h
tests_unit_worker_test_stage_LDADD = $(MODEL_LIBS) $(UNIT_LIBS)
tests_unit_worker_test_freeze_SOURCES = tests/unit/worker/test_freeze.c $(staged_model) tests/unit/worker/engine.h tests/unit/worker/tiny_model.h tests/unit/unit.h
tests_unit_worker_test_freeze_LDADD = $(MODEL_LIBS) $(UNIT_LIBS)
tests_unit_worker_test_drop_SOURCES = tests/unit/worker/test_drop.c $(staged_model) tests/unit/worker/engine.h tests/unit/worker/tiny_model.h tests/unit/unit.h
tests_unit_worker_test_drop_LDADD = $(MODEL_LIBS) $(UNIT_LIBS)
endif

# make bench-train: training steps of the engine on this machine
noinst_PROGRAMS += worker/bench/bench_train
worker_bench_bench_train_SOURCES = worker/bench/bench_train.c \
	worker/bench/group.c worker/bench/group.h \
	worker/bench/masks.c worker/bench/masks.h \
	worker/bench/subject.c worker/bench/subject.h \
	worker/bench/table.c worker/bench/table.h \
	worker/bench/trace.c worker/bench/trace.h
worker_bench_bench_train_LDADD = kernels/bench/libbench.a $(MODEL_LIBS)
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
# make bench-schemes: what pruning, freezing and layer dropout cost in loss, and what they save
.PHONY: bench-schemes
bench-schemes: worker/dynpipe-worker cli/dynpipe
	$(srcdir)/worker/bench/bench_schemes --worker worker/dynpipe-worker --dynpipe cli/dynpipe $(BENCHFLAGS)
# make bench-saving: the saving that a run reports beside the one that it makes
.PHONY: bench-saving
bench-saving: worker/dynpipe-worker cli/dynpipe daemon/dynpiped spank_plugin/spank_dynpipe.so
	$(srcdir)/worker/bench/bench_saving --build . $(BENCHFLAGS)
# make bench-demo: how much of what ./demo --nodes gains is that fewer workers share the cores of one machine
.PHONY: bench-demo
bench-demo: worker/dynpipe-worker cli/dynpipe daemon/dynpiped spank_plugin/spank_dynpipe.so
	$(srcdir)/worker/bench/bench_demo --build . $(BENCHFLAGS)
# make bench-handovers: does a run that lives long leak? make bench-many-slices: what does a run of many slices cost its coordinator?
.PHONY: bench-handovers bench-many-slices
bench-handovers: worker/dynpipe-worker cli/dynpipe daemon/dynpiped spank_plugin/spank_dynpipe.so
	$(srcdir)/worker/bench/bench_endurance handovers --build . $(BENCHFLAGS)
bench-many-slices: worker/dynpipe-worker cli/dynpipe daemon/dynpiped spank_plugin/spank_dynpipe.so
	$(srcdir)/worker/bench/bench_endurance grow --build . $(BENCHFLAGS)
# make bench-slices: from a slice that is drained to the next job on its GPU
.PHONY: bench-slices
bench-slices: worker/dynpipe-worker cli/dynpipe daemon/dynpiped spank_plugin/spank_dynpipe.so
	$(srcdir)/worker/bench/bench_slices --build . $(BENCHFLAGS)
# make bench-pause: for how long does a run stand still when layers move, copied before or not?
.PHONY: bench-pause
bench-pause: worker/dynpipe-worker cli/dynpipe daemon/dynpiped spank_plugin/spank_dynpipe.so
	$(srcdir)/worker/bench/bench_pause --build . $(BENCHFLAGS)
# make bench-copies: what do copies of layers cost a step, and how soon does a run go on that loses a worker?
.PHONY: bench-copies
bench-copies: worker/dynpipe-worker cli/dynpipe daemon/dynpiped spank_plugin/spank_dynpipe.so
	$(srcdir)/worker/bench/bench_copies --build . $(BENCHFLAGS)
EXTRA_DIST += worker/bench/bench_copies worker/bench/bench_demo worker/bench/bench_endurance worker/bench/bench_pause worker/bench/bench_saving worker/bench/bench_schemes \
	worker/bench/schemes/README.md worker/bench/schemes/arms.py worker/bench/schemes/costs.py worker/bench/schemes/layouts.py \
	worker/bench/schemes/report.py worker/bench/schemes/runs.py worker/bench/bench_simulator worker/bench/bench_slices tests/bench/lib.sh tests/bench/fake_llmc.c worker/bench/bench_peers worker/bench/peer_llmc.c worker/bench/peer_torch.py \
	worker/bench/train_pruned
dist_check_SCRIPTS += tests/bench/bench_demo.t tests/bench/bench_endurance.t tests/bench/bench_handover.t tests/bench/bench_linear.t tests/bench/bench_messages.t tests/bench/bench_pause.t tests/bench/bench_peers.t tests/bench/bench_saving.t tests/bench/bench_schemes.t tests/bench/bench_simulator.t tests/bench/bench_slices.t tests/bench/bench_train.t
TESTS += tests/bench/bench_demo.t tests/bench/bench_endurance.t tests/bench/bench_handover.t tests/bench/bench_linear.t tests/bench/bench_messages.t tests/bench/bench_pause.t tests/bench/bench_peers.t tests/bench/bench_saving.t tests/bench/bench_schemes.t tests/bench/bench_simulator.t tests/bench/bench_slices.t tests/bench/bench_train.t

check_PROGRAMS += tests/torch/dump_gpt
tests_torch_dump_gpt_SOURCES = tests/torch/dump_gpt.c
tests_torch_dump_gpt_LDADD = $(MODEL_LIBS)
dist_check_SCRIPTS += tests/torch/gpt_vs_torch.t
EXTRA_DIST += tests/torch/gpt_vs_torch.py
TESTS += tests/torch/gpt_vs_torch.t

# ---- tests and benchmarks of several workers ----
# make bench-messages: what workers of one node pay for messages
noinst_PROGRAMS += worker/bench/bench_messages
worker_bench_bench_messages_SOURCES = worker/bench/bench_messages.c worker/bench/messages.c worker/bench/messages.h \
	worker/bench/workers.c worker/bench/workers.h
worker_bench_bench_messages_LDADD = kernels/bench/libbench.a $(WORKER_LIBS)
.PHONY: bench-messages
bench-messages: worker/bench/bench_messages
	worker/bench/bench_messages $(BENCHFLAGS)
# make bench-handover: how fast layers go from one worker to another, beside as many bytes as messages
noinst_PROGRAMS += worker/bench/bench_handover
worker_bench_bench_handover_SOURCES = worker/bench/bench_handover.c worker/bench/layers.c worker/bench/layers.h \
	worker/bench/masks.c worker/bench/masks.h worker/bench/workers.c worker/bench/workers.h
worker_bench_bench_handover_LDADD = kernels/bench/libbench.a $(WORKER_LIBS)
.PHONY: bench-handover
bench-handover: worker/bench/bench_handover
	worker/bench/bench_handover $(BENCHFLAGS)
# make endurance: one run with 1000 hand-overs that are copied before, and 100 workers that are lost, whose copies are promoted
.PHONY: endurance
endurance: tests/unit/worker/test_endurance
	tests/unit/worker/test_endurance --handovers 1000 --promotions 100 $(ENDURANCEFLAGS)
# make killed-calls: kill -9 of workers at 30 system calls each of copied hand-overs, also beside pruning, hand-overs to copies, steps with
# copies and promotions
.PHONY: killed-calls
killed-calls: tests/unit/worker/test_killed_calls
	tests/unit/worker/test_killed_calls --plays 30 $(KILLEDFLAGS)

if HAVE_CMOCKA
runtime_tests = tests/unit/worker/test_initial_layout tests/unit/worker/test_memory_limit tests/unit/worker/test_step_sync tests/unit/worker/test_save_clock tests/unit/policies/test_schedule tests/unit/worker/test_collectives tests/unit/worker/test_transport tests/unit/worker/test_shadowing tests/unit/worker/test_copies \
	tests/unit/worker/test_layers_golden tests/unit/worker/test_peer_messages tests/unit/worker/test_signals
check_PROGRAMS += $(runtime_tests)
TESTS += $(runtime_tests)
tests_unit_worker_test_initial_layout_SOURCES = tests/unit/worker/test_initial_layout.c tests/unit/unit.h
tests_unit_worker_test_initial_layout_LDADD = worker/train/libdptrain.a $(MODEL_LIBS) $(UNIT_LIBS)
tests_unit_worker_test_memory_limit_SOURCES = tests/unit/worker/test_memory_limit.c tests/unit/unit.h
tests_unit_worker_test_memory_limit_LDADD = worker/train/libdptrain.a common/libdpcommon.a $(UNIT_LIBS)
tests_unit_worker_test_save_clock_SOURCES = tests/unit/worker/test_save_clock.c tests/unit/unit.h
tests_unit_worker_test_save_clock_LDADD = worker/train/libdptrain.a worker/step/libdpstep.a common/libdpcommon.a $(UNIT_LIBS)
tests_unit_worker_test_step_sync_SOURCES = tests/unit/worker/test_step_sync.c tests/unit/worker/procs.c tests/unit/worker/procs.h tests/unit/unit.h
tests_unit_worker_test_step_sync_LDADD = $(WORKER_LIBS) $(UNIT_LIBS)
tests_unit_policies_test_schedule_SOURCES = tests/unit/policies/test_schedule.c tests/unit/unit.h
tests_unit_policies_test_schedule_LDADD = $(WORKER_LIBS) $(UNIT_LIBS)
tests_unit_worker_test_collectives_SOURCES = tests/unit/worker/test_collectives.c tests/unit/worker/procs.c tests/unit/worker/procs.h tests/unit/unit.h
tests_unit_worker_test_collectives_LDADD = $(WORKER_LIBS) $(UNIT_LIBS)
tests_unit_worker_test_transport_SOURCES = tests/unit/worker/test_transport.c tests/unit/worker/procs.c tests/unit/worker/procs.h tests/unit/unit.h
tests_unit_worker_test_transport_LDADD = $(WORKER_LIBS) $(UNIT_LIBS)
tests_unit_worker_test_copies_SOURCES = tests/unit/worker/test_copies.c tests/unit/worker/engine.h tests/unit/worker/tiny_model.h tests/unit/worker/procs.c tests/unit/worker/procs.h tests/unit/unit.h
tests_unit_worker_test_copies_LDADD = $(WORKER_LIBS) $(UNIT_LIBS)
tests_unit_worker_test_shadowing_SOURCES = tests/unit/worker/test_shadowing.c tests/unit/worker/engine.h tests/unit/worker/tiny_model.h tests/unit/worker/procs.c tests/unit/worker/procs.h tests/unit/unit.h
tests_unit_worker_test_shadowing_LDADD = $(WORKER_LIBS) $(UNIT_LIBS)
tests_unit_worker_test_layers_golden_SOURCES = tests/unit/worker/test_layers_golden.c tests/unit/worker/layers_golden.h \
	tests/unit/worker/engine.h tests/unit/golden.h tests/unit/unit.h
tests_unit_worker_test_layers_golden_LDADD = $(WORKER_LIBS) $(UNIT_LIBS)
tests_unit_worker_test_peer_messages_SOURCES = tests/unit/worker/test_peer_messages.c tests/unit/worker/peer_messages_golden.h \
	tests/unit/worker/engine.h tests/unit/worker/procs.c tests/unit/worker/procs.h tests/unit/unit.h
tests_unit_worker_test_peer_messages_LDADD = $(WORKER_LIBS) $(UNIT_LIBS)
tests_unit_worker_test_signals_SOURCES = tests/unit/worker/test_signals.c tests/unit/unit.h
tests_unit_worker_test_signals_LDADD = worker/train/libdptrain.a worker/step/libdpstep.a $(MODEL_LIBS) $(UNIT_LIBS)
endif
# A device for the worker's tests: the cpu's operations, as late as the interface allows.
check_PROGRAMS += tests/lib/late_backend.so
tests_lib_late_backend_so_SOURCES = tests/lib/late_backend.c
tests_lib_late_backend_so_CFLAGS = $(AM_CFLAGS) -fPIC -fvisibility=hidden
tests_lib_late_backend_so_LDFLAGS = $(SHARED_LINK) -shared -Wl,--version-script=$(top_srcdir)/kernels/cuda/plugin.lds
tests_lib_late_backend_so_LDADD = kernels/libdpkernels.a common/libdpcommon.a $(KERNELS_LIBS)

dist_check_SCRIPTS += tests/e2e/0100-layouts.t tests/e2e/0101-freezing.t tests/e2e/0105-late-device.t tests/e2e/0107-device-link.t tests/e2e/0110-worker-guards.t
TESTS += tests/e2e/0100-layouts.t tests/e2e/0101-freezing.t tests/e2e/0105-late-device.t tests/e2e/0110-worker-guards.t
if HAVE_CUDA_EMU
TESTS += tests/e2e/0107-device-link.t
endif

if HAVE_CMOCKA
if HAVE_CUDA_EMU
check_PROGRAMS += tests/unit/worker/test_device_link
TESTS += tests/unit/worker/test_device_link
tests_unit_worker_test_device_link_SOURCES = tests/unit/worker/test_device_link.c tests/unit/worker/procs.c tests/unit/worker/procs.h tests/unit/unit.h
tests_unit_worker_test_device_link_LDADD = $(WORKER_LIBS) $(UNIT_LIBS)
tests_unit_worker_test_device_link_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dp_transport_send
EXTRA_tests_unit_worker_test_device_link_DEPENDENCIES = kernels/cuda/emu/libdynpipe-cuda-emu.so
endif
handover_tests = tests/unit/worker/test_metrics tests/unit/worker/test_handover \
	tests/unit/worker/test_handover_faults tests/unit/worker/test_handover_calls tests/unit/worker/test_device_calls tests/unit/worker/test_regroup tests/unit/worker/test_rescue tests/unit/worker/test_rescue_plan \
	tests/unit/worker/test_start tests/unit/worker/test_endurance tests/unit/worker/test_killed_calls tests/unit/worker/test_hindered \
	tests/unit/worker/test_copied_moves \
	tests/unit/worker/test_stocking
check_PROGRAMS += $(handover_tests)
TESTS += $(handover_tests)
tests_unit_worker_test_metrics_SOURCES = tests/unit/worker/test_metrics.c tests/unit/unit.h
tests_unit_worker_test_metrics_LDADD = worker/train/libdptrain.a lib/libdpmember.a common/libdpcommon.a $(UNIT_LIBS)
handover_world = tests/unit/worker/handover_daemons.c tests/unit/worker/handover_worker.c tests/unit/worker/handover_world.h tests/unit/worker/fakedaemon.c \
	tests/unit/worker/fakedaemon.h tests/unit/worker/procs.c tests/unit/worker/procs.h tests/unit/unit.h
tests_unit_worker_test_handover_SOURCES = tests/unit/worker/test_handover.c $(handover_world)
tests_unit_worker_test_handover_LDADD = $(WORKER_LIBS) $(UNIT_LIBS)
tests_unit_worker_test_handover_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dp_transport_send
tests_unit_worker_test_regroup_SOURCES = tests/unit/worker/test_regroup.c tests/unit/worker/fakedaemon.c tests/unit/worker/fakedaemon.h \
	tests/unit/worker/procs.c tests/unit/worker/procs.h tests/unit/worker/run_files.c tests/unit/worker/run_files.h tests/unit/unit.h
tests_unit_worker_test_regroup_LDADD = $(WORKER_LIBS) $(UNIT_LIBS)
tests_unit_worker_test_regroup_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dp_metrics_step,--wrap=dp_start_again,--wrap=dp_ckpt_commit,--wrap=dp_copies_destroy
tests_unit_worker_test_rescue_SOURCES = tests/unit/worker/test_rescue.c tests/unit/worker/fakedaemon.c tests/unit/worker/fakedaemon.h \
	tests/unit/worker/procs.c tests/unit/worker/procs.h tests/unit/worker/run_files.c tests/unit/worker/run_files.h tests/unit/unit.h
tests_unit_worker_test_rescue_LDADD = $(WORKER_LIBS) $(UNIT_LIBS)
tests_unit_worker_test_rescue_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dp_transport_give_up_when,--wrap=dp_pipeline_train,--wrap=dp_step_sync \
	-Wl,--wrap=dp_collectives_broadcast,--wrap=dp_handover_poll,--wrap=dp_metrics_step,--wrap=dp_prune_select,--wrap=dp_pipeline_eval \
	-Wl,--wrap=dp_ckpt_commit,--wrap=dp_handover_run,--wrap=dp_member_vote_yes,--wrap=dp_transfer_create,--wrap=dp_tied_head_renew \
	-Wl,--wrap=dp_control_prepare,--wrap=dp_pace_budget
tests_unit_worker_test_rescue_plan_SOURCES = tests/unit/worker/test_rescue_plan.c tests/unit/unit.h
tests_unit_worker_test_rescue_plan_LDADD = $(WORKER_LIBS) $(UNIT_LIBS)
run_world = tests/unit/worker/run_world.c tests/unit/worker/run_world.h tests/unit/worker/run_files.c tests/unit/worker/run_files.h \
	tests/unit/worker/fakedaemon.c tests/unit/worker/fakedaemon.h tests/unit/unit.h
tests_unit_worker_test_endurance_SOURCES = tests/unit/worker/test_endurance.c $(run_world)
tests_unit_worker_test_endurance_LDADD = $(WORKER_LIBS) $(UNIT_LIBS)
tests_unit_worker_test_killed_calls_SOURCES = tests/unit/worker/test_killed_calls.c $(run_world)
tests_unit_worker_test_killed_calls_LDADD = $(WORKER_LIBS) $(UNIT_LIBS)
tests_unit_worker_test_stocking_SOURCES = tests/unit/worker/test_stocking.c tests/unit/worker/failing_device.c tests/unit/worker/failing_device.h \
	$(run_world)
tests_unit_worker_test_stocking_LDADD = $(WORKER_LIBS) $(UNIT_LIBS)
tests_unit_worker_test_copied_moves_SOURCES = tests/unit/worker/test_copied_moves.c $(run_world)
tests_unit_worker_test_copied_moves_LDADD = $(WORKER_LIBS) $(UNIT_LIBS)
tests_unit_worker_test_hindered_SOURCES = tests/unit/worker/test_hindered.c tests/unit/worker/failing_device.c \
	tests/unit/worker/failing_device.h $(run_world)
tests_unit_worker_test_hindered_LDADD = $(WORKER_LIBS) $(UNIT_LIBS)
tests_unit_worker_test_hindered_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dp_backend_create,--wrap=dp_backend_destroy \
	-Wl,--wrap=dp_layer_from_head,--wrap=dp_transfer_create
tests_unit_worker_test_start_SOURCES = tests/unit/worker/test_start.c tests/unit/worker/engine.h tests/unit/worker/tiny_model.h tests/unit/unit.h
tests_unit_worker_test_start_LDADD = $(WORKER_LIBS) $(UNIT_LIBS)
tests_unit_worker_test_handover_faults_SOURCES = tests/unit/worker/test_handover_faults.c $(handover_world)
tests_unit_worker_test_handover_faults_LDADD = $(WORKER_LIBS) $(UNIT_LIBS)
tests_unit_worker_test_handover_faults_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dp_transport_send,--wrap=clock_gettime
tests_unit_worker_test_device_calls_SOURCES = tests/unit/worker/test_device_calls.c tests/unit/worker/failing_device.c \
	tests/unit/worker/failing_device.h tests/unit/worker/engine.h tests/unit/worker/tiny_model.h tests/unit/unit.h
tests_unit_worker_test_device_calls_LDADD = $(WORKER_LIBS) $(UNIT_LIBS)
tests_unit_worker_test_handover_calls_SOURCES = tests/unit/worker/test_handover_calls.c tests/unit/worker/failing_device.c \
	tests/unit/worker/failing_device.h $(handover_world)
tests_unit_worker_test_handover_calls_LDADD = $(WORKER_LIBS) $(UNIT_LIBS)
tests_unit_worker_test_handover_calls_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dp_transport_send
endif

EXTRA_DIST += worker/README.md worker/bench/README.md worker/checkpoint/README.md worker/copies/README.md worker/handover/README.md worker/model/README.md worker/net/README.md worker/scheme/README.md worker/shadow/README.md worker/step/README.md worker/train/README.md worker/train/log/README.md \
	worker/train/lost/README.md worker/train/start/README.md
