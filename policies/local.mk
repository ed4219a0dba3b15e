# SPDX-License-Identifier: BSD-3-Clause
# Policies and their models: pure functions, no clock, no sockets.
noinst_LIBRARIES += policies/libdppolicy.a
policies_libdppolicy_a_SOURCES = \
	policies/balancer.c policies/balancer.h \
	policies/solve/chain.c policies/solve/chain.h \
	policies/decide/decide.c policies/decide/decide.h \
	policies/baselines/deepspeed.c \
	policies/baselines/deepspeed_range.c \
	policies/solve/diffuse.c policies/solve/diffuse.h \
	policies/diffusion.c \
	policies/baselines/dynmo.c \
	policies/baselines/dynmo_diffusion.c \
	policies/baselines/first_fit.c policies/baselines/first_fit.h \
	policies/solve/front.c policies/solve/front.h \
	policies/helpers.c \
	policies/iteration.c \
	policies/keep.c \
	policies/nicol.c policies/solve/nicol.c policies/solve/nicol.h \
	policies/decide/pack.c policies/decide/pack.h policies/decide/pack_lasting.c \
	policies/decide/pack_sets.c policies/decide/pack_sets.h \
	policies/param.c \
	policies/solve/partition.c policies/solve/partition.h policies/solve/partition_depth.c policies/solve/partition_depth.h \
	policies/solve/partition_links.c policies/solve/partition_links.h policies/solve/partition_near.c policies/solve/partition_near.h \
	policies/policy.c policies/policy.h \
	policies/decide/promise.c policies/decide/promise.h \
	policies/decide/pruning.c policies/decide/pruning.h \
	policies/question.c policies/question.h \
	policies/decide/release_when.c policies/decide/release_when.h \
	policies/decide/saving.c policies/decide/saving.h policies/decide/saving_json.c policies/decide/saving_json.h \
	policies/sim/answer.c \
	policies/sim/balance.c policies/sim/balance.h policies/sim/balance_chain.c policies/sim/balance_chain.h \
	policies/sim/case.c policies/sim/case.h \
	policies/sim/links.c policies/sim/links.h \
	policies/decide/correction.c policies/decide/correction.h \
	policies/sim/fields.c policies/sim/fields.h \
	policies/sim/iteration.c policies/sim/iteration.h policies/sim/lower_bound.c \
	policies/sim/implied.c policies/sim/implied.h \
	policies/sim/order.c policies/sim/order.h policies/sim/order_1f1b.c policies/sim/order_gpipe.c \
	policies/sim/order_interleaved.c policies/sim/order_zb_h1.c \
	policies/sim/predict.c policies/sim/predict.h \
	policies/sim/program.c policies/sim/program.h \
	policies/sim/read.c policies/sim/read.h policies/sim/read_graph.c policies/sim/read_graph.h \
	policies/sim/recut.c policies/sim/recut.h policies/sim/replan.c policies/sim/replan.h policies/sim/read_model.c policies/sim/read_trace.c policies/sim/trace_parts.c policies/sim/trace_parts.h \
	policies/sim/run.c policies/sim/run.h \
	policies/sim/stages.c policies/sim/stages.h \
	policies/decide/ways.c policies/decide/ways.h \
	policies/time.c \
	policies/time_comm.c \
	policies/baselines/torchgpipe.c \
	policies/decide/trade.c policies/decide/trade.h \
	policies/uniform.c

# What a site compiles its own policies against: etc/examples/headroom.c shows how. Each policy brings its
# own copy of the helpers, so that nothing but struct dp_policy lies between it and the daemon.
policyincludedir = $(includedir)/dynpipe
nobase_policyinclude_HEADERS = common/err.h common/layout.h common/load.h policies/policy.h
lib_LIBRARIES = policies/libdynpipe-policy.a
policies_libdynpipe_policy_a_SOURCES = common/err.c common/layout.c common/megatron.c policies/solve/chain.c \
	policies/solve/chain.h policies/helpers.c policies/solve/partition.c policies/solve/partition.h policies/solve/partition_depth.c \
	policies/solve/partition_depth.h policies/solve/partition_links.c policies/solve/partition_links.h policies/solve/partition_near.c \
	policies/solve/partition_near.h policies/question.c policies/question.h
policies_libdynpipe_policy_a_CFLAGS = $(AM_CFLAGS) -fPIC
pkgconfigdir = $(libdir)/pkgconfig
pkgconfig_DATA = etc/dynpipe-policy.pc

# make bench-balance: what the balancers take, on chains of any size
noinst_PROGRAMS += policies/bench/bench_balance
policies_bench_bench_balance_SOURCES = policies/bench/bench_balance.c
policies_bench_bench_balance_LDADD = policies/libdppolicy.a common/libdpcommon.a -lm
.PHONY: bench-balance
bench-balance: policies/bench/bench_balance
	policies/bench/bench_balance
# make bench-reference: what each reference makes of pruned runs
noinst_PROGRAMS += policies/bench/bench_reference
policies_bench_bench_reference_SOURCES = policies/bench/bench_reference.c policies/bench/recorded_loads.h
policies_bench_bench_reference_LDADD = policies/libdppolicy.a common/libdpcommon.a -lm
.PHONY: bench-reference
bench-reference: policies/bench/bench_reference
	policies/bench/bench_reference
dist_check_SCRIPTS += tests/bench/bench_reference.t
TESTS += tests/bench/bench_reference.t
# make paper: the papers' setting, simulated
.PHONY: paper
paper: cli/dynpipe
	$(srcdir)/policies/sim/paper/paper --dynpipe cli/dynpipe $(PAPERFLAGS)
EXTRA_DIST += policies/sim/paper/densities.jq policies/sim/paper/densities.json policies/sim/paper/model.jq policies/sim/paper/paper \
	policies/sim/paper/paper.gp policies/sim/paper/published.txt policies/sim/paper/study.jq

if HAVE_CMOCKA
policy_tests = tests/unit/test_balance_chain tests/unit/test_balancers tests/unit/test_best_layout tests/unit/test_diffusion tests/unit/test_partition tests/unit/test_sim_iteration tests/unit/test_sim_run tests/unit/test_sim_wide tests/unit/test_pack tests/unit/test_policy tests/unit/test_promise tests/unit/test_pruning tests/unit/test_saving
policy_libs = policies/libdppolicy.a common/libdpcommon.a $(CMOCKA_LIBS) -lm
check_PROGRAMS += $(policy_tests)
TESTS += $(policy_tests)
tests_unit_test_balance_chain_SOURCES = tests/unit/test_balance_chain.c tests/unit/unit.h tests/unit/random.h
tests_unit_test_balance_chain_LDADD = $(policy_libs)
tests_unit_test_balancers_SOURCES = tests/unit/test_balancers.c tests/unit/snapshots.h tests/unit/unit.h tests/unit/random.h
tests_unit_test_balancers_LDADD = $(policy_libs)
tests_unit_test_best_layout_SOURCES = tests/unit/test_best_layout.c tests/unit/snapshots.h tests/unit/unit.h tests/unit/random.h
tests_unit_test_best_layout_LDADD = $(policy_libs)
tests_unit_test_diffusion_SOURCES = tests/unit/test_diffusion.c tests/unit/unit.h tests/unit/random.h
tests_unit_test_diffusion_LDADD = $(policy_libs)
tests_unit_test_partition_SOURCES = tests/unit/test_partition.c tests/unit/unit.h tests/unit/random.h
tests_unit_test_partition_LDADD = $(policy_libs)
tests_unit_test_sim_iteration_SOURCES = tests/unit/test_sim_iteration.c tests/unit/unit.h tests/unit/random.h
tests_unit_test_sim_iteration_LDADD = $(policy_libs)
tests_unit_test_sim_run_SOURCES = tests/unit/test_sim_run.c tests/unit/unit.h tests/unit/random.h
tests_unit_test_sim_run_LDADD = policies/libdppolicy.a policies/libdpgraph.a $(policy_libs) $(JANSSON_LIBS)
tests_unit_test_sim_wide_SOURCES = tests/unit/test_sim_wide.c tests/unit/unit.h tests/unit/random.h
tests_unit_test_sim_wide_LDADD = $(policy_libs)
tests_unit_test_pruning_SOURCES = tests/unit/test_pruning.c policies/bench/recorded_loads.h tests/unit/unit.h
tests_unit_test_pruning_LDADD = $(policy_libs)
tests_unit_test_saving_SOURCES = tests/unit/test_saving.c tests/unit/unit.h
tests_unit_test_saving_LDADD = $(policy_libs)
tests_unit_test_pack_SOURCES = tests/unit/test_pack.c tests/unit/unit.h tests/unit/random.h
tests_unit_test_pack_LDADD = $(policy_libs)
tests_unit_test_promise_SOURCES = tests/unit/test_promise.c tests/unit/unit.h tests/unit/random.h
tests_unit_test_promise_LDADD = $(policy_libs)
tests_unit_test_policy_SOURCES = tests/unit/test_policy.c tests/unit/unit.h tests/unit/random.h
tests_unit_test_policy_LDADD = $(policy_libs)
endif
